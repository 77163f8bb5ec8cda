"""Table of known services: their addresses, keys and quirks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.dialects.call_quirks import CallQuirks
from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.package_data import access_data
from vibe_llms.tables.annotations import Date, OptionalKind, String, Strings, survey_kinds
from vibe_llms.tables.documents import read_document
from vibe_llms.tables.kinds import TABLE, Kind, KindReader
from vibe_llms.tables.paths import KeyPath

NOTHING: Final = "none"
"""Value in a file that stands for null, which TOML does not have."""


@frozen(kw_only=True)
class CompatibleService:
    """One service, of a kind that a user can name.

    Attributes:
        base_url: Its address, with the version.
        key_variables: Environment variables with the key; empty for a service without keys.
        base_url_variables: Environment variables that override the address.
        models: Names of models, for a service that does not list its models.
        upload_purpose: Purpose of uploaded media (``/files``); empty for a service without files.
        start: Command that starts the server, if users run the service themselves; such a server
            needs no key.
        quirks: The quirks of its conversations.
        calls: The quirks of its calls for other genera, such as embeddings.
        source: The source of these data.
        date: The date on which the source was read, as ``2026-11-22``.
    """

    name: str
    summary: str
    base_url: str
    key_variables: Strings = ()
    base_url_variables: Strings = ()
    models: Strings = ()
    upload_purpose: String = ""
    start: String = ""
    quirks: Quirks
    calls: CallQuirks = CallQuirks()
    source: str
    date: Date


class QuirksKind(Kind):
    """A table of quirks; its value is the argument of :func:`add_quirks`."""

    __slots__ = ()

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        kinds = survey_kinds(Quirks)
        table = {
            name: None if each == NOTHING and isinstance(kinds.get(name), OptionalKind) else each
            for name, each in reader.survey(path, value)
        }
        return reader.read_fields(kinds, table, path)


QUIRKS: Final = QuirksKind("a table of quirks", TABLE.is_valid)


_QUIRKS: Final = Quirks(cache_marks="")
"""Quirks of a service whose row says nothing else."""


def add_quirks(base: Quirks, values: Mapping[str, Any]) -> Quirks:
    """Return quirks with some values changed; ``fields`` are merged with the existing ones."""
    fields = {**base.fields, **values.get("fields", {})}
    return attrs.evolve(base, **{**values, "fields": fields})


@cache
def read_services(path: Path | None = None) -> Mapping[str, CompatibleService]:
    """Read the services by kind; by default the shipped ones.

    Raises:
        ConfigurationError: The file is invalid; lists all errors.
    """
    path = path or access_data("providers", "openai_compatible", "kinds.toml")
    document = read_document(path)
    reader = document.produce_reader()
    services = {}
    for name in document.tree:
        row = dict(reader.survey((name,), document.tree[name]))
        quirks = QUIRKS.read(row.pop("quirks", {}), (name, "quirks"), reader)
        services[name] = reader.read(
            CompatibleService, row, (name,), name=name, quirks=add_quirks(_QUIRKS, quirks)
        )
    reader.finish()
    return {name: service for name, service in services.items() if service is not None}
