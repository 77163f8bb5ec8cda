"""Extraction of the one JSON value in a text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from vibe_llms.instruments.parsers.json_reader import JsonFault, JsonReader, read_values
from vibe_llms.instruments.parsers.target_types import InvalidAnswer
from vibe_llms.invocables.argument_faults import ArgumentFault, shorten

_FENCE: Final = re.compile(r"^ *(```+|~~~+) *\w* *\n(.*?)^ *\1 *$", re.DOTALL | re.MULTILINE)


def extract(text: str, is_valid: Callable[[Any], bool], openings: str = "{") -> Any:
    """Return the JSON value in a text: the whole text, a fenced block, or a value among prose.

    Trailing commas before a closing bracket and line breaks within strings are accepted. If the
    text contains several different values, exactly one of them must be valid.

    Args:
        is_valid: Tells valid values from others.
        openings: The characters with which a value among prose may start.

    Raises:
        InvalidAnswer: There is no value, or several are possible.
    """
    text = text.strip()
    if not text:
        raise InvalidAnswer(ArgumentFault(path="answer", rule="is empty"))
    try:
        return read_whole(text)
    except JsonFault as fault:
        # Fenced blocks first: a fence marks the value, but in prose brackets may mean anything.
        values = _read_fences(text) or [value for value, _, _ in read_values(text, openings)]
        if values:
            return _choose(values, is_valid)
        raise InvalidAnswer(
            ArgumentFault(path="answer", rule=_explain(fault, text, openings))
        ) from fault


def read_whole(text: str) -> Any:
    """Read a text that is one JSON value and nothing else. Raises JsonFault."""
    try:
        # Python's own parser is faster, and most answers are valid JSON; the package's own parser
        # tolerates mistakes.
        return json.loads(text, strict=False, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        reader = JsonReader()
        end = len(text) - reader.feed(text)
        value = reader.finish()
        if text[end:].strip():
            raise JsonFault("more text after the value", end) from None
        return value


def _refuse_constant(word: str) -> Any:
    # Called for `NaN` and `Infinity`, which Python's parser accepts although they are not JSON.
    raise ValueError(word)


def _read_fences(text: str) -> list[Any]:
    values = []
    for block in _FENCE.finditer(text):
        try:
            values.append(read_whole(block[2].strip()))
        except JsonFault:
            continue
    return values


def _choose(values: list[Any], is_valid: Callable[[Any], bool]) -> Any:
    # Values that differ only in the order of their members count as one.
    distinct = list({json.dumps(value, sort_keys=True): value for value in values}.values())
    if len(distinct) == 1:
        return distinct[0]
    valid = [value for value in distinct if is_valid(value)]
    if len(valid) == 1:
        return valid[0]
    rule = f"contains {len(distinct)} different JSON values instead of one"
    raise InvalidAnswer(ArgumentFault(path="answer", rule=rule))


def _explain(fault: JsonFault, text: str, openings: str) -> str:
    if text[0] not in openings:
        return f"contains no JSON: {shorten(text)}"
    before = text[max(0, fault.position - 30) : fault.position]
    return f"is not valid JSON: {fault}, after {before!r}"
