"""A service of a known kind, or another service of the user: its address and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from vibe_llms.dialects.call_quirks import (
    CallQuirks,
    CompletionQuirks,
    EmbeddingQuirks,
    IllustrationQuirks,
    RankingQuirks,
    SpeechQuirks,
    TranscriptionQuirks,
)
from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.suggestions import end_among
from vibe_llms.providers.completions import CompletionsVendor
from vibe_llms.providers.openai_compatible.kinds import (
    QUIRKS,
    CompatibleService,
    add_quirks,
    read_services,
)
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.vendors import VendorClient
from vibe_llms.tables.kinds import Kind, is_text

if TYPE_CHECKING:
    from vibe_llms.providers.surveys import SurveyedModel
    from vibe_llms.providers.uploads import VendorFiles


def _check_kind(name: str) -> str:
    services = read_services()
    if name not in services:
        raise ValueError(f"Unknown kind {name!r}{end_among(name, services)}")
    return name


UPLOAD_BYTES: Final = 10_000_000
"""Default of the setting ``upload_bytes`` for services with files."""

_DEFAULT_QUIRKS: Final = Quirks(fields={"max_tokens": "max_tokens"}, cache_marks="cache_control")
"""Assumed quirks of a service of no known kind."""


_DEFAULT_CALL_QUIRKS: Final = CallQuirks(
    embeddings=EmbeddingQuirks(max_texts=32),
    rankings=RankingQuirks(max_texts=32),
    illustrations=IllustrationQuirks(max_images=1, base64_word="b64_json"),
    speeches=SpeechQuirks(),
    transcriptions=TranscriptionQuirks(),
    completions=CompletionQuirks(),
)
"""Assumed quirks of its other calls. 32 texts is the default limit of TEI, the lowest of all."""


class CompatibleVendor(CompletionsVendor):
    """A service with the Chat Completions protocol.

    The kind of the service is a setting, by default the name.
    """

    base_url = ""
    needs_key = False  # if the service requires a key, it answers with status 401
    further_settings: ClassVar[Mapping[str, Kind]] = {
        "kind": Kind("the name of a kind", is_text, _check_kind),
        "quirks": QUIRKS,
    }

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings, including the quirks. Raises ConfigurationError."""
        service = self._find_service()
        if service:
            self.base_url, self.base_url_variables = service.base_url, service.base_url_variables
            self.upload_bytes = UPLOAD_BYTES if service.upload_purpose else 0
        settings = super().read_settings()
        if not settings.base_url:
            place = f"providers.{self.context.name}"
            message = f"It needs a base_url, or a kind: {', '.join(read_services())}."
            raise ConfigurationError.at(place, message)
        self._models = service.models if service else ()
        quirks = service.quirks if service else _DEFAULT_QUIRKS
        changes = settings.values.get("quirks", {})
        self.quirks = add_quirks(quirks, changes)
        self._known_quirks = self.quirks if service else add_quirks(Quirks(), changes)
        if service:
            is_remote = not service.start and "base_url" not in settings.values
            self.key_variables = service.key_variables
            self.needs_key = is_remote and bool(service.key_variables)
            self.server_command = service.start
        return settings

    def produce_files(self, client: VendorClient) -> VendorFiles | None:
        """Return the files, if the service has some for messages."""
        service = self._find_service()
        if service is None or not service.upload_purpose:
            return None
        from vibe_llms.providers.openai_files import OpenAIFiles

        return OpenAIFiles(client, ("file",), purpose=service.upload_purpose, expires=False)

    @property
    def call_quirks(self) -> CallQuirks:
        """Quirks of the service's calls: quirks of the kind, or assumed quirks."""
        service = self._find_service()
        return _DEFAULT_CALL_QUIRKS if service is None else service.calls

    @property
    def known_quirks(self) -> Quirks:
        """The quirks of the kind and the settings, without assumed ones."""
        return self._known_quirks

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the models, if the service has a list. Raises ConverseError."""
        if not self._models:
            return await super().survey(client)
        from vibe_llms.providers.surveys import SurveyedModel

        return [SurveyedModel(name=name) for name in self._models]

    def _find_service(self) -> CompatibleService | None:
        name = self.context.settings.get("kind", self.context.name)
        return read_services().get(name) if isinstance(name, str) else None
