"""The service of ``anthropic``: its addresses, requests and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlencode

from vibe_llms.dialects import messages
from vibe_llms.dialects.messages.quirks import Quirks
from vibe_llms.dialects.messages.tables import SAMPLING_FIELDS
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.anthropic.clouds import (
    CLOUDS,
    produce_cloud_client,
    survey_cloud_requirements,
)
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.requirements import Requirement
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.vendor_compaction import compact_messages
from vibe_llms.providers.vendors import Vendor, VendorClient
from vibe_llms.tables.kinds import TEXT, Choice, Kind

if TYPE_CHECKING:
    from vibe_llms.providers.batches import VendorBatches
    from vibe_llms.providers.surveys import SurveyedModel
    from vibe_llms.providers.uploads import VendorFiles

VERSION: Final = "2026-10-21"
"""Version of the protocol, in the header ``anthropic-version``. Source: the PyPI distribution
anthropic 2.12.0.
"""

SAMPLING_VERSION: Final = "2023-06-01"
"""The last version that accepts sampling parameters, such as temperature, which only older models
support."""

_PAGE: Final = 1000

_UNCOUNTED_FIELDS: Final = frozenset(
    {
        "container",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "metadata",
        "service_tier",
        "stop_sequences",
        "stream",
        "temperature",
        "top_k",
        "top_p",
    }
)
"""Parameters that do not affect the token count of a request, and that counting rejects."""


class AnthropicVendor(Vendor):
    """The Messages API."""

    dialect = messages
    base_url = "https://api.anthropic.com"
    base_url_variables: tuple[str, ...] = ("ANTHROPIC_BASE_URL",)
    versions = ("v1",)
    key_variables: tuple[str, ...] = ("ANTHROPIC_API_KEY",)
    request_id_headers = ("request-id", "x-request-id")
    count_field = "input_tokens"
    further_settings: ClassVar[Mapping[str, Kind]] = {
        "cloud": Choice(CLOUDS),
        "project": TEXT,
        "region": TEXT,
        "resource": TEXT,
        "version": TEXT,
    }
    quirks = Quirks()
    compacts = True
    upload_bytes = 5_000_000  # a request may have 32 MB

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings: only the official clients can reach a cloud."""
        if "cloud" in self.context.settings:  # a cloud has another key and address
            self.key_variables = self.base_url_variables = ()
        settings = super().read_settings()
        if "cloud" in settings.values and settings.values.get("transport") != "sdk":
            place = f"providers.{self.context.name}.cloud"
            raise ConfigurationError.at(place, "This cloud requires transport = 'sdk'.")
        return settings

    def compose_count(self, native: JsonObject, model: ModelDescriptor) -> tuple[str, JsonObject]:
        """Return the path and body of the call that counts a request's tokens."""
        body = {name: value for name, value in native.items() if name not in _UNCOUNTED_FIELDS}
        return "/v1/messages/count_tokens", body

    def produce_batches(self, client: VendorClient, path: str) -> VendorBatches | None:
        """Return the Message Batches; ``None`` for a cloud, whose batches are different."""
        if "cloud" in self.settings.values:
            return None
        from vibe_llms.providers.anthropic.batches import MessageBatches

        return MessageBatches(client)

    def produce_files(self, client: VendorClient) -> VendorFiles | None:
        """Return the files; ``None`` for a cloud."""
        if "cloud" in self.settings.values:
            return None
        from vibe_llms.providers.anthropic.files import AnthropicFiles

        return AnthropicFiles(client)

    def prepare_body(self, native: JsonObject) -> JsonObject:
        """Return the body without the parameters that are sent as headers."""
        if "betas" not in native:
            return native
        return {name: value for name, value in native.items() if name != "betas"}

    def request_compaction(self, body: JsonObject, threshold: int | None) -> JsonObject:
        """Return a body with the beta feature that compacts the conversation."""
        return compact_messages(body, threshold)

    def compose_path(self, model: ModelDescriptor, *, streaming: bool) -> str:
        """Return the path, which does not depend on streaming."""
        return "/v1/messages"

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Return the headers: the key, the version of the protocol, and beta features.

        If the request sets a sampling parameter such as temperature, which only older models
        support, the version is an older one, as the newest version rejects these parameters.
        """
        version = SAMPLING_VERSION if _sets_sampling(native) else VERSION
        headers: dict[str, str | Secret] = {
            "anthropic-version": str(self.settings.values.get("version", version))
        }
        betas = native.get("betas")
        if isinstance(betas, (list, tuple)) and betas:
            headers["anthropic-beta"] = ",".join(map(str, betas))
        if key is not None:
            headers["x-api-key"] = key
        return headers

    def produce_sdk_client(self, key: Secret | None) -> Any:
        """Make the official client. Raises ConfigurationError, DependencyError."""
        values = self.settings.values
        if "cloud" not in values:
            values = {**values, "base_url": self.settings.base_url}
        return produce_cloud_client(self.context.name, values, key)

    def survey_requirements(self) -> tuple[Requirement, ...]:
        """Return the missing requirements."""
        requirements, values = super().survey_requirements(), self.settings.values
        if values.get("transport") != "sdk":
            return requirements
        return (*requirements, *survey_cloud_requirements(self.context.name, values))

    async def survey(self, client: VendorClient) -> Sequence[SurveyedModel]:
        """List the available models. Raises ConverseError."""
        models: list[SurveyedModel] = []
        after = ""
        while True:
            query = urlencode({"limit": _PAGE} | ({"after_id": after} if after else {}))
            page: Any = await client.request_json("GET", f"/v1/models?{query}")
            entries = page.get("data") or ()
            models += [_read_model(each) for each in entries if each.get("lifecycle") != "retired"]
            before, after = after, page.get("last_id") or ""
            # Otherwise one page would be requested forever.
            if not page.get("has_more") or not after or after == before:
                return models


def _sets_sampling(native: JsonObject) -> bool:
    """Return whether a request sets sampling parameters, which newer versions reject."""
    return any(native.get(name) is not None for name in SAMPLING_FIELDS)


_CAPABILITIES: Final = {
    "supports_files": ("pdf_input",),
    "supports_images": ("image_input",),
    "supports_reasoning": ("thinking",),
    "supports_adaptive_reasoning": ("thinking", "types", "adaptive"),
    "supports_schema": ("structured_outputs",),
}
"""For each of our capabilities, its path in an entry of the vendor's list of models."""


def _read_model(model: Mapping[str, Any]) -> SurveyedModel:
    from vibe_llms.providers.surveys import SurveyedModel

    supported_by_name = {
        name: _find_supported(model.get("capabilities"), path)
        for name, path in _CAPABILITIES.items()
    }
    return SurveyedModel(
        name=str(model["id"]),
        title=model.get("display_name"),
        context_window_tokens=model.get("max_input_tokens"),
        output_limit_tokens=model.get("max_tokens"),
        capabilities={
            name: "yes" if supported else "no"
            for name, supported in supported_by_name.items()
            if supported is not None
        },
    )


def _find_supported(fields: Any, path: Sequence[str]) -> bool | None:
    """Return whether the capability at a path is supported; ``None`` if the list does not say."""
    for name in path:
        fields = fields.get(name) if isinstance(fields, Mapping) else None
    supported = fields.get("supported") if isinstance(fields, Mapping) else None
    return supported if isinstance(supported, bool) else None
