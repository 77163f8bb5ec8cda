"""Extraction of the one JSON value in a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from vibe_llms.instruments.parsers.json_reader import JsonFault, JsonReader, read_values
from vibe_llms.instruments.parsers.target_types import Unfit
from vibe_llms.invocables.argument_faults import ArgumentFault, shorten

_FENCE: Final = re.compile(r"^ *(```+|~~~+) *\w* *\n(.*?)^ *\1 *$", re.DOTALL | re.MULTILINE)


def extract(text: str, fits: Callable[[Any], bool], openings: str = "{") -> Any:
    """Return the JSON value in a text: the text itself, a fenced block of it, or among prose.

    Trailing commas before a closing bracket and line breaks within strings are accepted. Nothing is
    guessed: if the text contains several values, exactly one of them must be valid.

    Args:
        openings: The characters with which a value among prose may begin.

    Raises:
        Unfit: There is no value, or several are possible.
    """
    text = text.strip()
    if not text:
        raise Unfit(ArgumentFault(path="answer", rule="is empty"))
    try:
        return read_whole(text)
    except JsonFault as fault:
        # A fence marks the value; in prose, brackets may mean anything.
        values = _read_fences(text) or [value for value, _, _ in read_values(text, openings)]
        if values:
            return _choose(values, fits)
        raise Unfit(ArgumentFault(path="answer", rule=_explain(fault, text, openings))) from fault


def read_whole(text: str) -> Any:
    """Read a text that is one JSON value and nothing else. Raises JsonFault."""
    try:
        # Python's own parser is faster, and most answers are valid JSON; the package's own parser
        # tolerates mistakes.
        return json.loads(text, strict=False, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        reader = JsonReader()
        left = reader.feed(text)
        value = reader.finish()
        if text[len(text) - left :].strip():
            raise JsonFault("more text after the value", len(text) - left) from None
        return value


def _refuse_constant(word: str) -> Any:
    # `NaN` and `Infinity`, which Python accepts and JSON lacks.
    raise ValueError(word)


def _read_fences(text: str) -> list[Any]:
    values = []
    for found in _FENCE.finditer(text):
        try:
            values.append(read_whole(found[2].strip()))
        except JsonFault:
            continue
    return values


def _choose(values: list[Any], fits: Callable[[Any], bool]) -> Any:
    distinct = list({json.dumps(value, sort_keys=True): value for value in values}.values())
    if len(distinct) == 1:
        return distinct[0]
    fitting = [value for value in distinct if fits(value)]
    if len(fitting) == 1:
        return fitting[0]
    rule = f"contains {len(distinct)} different JSON values instead of one"
    raise Unfit(ArgumentFault(path="answer", rule=rule))


def _explain(fault: JsonFault, text: str, openings: str) -> str:
    if text[0] not in openings:
        return f"contains no JSON: {shorten(text)}"
    before = text[max(0, fault.position - 30) : fault.position]
    return f"is not valid JSON: {fault}, after {before!r}"
