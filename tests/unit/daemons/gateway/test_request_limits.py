"""Limits on the counts in a request: its parts are counted exactly where there may be too many."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from vibe_llms.daemons.gateway.request_limits import GatewayLimits, ensure_bounds
from vibe_llms.exceptions import LimitError

LIMITS = GatewayLimits(parts=3)
TEXT = {"role": "user", "content": "Hi"}
FOUR = [1, 1, 1, 1]


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": FOUR}],
        [TEXT, {"role": "assistant", "content": None, "tool_calls": FOUR}],
        [{"content": "Hi", "parts": FOUR}],
        [{"role": "user", "content": [1, 1]}, {"role": "user", "content": [1, 1]}],
    ],
)
def test_too_many_parts_are_refused(messages: list[Any]) -> None:
    native = {"messages": messages}

    with pytest.raises(LimitError, match="4 parts"):
        ensure_bounds(native, LIMITS, msgspec.json.encode(native))
    with pytest.raises(LimitError, match="4 parts"):
        ensure_bounds(native, LIMITS)


def test_as_many_parts_as_the_limit_are_accepted() -> None:
    native = {"messages": [TEXT, {"role": "user", "content": [1, 1, 1]}, TEXT]}

    ensure_bounds(native, LIMITS, msgspec.json.encode(native))


SMALL = GatewayLimits(messages=1, tools=1, choices=1, schema_properties=1, schema_nodes=6)
TWO = {"type": "object", "properties": {"a": {}, "b": {}}}


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        *(({name: [TEXT, TEXT]}, "messages") for name in ("messages", "input", "contents")),
        ({"request": {"canisters": [TEXT, TEXT]}}, "messages"),
        *(({name: [{}, {}]}, "tools") for name in ("tools", "functions", "invocables")),
        ({"tools": [{"functionDeclarations": [{}, {}]}]}, "tools"),
        ({"n": 2}, "choices"),
        ({"generationConfig": {"candidateCount": 2}}, "choices"),
        ({"generation_config": {"candidate_count": 2}}, "choices"),
        ({"tools": [TWO]}, "schema_properties"),
        ({"response_format": TWO}, "schema_properties"),
        ({"text": TWO}, "schema_properties"),
        ({"output_config": TWO}, "schema_properties"),
        ({"output_format": TWO}, "schema_properties"),
        ({"format": TWO}, "schema_properties"),
        ({"request": {"schema": TWO}}, "schema_properties"),
        ({"generationConfig": {"responseSchema": TWO}}, "schema_properties"),
        ({"response_format": [1, 2, 3, 4, 5, 6]}, "schema_nodes"),
    ],
)
def test_each_field_is_counted_by_itself(fields: dict[str, Any], limit: str) -> None:
    """Whatever else the request has."""
    with pytest.raises(LimitError) as caught:
        ensure_bounds(fields, SMALL, msgspec.json.encode(fields))
    assert caught.value.limit == limit
