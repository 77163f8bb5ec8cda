"""The service of a kind, or of the user's own: where it is, and how it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.nearness import suggest_among
from vibe_llms.providers.completions import CompletionsVendor
from vibe_llms.providers.openai_compatible.kinds import Kind, read_kinds, read_quirks
from vibe_llms.providers.settings import RemoteSettings, read_settings


def _check_kind(value: Any) -> str | None:
    kinds = read_kinds()
    if isinstance(value, str) and value in kinds:
        return None
    return f"one of {', '.join(kinds)}{suggest_among(str(value), tuple(kinds))}"


def _check_quirks(value: Any) -> str | None:
    return None if isinstance(value, Mapping) else "a table of quirks"


class CompatibleVendor(CompletionsVendor):
    """One service that speaks Chat Completions; its kind is that of the settings, or its name."""

    base_url = ""
    needs_key = False  # whoever wants one says so by the status 401
    further_settings: ClassVar[Mapping[str, Any]] = {"kind": _check_kind, "quirks": _check_quirks}

    def read_settings(self) -> RemoteSettings:
        """Checks the user's settings, the quirks among them. Raises ConfigurationError."""
        values, place = self.context.settings, f"providers.{self.context.name}"
        kind = self._find_kind()
        settings = read_settings(
            self.context,
            kind.base_url if kind else "",
            self.further_settings,
            variables=kind.base_url_variables if kind else (),
        )
        base = kind.quirks if kind else Quirks(fields={"max_tokens": "max_tokens"})
        self.quirks, findings = read_quirks(values.get("quirks", {}), f"{place}.quirks", base)
        if not settings.base_url:
            message = f"It needs a base_url, or a kind: {', '.join(read_kinds())}."
            findings = (*findings, Finding(place=place, message=message))
        if findings:
            raise ConfigurationError(findings=findings)
        if kind:
            is_service = bool(kind.key_variables) and not kind.start and "base_url" not in values
            self.key_variables = kind.key_variables  # type: ignore[misc]
            self.needs_key = is_service  # type: ignore[misc]
            self.server_command = kind.start  # type: ignore[misc]
        return settings

    def _find_kind(self) -> Kind | None:
        name = self.context.settings.get("kind", self.context.name)
        return read_kinds().get(name) if isinstance(name, str) else None
