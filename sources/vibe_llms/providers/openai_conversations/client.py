"""The service of ``openai_conversations``: where it is, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from vibe_llms.exceptions import DependencyError
from vibe_llms.plain import JsonObject
from vibe_llms.providers.completions import CompletionsVendor
from vibe_llms.providers.openai_conversations.controls import QUIRKS
from vibe_llms.secrets import Secret


def _check_word(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else "a text"


class OpenAIVendor(CompletionsVendor):
    """OpenAI, or by its package Azure."""

    base_url = "https://api.openai.com/v1"
    key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    quirks = QUIRKS
    further_settings: ClassVar[Mapping[str, Any]] = dict.fromkeys(
        ("api_version", "azure_deployment", "azure_endpoint", "organization", "project"),
        _check_word,
    )

    def compose_headers(self, key: Secret | None, native: JsonObject) -> Mapping[str, str | Secret]:
        """Returns the key, and for whom the request is."""
        values = self.settings.values
        named = {
            f"openai-{name}": str(values[name])
            for name in ("organization", "project")
            if name in values
        }
        return {**super().compose_headers(key, native), **named}

    def produce_sdk_client(self, key: Secret | None) -> Any:
        """Makes a client of OpenAI's package: for Azure where the settings name its endpoint.

        Raises:
            DependencyError: The package is not installed.
        """
        try:
            import openai
        except ImportError as error:
            raise DependencyError(
                package="openai",
                detail="The transport 'sdk' needs the package openai, which is not installed.",
                remedy='Install it: pip install "vibe-llms[openai]"',
            ) from error
        values = self.settings.values
        common: dict[str, Any] = {
            "api_key": None if key is None else key.reveal(),
            "organization": values.get("organization"),
            "project": values.get("project"),
            "max_retries": 0,
        }
        if "azure_endpoint" in values:
            return openai.AsyncAzureOpenAI(
                azure_endpoint=values["azure_endpoint"],
                azure_deployment=values.get("azure_deployment"),
                api_version=values.get("api_version"),
                **common,
            )
        return openai.AsyncOpenAI(base_url=self.settings.base_url, **common)
