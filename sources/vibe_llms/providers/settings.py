"""What a user may set for a provider that is reached over the network."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
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
    if isinstance(value, str):  # a variable stands for a whole address, or for a part of one
        value = _VARIABLE.sub("variable", re.sub(r"^\{\w+\}", "https://variable", value))
    return is_web_address(value)


def _refuse_query(address: str) -> str:
    if "?" in address or "#" in address:
        raise ValueError(
            "It must be an address without what follows ? or #, as paths are added to it."
        )
    return address


ADDRESS: Final = Kind(
    "an address, as https://example.org/v1", _is_address, _refuse_query, is_shown=False
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
"""The settings that every remote provider has, and what each must be."""

TRANSPORTS: Final = ("direct", "sdk")
"""The transports that ship; plugins bring others."""

TLS_FILES: Final = ("certificate_authorities", "client_certificate", "client_key")
"""The settings that name files (PEM)."""

_LEFT_TO_PACKAGES: Final = (*TLS_FILES, "connect_seconds", "headers", "proxy")
"""What holds for our own connections only: an official package has its own."""


@frozen(kw_only=True)
class RemoteSettings:
    """The checked settings.

    Attributes:
        values: All of them, those of the vendor's own included; relative paths begin where the
            file of the configuration is.
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
        return None if value is None else Path(value)


def read_settings(
    context: ProviderContext,
    base_url: str,
    further: Mapping[str, Kind] | None = None,
    *,
    variables: Sequence[str] = (),
    versions: Sequence[str] = (),
) -> RemoteSettings:
    """Checks a remote provider's table in the configuration.

    Args:
        base_url: Of the vendor, where the user names none. It may name variables of the
            environment, as ``https://{RESOURCE}.example.org/v1``.
        further: What this vendor can be told besides.
        variables: Of the environment, which can name another address than the vendor's.
        versions: See :func:`strip_version`.

    Raises:
        ConfigurationError: With all the mistakes in it.
    """
    reader = TableReader(locate_by_name(f"providers.{context.name}"))
    values = reader.read_fields({**SETTINGS, **(further or {})}, context.settings)
    _check_transport(context, reader)
    reader.finish()
    files = {name for name in (*TLS_FILES, "api_key_file") if name in values}
    values = {
        **values,
        **{name: str(context.find_base(name) / Path(values[name]).expanduser()) for name in files},
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
    """Returns the address that the settings name, else the environment, else the vendor's."""
    written, place = str(values.get("base_url", "")), "base_url"
    if not written:
        named = [name for name in variables if os.environ.get(name, "").strip()]
        written, place = (os.environ[named[0]].strip(), named[0]) if named else (base_url, place)
    used = _VARIABLE.findall(written)
    filled = _VARIABLE.sub(_fill, written)
    # What is missing is complained of when somebody is asked: other commands go without it.
    if filled and not _VARIABLE.search(filled):
        reader = TableReader(locate_by_name(" and ".join(used) or place))
        ADDRESS.read(filled, (), reader)
        reader.finish()
    return filled.rstrip("/")


def strip_version(base_url: str, versions: Sequence[str]) -> str:
    """Return an address without the version at its end, with which the vendor's paths begin.

    Args:
        versions: Last segments that are one.
    """
    address, _, last = base_url.rpartition("/")
    return address.rstrip("/") if last in versions and not address.endswith("/") else base_url


def _fill(match: re.Match[str]) -> str:
    return os.environ.get(match[1], "").strip().rstrip("/") or match[0]


def _check_transport(context: ProviderContext, reader: TableReader) -> None:
    """Checks that a transport is there, and that it obeys what else is set."""
    name = context.settings.get("transport")
    if name == "sdk":
        for ignored in _LEFT_TO_PACKAGES:
            if ignored in context.settings:
                message = "It does not reach the official package: transport = 'sdk' goes without"
                reader.report((ignored,), f"{message} it.")
    elif is_text(name) and name not in TRANSPORTS:
        known = [*TRANSPORTS, *(each.name for each in context.survey_transports())]
        if name not in known:
            reader.report(("transport",), f"There is no transport {name!r}{end_among(name, known)}")
