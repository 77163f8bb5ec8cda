"""A service of a kind, or of the user's own: its address and requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from vibe_llms.dialects.call_quirks import CallQuirks, EmbeddingQuirks, RankingQuirks
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


def _check_kind(name: str) -> str:
    known = read_services()
    if name not in known:
        raise ValueError(f"Unknown kind {name!r}{end_among(name, known)}")
    return name


_UNKNOWN: Final = Quirks(fields={"max_tokens": "max_tokens"})
"""Assumed quirks of a service of the user's own."""


_UNKNOWN_CALLS: Final = CallQuirks(
    embeddings=EmbeddingQuirks(most_texts=32), rankings=RankingQuirks(most_texts=32)
)
"""The same of its other calls; 32 texts are the default limit of TEI, the smallest."""


class CompatibleVendor(CompletionsVendor):
    """One service that speaks Chat Completions; its kind is set in the settings, or is its name."""

    base_url = ""
    needs_key = False  # a service that requires one answers with status 401
    further_settings: ClassVar[Mapping[str, Kind]] = {
        "kind": Kind("the name of a kind", is_text, _check_kind),
        "quirks": QUIRKS,
    }

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings, including the quirks. Raises ConfigurationError."""
        service = self._find_service()
        if service:
            self.base_url, self.base_url_variables = service.base_url, service.base_url_variables
        settings = super().read_settings()
        if not settings.base_url:
            place = f"providers.{self.context.name}"
            message = f"It needs a base_url, or a kind: {', '.join(read_services())}."
            raise ConfigurationError.at(place, message)
        self._models = service.models if service else ()
        quirks = service.quirks if service else _UNKNOWN
        said = settings.values.get("quirks", {})
        self.quirks = add_quirks(quirks, said)
        self._known = self.quirks if service else add_quirks(Quirks(), said)
        if service:
            is_remote = not service.start and "base_url" not in settings.values
            self.key_variables = service.key_variables
            self.needs_key = is_remote and bool(service.key_variables)
            self.server_command = service.start
        return settings

    @property
    def call_quirks(self) -> CallQuirks:
        """The quirks of its calls: those of the kind, or of a service of the user's own."""
        service = self._find_service()
        return _UNKNOWN_CALLS if service is None else service.calls

    @property
    def known_quirks(self) -> Quirks:
        """The quirks of the kind and the settings; none for a service of the user's own."""
        return self._known

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the models, if the service has a list. Raises ConverseError."""
        if not self._models:
            return await super().survey(client)
        from vibe_llms.providers.surveys import SurveyedModel

        return [SurveyedModel(name=name) for name in self._models]

    def _find_service(self) -> CompatibleService | None:
        name = self.context.settings.get("kind", self.context.name)
        return read_services().get(name) if isinstance(name, str) else None
