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
