"""Heads of whole answers are those of all answers, or are left to them."""

from __future__ import annotations

import pytest

from vibe_llms.daemons.server.heads import compose_head, compose_whole, encode_values

DATE = b"date: x\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "application/json"},
        {"content-type": "text/plain", "X-100%": "100 %d", "empty": ""},
        {"content-type": "text/plain", "x-name": "Zürich"},
    ],
)
@pytest.mark.parametrize("status", [200, 429])
def test_a_whole_head_is_the_head_and_its_length(status: int, headers: dict[str, str]) -> None:
    head, length, closes = compose_head(
        status, tuple(headers), encode_values(headers.values()), DATE
    )

    assert compose_whole(status, headers, DATE, 7) == head + b"content-length: 7\r\n\r\n"
    assert (length, closes) == (None, False)


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {"x": "a\r\nb: c"}),
        (200, {"x": "a\nb"}),
        (200, {"x": "a\0b"}),
        (200, {"x": "\udcff"}),
        (200, {"x y": "a"}),
        (200, {"Connection": "close"}),
        (200, {"content-length": "9"}),
        (204, {"x": "a"}),
        (304, {"x": "a"}),
        (99, {"x": "a"}),
    ],
)
def test_unusual_heads_are_left_to_the_general_road(status: int, headers: dict[str, str]) -> None:
    assert compose_whole(status, headers, DATE, 7) is None
