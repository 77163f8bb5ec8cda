"""What a user may set for a provider that is reached over the network."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import attrs

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.nearness import end_among
from vibe_llms.plugins.specification import ProviderContext
from vibe_llms.providers.rates import Rates
from vibe_llms.secrets import Secret
from vibe_llms.wire.exchanges import Timeouts

_Check = Callable[[Any], str | None]
_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _check_text(value: Any) -> str | None:
    return None if isinstance(value, str) and value.strip() else "a text"


def _check_seconds(value: Any) -> str | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (
        None if is_number and value > 0 else "a number of seconds above 0, or inf to wait for ever"
    )


def _check_count(value: Any) -> str | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return None if is_count else "a whole number of at least 1"


def _check_address(value: Any) -> str | None:
    if isinstance(value, str):  # a variable stands for a whole address, or for a part of one
        value = _VARIABLE.sub("variable", re.sub(r"^\{\w+\}", "https://variable", value))
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc:
        return "an address, as https://example.org/v1"
    if parts.query or parts.fragment:
        return "an address without what follows ? or #, as paths are added to it"
    return None


def _check_table(value: Any) -> str | None:
    is_table = isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())
    return None if is_table else "a table of texts"


_RATES: Final = tuple(field.name for field in attrs.fields(Rates))
_TIMEOUTS: Final = tuple(field.name for field in attrs.fields(Timeouts))
SETTINGS: Final[Mapping[str, _Check]] = {
    "api_key": _check_text,
    "api_key_file": _check_text,
    "api_key_variable": _check_text,
    "base_url": _check_address,
    "certificate_authorities": _check_text,
    "client_certificate": _check_text,
    "client_key": _check_text,
    "headers": _check_table,
    "model": _check_text,
    "proxy": _check_address,
    "requests_per_minute": _check_count,
    "tokens_per_minute": _check_count,
    "transport": _check_text,
    **dict.fromkeys(_TIMEOUTS, _check_seconds),
}
"""The settings that every remote provider has, and what each must be."""

TRANSPORTS: Final = ("direct", "sdk")
"""The transports that ship; plugins bring others."""

TLS_FILES: Final = ("certificate_authorities", "client_certificate", "client_key")
"""The settings that name files (PEM)."""

_LEFT_TO_PACKAGES: Final = (*TLS_FILES, "connect_seconds", "headers", "proxy")
"""What holds for our own connections only: an official package has its own."""


@attrs.frozen(kw_only=True)
class RemoteSettings:
    """The checked settings.

    Attributes:
        values: All of them, those of the vendor's own included, as the user wrote them.
        base_url: Where the service is; variables of the environment that it names and that are not
            set are still in it, as ``{NAME}``.
        headers: Are sent with each request, in place of ours of the same name; their names are in
            lower case, and their values are the user's secret.
    """

    values: Mapping[str, Any] = attrs.field(repr=False)
    base_url: str
    headers: Mapping[str, Secret] = attrs.field(repr=False)
    timeouts: Timeouts
    model: str
    rates: Rates = Rates()

    @property
    def missing_variables(self) -> tuple[str, ...]:
        """The variables of the environment that the address names and that are not set."""
        return tuple(_VARIABLE.findall(self.base_url))

    def access_secret(self, name: str) -> Secret | None:
        """Returns the text of a setting, if it is set, so that it does not print."""
        return Secret(str(self.values[name])) if name in self.values else None

    def access_path(self, name: str) -> Path | None:
        """Returns the file that a setting names, if it is set."""
        value = self.values.get(name)
        return None if value is None else Path(value).expanduser()


def read_settings(
    context: ProviderContext,
    base_url: str,
    further: Mapping[str, _Check] | None = None,
    *,
    variables: Sequence[str] = (),
) -> RemoteSettings:
    """Checks a remote provider's table in the configuration.

    Args:
        base_url: Of the vendor, where the user names none. It may name variables of the
            environment, as ``https://{RESOURCE}.example.org/v1``.
        further: What this vendor can be told besides.
        variables: Of the environment, which can name another address than the vendor's.

    Raises:
        ConfigurationError: With all the mistakes in it.
    """
    checks = {**SETTINGS, **(further or {})}
    if findings := _check_settings(context, checks):
        raise ConfigurationError(findings=findings)
    values = context.settings
    seconds = {name: values[name] for name in _TIMEOUTS if name in values}
    return RemoteSettings(
        values=values,
        base_url=_find_address(values, base_url, variables),
        headers={name.lower(): Secret(text) for name, text in values.get("headers", {}).items()},
        timeouts=Timeouts(**seconds),
        model=str(values.get("model", "")),
        rates=Rates(**{name: values[name] for name in _RATES if name in values}),
    )


def _find_address(values: Mapping[str, Any], base_url: str, variables: Sequence[str]) -> str:
    """Returns the address that the settings name, else the environment, else the vendor's."""
    written, place = str(values.get("base_url", "")), "base_url"
    if not written:
        named = [name for name in variables if os.environ.get(name, "").strip()]
        written, place = (os.environ[named[0]].strip(), named[0]) if named else (base_url, place)
    used = _VARIABLE.findall(written)
    filled = _VARIABLE.sub(_fill, written)
    if filled and not _VARIABLE.search(filled) and (wanted := _check_address(filled)):
        place = " and ".join(used) or place
        finding = Finding(place=place, message=f"It must be {wanted}.")
        raise ConfigurationError(findings=(finding,))
    return filled.rstrip("/")


def _fill(match: re.Match[str]) -> str:
    return os.environ.get(match[1], "").strip().rstrip("/") or match[0]


def _check_settings(context: ProviderContext, checks: Mapping[str, _Check]) -> tuple[Finding, ...]:
    place = f"providers.{context.name}"
    findings = []
    for name, value in context.settings.items():
        if name not in checks:
            message = f"{name!r} is no setting of this provider{end_among(name, checks)}"
            findings.append(Finding(place=f"{place}.{name}", message=message))
        elif wanted := checks[name](value):
            findings.append(Finding(place=f"{place}.{name}", message=f"It must be {wanted}."))
        elif name == "transport" and value not in TRANSPORTS:
            known = [*TRANSPORTS, *(each.name for each in context.survey_transports())]
            if value not in known:
                message = f"There is no transport {value!r}{end_among(value, known)}"
                findings.append(Finding(place=f"{place}.{name}", message=message))
        elif name in _LEFT_TO_PACKAGES and context.settings.get("transport") == "sdk":
            message = "It does not reach the official package: transport = 'sdk' goes without it."
            findings.append(Finding(place=f"{place}.{name}", message=message))
    return tuple(findings)
