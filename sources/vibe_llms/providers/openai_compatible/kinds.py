"""Services as data: where they are, which key they take, and what they do differently."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.package_data import access_data
from vibe_llms.tables.annotations import Date, OptionalKind, String, Strings, survey_kinds
from vibe_llms.tables.documents import read_document
from vibe_llms.tables.kinds import TABLE, Kind
from vibe_llms.tables.reading import KeyPath, TableReader

NOTHING: Final = "none"
"""How a file says that a quirk has no value, for which TOML has no word."""


@frozen(kw_only=True)
class CompatibleService:
    """One service, of a kind that a user can name.

    Attributes:
        base_url: With its version.
        key_variables: The environment variables of its key; none where it takes no key.
        base_url_variables: Those that name another address.
        models: The names of its models, where it has no list to be asked for.
        start: The command that starts it, where it is a server of one's own, which needs no key.
        source: What the row was written from.
        date: When that was read, as ``2026-11-22``.
    """

    name: str
    summary: str
    base_url: str
    key_variables: Strings = ()
    base_url_variables: Strings = ()
    models: Strings = ()
    start: String = ""
    quirks: Quirks
    source: str
    date: Date


class QuirksKind(Kind):
    """A table of quirks; what is kept of it is what :func:`add_quirks` takes."""

    __slots__ = ()

    def read(self, value: Any, path: KeyPath, reader: TableReader) -> Any:
        kinds = survey_kinds(Quirks)
        table = {
            name: None if each == NOTHING and isinstance(kinds.get(name), OptionalKind) else each
            for name, each in reader.survey(path, value)
        }
        return reader.read_fields(kinds, table, path)


QUIRKS: Final = QuirksKind("a table of quirks", TABLE.is_right)


def add_quirks(base: Quirks, values: Mapping[str, Any]) -> Quirks:
    """Returns quirks on top of others; fields are added to the fields that there are."""
    fields = {**base.fields, **values.get("fields", {})}
    return attrs.evolve(base, **{**values, "fields": fields})


@cache
def read_services(path: Path | None = None) -> Mapping[str, CompatibleService]:
    """Reads the services by the names of their kinds; by default those that ship.

    Raises:
        ConfigurationError: With all the mistakes in the file.
    """
    path = path or access_data("providers", "openai_compatible", "kinds.toml")
    document = read_document(path)
    reader = document.produce_reader()
    services = {}
    for name in document.tree:
        row = dict(reader.survey((name,), document.tree[name]))
        quirks = QUIRKS.read(row.pop("quirks", {}), (name, "quirks"), reader)
        services[name] = reader.read(
            CompatibleService, row, (name,), name=name, quirks=add_quirks(Quirks(), quirks)
        )
    reader.finish()
    return {name: service for name, service in services.items() if service is not None}
