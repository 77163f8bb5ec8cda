"""Shared parts of OpenAI's two protocols: one service, one key, and one official package."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.optional_packages import advise_extra, needing
from vibe_llms.foundation.secrets import Secret
from vibe_llms.models.genera import Genus
from vibe_llms.providers.common_formats import OPENAI, produce_common_format
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.requirements import Requirement, find_packages
from vibe_llms.providers.settings import RemoteSettings
from vibe_llms.providers.vendors import Vendor
from vibe_llms.tables.kinds import TEXT, Kind

if TYPE_CHECKING:
    from vibe_llms.dialects.call_quirks import CompletionQuirks
    from vibe_llms.dialects.calls import CallFormat
    from vibe_llms.providers.batches import VendorBatches
    from vibe_llms.providers.uploads import VendorFiles
    from vibe_llms.providers.vendors import VendorClient

SIBLINGS: Final = (
    ("openai_conversations", "chat_completions"),
    ("openai_responses", "responses"),
)
"""The two protocols of the service, which share the account and uploaded files."""

_ACCOUNT_VARIABLES: Final = {"organization": "OPENAI_ORG_ID", "project": "OPENAI_PROJECT_ID"}
"""Environment variables with the organization and the project, as in the official package."""


class OpenAIService(Vendor):
    """OpenAI, or Azure with OpenAI's package."""

    base_url = "https://api.openai.com/v1"
    base_url_variables = ("OPENAI_BASE_URL",)
    key_variables = ("OPENAI_API_KEY",)
    request_id_headers = ("x-request-id", "apim-request-id")
    upload_bytes = 10_000_000  # a request may have 50 MB
    file_types: tuple[str, ...] = ("file",)
    """Types of contents for which a message can have the id of a file."""
    further_settings: ClassVar[Mapping[str, Kind]] = dict.fromkeys(
        ("azure_api_version", "azure_endpoint", "organization", "project"), TEXT
    )

    def read_settings(self) -> RemoteSettings:
        """Check the user's settings: only the official package can reach Azure."""
        settings = super().read_settings()
        if settings.values.get("transport") != "sdk":
            place = f"providers.{self.context.name}"
            message = "Azure requires transport = 'sdk'."
            findings = tuple(
                Finding(place=f"{place}.{name}", message=message)
                for name in settings.values
                if name.startswith("azure_")
            )
            if findings:
                raise ConfigurationError(findings=findings)
        return settings

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Return the key, and its organization and project."""
        headers = super().compose_headers(key, native)
        if not self._is_at_openai():
            return headers
        headers = dict(headers)
        for name, variable in _ACCOUNT_VARIABLES.items():
            identity = str(self.settings.values.get(name) or os.environ.get(variable, "")).strip()
            if identity:
                headers[f"openai-{name}"] = identity
        return headers

    def _is_at_openai(self) -> bool:
        """Return whether the account is at OpenAI, to which these environment variables apply."""
        settings = self.settings
        return settings.base_url == self.base_url or not _ACCOUNT_VARIABLES.keys().isdisjoint(
            settings.values
        )

    def produce_batches(self, client: VendorClient, path: str) -> VendorBatches | None:
        """Return the file batches; ``None`` for Azure, which has other paths."""
        if "azure_endpoint" in self.settings.values:
            return None
        from vibe_llms.providers.openai_batches import PATHS, FileBatches

        if path not in PATHS:
            return None

        return FileBatches(client, path)

    def produce_files(self, client: VendorClient) -> VendorFiles | None:
        """Return the files; ``None`` for Azure, which has other paths."""
        if "azure_endpoint" in self.settings.values:
            return None
        from vibe_llms.providers.openai_files import OpenAIFiles

        return OpenAIFiles(client, self.file_types)

    def find_call_format(self, genus: Genus, model: ModelDescriptor) -> CallFormat[Any, Any] | None:
        """Return the call format of the service's own path for a genus."""
        call_format = produce_common_format(genus, OPENAI, model.name)
        if call_format is None or "azure_endpoint" not in self.settings.values:
            return call_format
        return attrs.evolve(call_format, live=None)  # Azure has other addresses for it

    def find_completions(self, model: ModelDescriptor) -> CompletionQuirks | None:
        """Return the quirks of completions, which only older models have."""
        return OPENAI.completions

    def survey_requirements(self) -> tuple[Requirement, ...]:
        """Return the missing requirements."""
        requirements = super().survey_requirements()
        if self.settings.values.get("transport") != "sdk":
            return requirements
        return (*requirements, *find_packages(("openai",), advise_extra("openai", "openai")))

    def produce_sdk_client(self, key: Secret | None) -> Any:
        """Make the official library's client, for Azure if an endpoint is set.

        Without a key, the package looks for a key and for its other settings itself.

        Raises:
            ConfigurationError: The library rejects the settings.
            DependencyError: The package openai is not installed.
        """
        with needing("openai", "openai", "The transport 'sdk'"):
            import openai
        try:
            return self._produce_client(openai, key)
        except (openai.OpenAIError, ValueError) as error:
            message = f"The package openai rejects these settings: {error}"
            raise ConfigurationError.at(f"providers.{self.context.name}", message) from error

    def _produce_client(self, openai: Any, key: Secret | None) -> Any:
        values = self.settings.values
        common: dict[str, Any] = {
            "api_key": None if key is None else key.reveal(),
            "organization": values.get("organization"),
            "project": values.get("project"),
            "max_retries": 0,
        }
        if "azure_endpoint" not in values:
            return openai.AsyncOpenAI(base_url=self.settings.base_url, **common)
        return openai.AsyncAzureOpenAI(
            azure_endpoint=values["azure_endpoint"],
            azure_deployment=values.get("azure_deployment"),
            api_version=values.get("azure_api_version"),
            **common,
        )
