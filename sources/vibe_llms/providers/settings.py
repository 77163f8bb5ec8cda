"""Settings of a provider over the network."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import expand_home
from vibe_llms.foundation.secrets import Secret
from vibe_llms.foundation.suggestions import end_among
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.rates import Rates
from vibe_llms.tables.kinds import (
    COUNT,
    TABLE_OF_TEXTS,
    TEXT,
    WAIT,
    Kind,
    is_text,
    is_web_address,
)
from vibe_llms.tables.reading import TableReader, locate_by_name
from vibe_llms.wire.exchanges import Timeouts

_VARIABLE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def _is_address(value: Any) -> bool:
    # An environment variable stands for a whole address, or for a part of one.
    if isinstance(value, str):
        value = _VARIABLE.sub("variable", re.sub(r"^\{\w+\}", "https://variable", value))
    return is_web_address(value)


def _refuse_query(address: str) -> str:
    if "?" in address or "#" in address:
        raise ValueError(
            "It must be an address without a query or fragment, as paths are added to it."
        )
    return address


ADDRESS: Final = Kind(
    "an address, such as https://example.org/v1", _is_address, _refuse_query, is_shown=False
)
_RATES: Final = tuple(field.name for field in attrs.fields(Rates))
_TIMEOUTS: Final = tuple(field.name for field in attrs.fields(Timeouts))
SETTINGS: Final[Mapping[str, Kind]] = {
    "api_key": TEXT,
    "api_key_file": TEXT,
    "api_key_variable": TEXT,
    "base_url": ADDRESS,
    "certificate_authorities": TEXT,
    "client_certificate": TEXT,
    "client_key": TEXT,
    "headers": TABLE_OF_TEXTS,
    "model": TEXT,
    "proxy": ADDRESS,
    "requests_per_minute": COUNT,
    "tokens_per_minute": COUNT,
    "transport": TEXT,
    **dict.fromkeys(_TIMEOUTS, WAIT),
}
"""The settings that every remote provider has, and the kind of each."""

TRANSPORTS: Final = ("direct", "sdk")
"""The built-in transports; plugins can add others."""

TLS_FILES: Final = ("certificate_authorities", "client_certificate", "client_key")
"""The settings that name files (PEM)."""

_LEFT_TO_PACKAGES: Final = (*TLS_FILES, "connect_seconds", "headers", "proxy")
"""Settings of connections, which do not apply to official packages with their own connections."""


@frozen(kw_only=True)
class RemoteSettings:
    """The checked settings.

    Attributes:
        values: All settings, including settings of the vendor. Relative paths start at the folder
            of the configuration file.
        base_url: The service's address; unset environment variables in it are kept as ``{NAME}``.
        headers: Headers that are sent with each request, and override headers of the provider.
            Their names are in lower case, and their values are secret.
        timeouts: Timeouts of requests.
        model: The default model; empty if none is set.
        rates: The user's rate limits.
    """

    values: Mapping[str, Any] = attrs.field(repr=False)
    base_url: str
    headers: Mapping[str, Secret] = attrs.field(repr=False)
    timeouts: Timeouts
    model: str
    rates: Rates = Rates()

    @property
    def missing_variables(self) -> tuple[str, ...]:
        """Unset environment variables in the address."""
        return tuple(_VARIABLE.findall(self.base_url))

    def access_secret(self, name: str) -> Secret | None:
        """Return the text of a setting, if it is set, as a secret."""
        return Secret(str(self.values[name])) if name in self.values else None

    def access_path(self, name: str) -> Path | None:
        """Return the file that a setting names, if it is set."""
        value = self.values.get(name)
        return None if value is None else Path(value)


def read_settings(
    context: ProviderContext,
    base_url: str,
    additional: Mapping[str, Kind] | None = None,
    *,
    variables: Sequence[str] = (),
    versions: Sequence[str] = (),
) -> RemoteSettings:
    """Check a remote provider's table in the configuration.

    Args:
        base_url: The vendor's address, used if the user sets none. It may contain environment
            variables, as ``https://{RESOURCE}.example.org/v1``.
        additional: Additional settings of this vendor.
        variables: Environment variables that override the vendor's address.
        versions: See :func:`strip_version`.

    Raises:
        ConfigurationError: The table is invalid; lists all errors.
    """
    reader = TableReader(locate_by_name(f"providers.{context.name}"))
    values = reader.read_fields({**SETTINGS, **(additional or {})}, context.settings)
    _check_transport(context, reader)
    reader.finish()
    files = {name for name in (*TLS_FILES, "api_key_file") if name in values}
    values = {
        **values,
        **{name: str(context.find_base(name) / expand_home(values[name])) for name in files},
    }
    seconds = {name: values[name] for name in _TIMEOUTS if name in values}
    return RemoteSettings(
        values=values,
        base_url=strip_version(_find_address(values, base_url, variables), versions),
        headers={name.lower(): Secret(text) for name, text in values.get("headers", {}).items()},
        timeouts=Timeouts(**seconds),
        model=str(values.get("model", "")),
        rates=Rates(**{name: values[name] for name in _RATES if name in values}),
    )


def _find_address(values: Mapping[str, Any], base_url: str, variables: Sequence[str]) -> str:
    """Return the address of the settings, else of the environment, else of the vendor."""
    template, origin = str(values.get("base_url", "")), "base_url"
    if not template:
        template = base_url
        for variable in variables:
            if value := os.environ.get(variable, "").strip():
                template, origin = value, variable
                break
    used = _VARIABLE.findall(template)
    filled = _VARIABLE.sub(_insert_variable, template)
    # Missing variables are reported when a request is sent: other commands do not need them.
    if filled and not _VARIABLE.search(filled):
        reader = TableReader(locate_by_name(" and ".join(used) or origin))
        ADDRESS.read(filled, (), reader)
        reader.finish()
    return filled.rstrip("/")


def strip_version(base_url: str, versions: Sequence[str]) -> str:
    """Remove a version from the end of an address, as the vendor's paths begin with one.

    Args:
        versions: The segments that are versions.
    """
    address, _, last = base_url.rpartition("/")
    return address.rstrip("/") if last in versions and not address.endswith("/") else base_url


def _insert_variable(match: re.Match[str]) -> str:
    return os.environ.get(match[1], "").strip().rstrip("/") or match[0]


def _check_transport(context: ProviderContext, reader: TableReader) -> None:
    """Check that a transport exists, and that it supports the other settings."""
    name = context.settings.get("transport")
    if name == "sdk":
        for ignored in _LEFT_TO_PACKAGES:
            if ignored in context.settings:
                reader.report((ignored,), "transport = 'sdk' does not support this setting.")
    elif is_text(name) and name not in TRANSPORTS:
        known = [*TRANSPORTS, *(each.name for each in context.survey_transports())]
        if name not in known:
            reader.report(("transport",), f"Unknown transport {name!r}{end_among(name, known)}")
