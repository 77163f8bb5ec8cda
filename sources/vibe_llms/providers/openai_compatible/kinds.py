"""Services as data: where they are, which key they take, and what they do differently."""

from __future__ import annotations

import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args, get_origin

import attrs

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.nearness import end_among
from vibe_llms.resources import access_data

NOTHING: Final = "none"
"""How a file says that a quirk has no value, for which TOML has no word."""


@attrs.frozen(kw_only=True)
class Kind:
    """One service.

    Attributes:
        base_url: With its version; empty where the user must say it.
        key_variables: The environment variables of its key; none where it takes no key.
        base_url_variables: Those that name another address.
        start: The command that starts it, where it is a server of one's own, which needs no key.
        source: What the row was written from.
        date: When that was read, as ``2026-11-22``.
    """

    name: str
    summary: str
    base_url: str
    key_variables: tuple[str, ...]
    base_url_variables: tuple[str, ...] = ()
    start: str = ""
    quirks: Quirks
    source: str
    date: str


@cache
def read_kinds(path: Path | None = None) -> Mapping[str, Kind]:
    """Reads the kinds by name; by default those that ship.

    Raises:
        ConfigurationError: With all the mistakes in the file.
    """
    path = path or access_data("providers", "openai_compatible", "kinds.toml")
    findings: list[Finding] = []
    kinds = {}
    for name, row in tomllib.loads(path.read_text(encoding="utf-8")).items():
        place = f"{path.name}: {name}"
        found = [Finding(place=place, message=message) for message in _check_row(row)]
        quirks, wrong = read_quirks(row.get("quirks", {}), f"{place}.quirks")
        findings += (*found, *wrong)
        if not found and not wrong:
            kinds[name] = _produce_kind(name, row, quirks)
    if findings:
        raise ConfigurationError(findings=tuple(findings))
    return kinds


def read_quirks(
    table: Mapping[str, Any], place: str, base: Quirks | None = None
) -> tuple[Quirks, tuple[Finding, ...]]:
    """Returns the quirks of a table on top of others, and all the mistakes in it."""
    findings = []
    values: dict[str, Any] = {}
    hints = typing.get_type_hints(Quirks)
    for name, value in table.items():
        if name not in hints:
            near = end_among(name, tuple(hints))
            findings.append(Finding(place=place, message=f"{name!r} is no quirk{near}"))
            continue
        plain = None if value == NOTHING and type(None) in get_args(hints[name]) else value
        wanted = _check_value(plain, hints[name])
        if wanted:
            findings.append(Finding(place=f"{place}.{name}", message=f"It must be {wanted}."))
        else:
            values[name] = plain
    if findings:
        return base or Quirks(), tuple(findings)
    base = base or Quirks()
    if "fields" in values:
        values["fields"] = {**base.fields, **values["fields"]}
    return attrs.evolve(base, **values), ()


def _check_value(value: object, hint: Any) -> str | None:
    """Says what a value must be, if it is not."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return None if value in args else f"one of {', '.join(args)}"
    if origin in (typing.Union, types.UnionType):
        kinds = [arg for arg in args if arg is not type(None)]
        return None if value is None else _check_value(value, kinds[0])
    if origin is tuple:
        is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return None if is_list and value else "a list of texts"
    if origin is not None:
        is_table = isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values())
        return None if is_table else "a table of texts"
    words = {str: "a text", bool: "true or false", int: "a whole number"}
    return None if type(value) is hint else words[hint]


def _check_row(row: Any) -> Iterator[str]:
    if not isinstance(row, Mapping):
        yield "A kind is a table."
        return
    known = {field.name for field in attrs.fields(Kind)} - {"name"}
    for name in row.keys() - known:
        yield f"{name!r} is no field of a kind{end_among(name, tuple(known))}"
    if not isinstance(row.get("start", ""), str):
        yield "'start' must be a text."
    for name in ("summary", "base_url", "source", "date"):
        if not row.get(name) or (name != "date" and not isinstance(row[name], str)):
            yield f"It lacks {name!r}, a text."
    for name in ("key_variables", "base_url_variables"):
        variables = row.get(name, [])
        if not isinstance(variables, list) or not all(isinstance(each, str) for each in variables):
            yield f"{name!r} must be a list of texts."


def _produce_kind(name: str, row: Mapping[str, Any], quirks: Quirks) -> Kind:
    return Kind(
        name=name,
        summary=row["summary"],
        base_url=row["base_url"],
        key_variables=tuple(row.get("key_variables", ())),
        base_url_variables=tuple(row.get("base_url_variables", ())),
        start=row.get("start", ""),
        quirks=quirks,
        source=row["source"],
        date=str(row["date"]),
    )
