"""A body that makes no sense is refused in words that are about it."""

from __future__ import annotations

import gzip

import pytest

from vibe_llms.daemons.agents.request_bodies import read_json
from vibe_llms.exceptions import RequestError


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (gzip.compress(b"{}"), "The body is compressed"),
        (b'{"a": "\xff"}', "it is not UTF-8 (byte 7)"),
        (b'{"a": ' + b"[" * 99_999, "it nests too deeply"),
        (b"[]", "Expected `object`, got `array`"),
    ],
    ids=["packed", "of another coding", "deep", "a list"],
)
def test_what_the_daemon_of_agents_cannot_read_is_told_to_be_so(body: bytes, words: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_json(body)
    assert words in str(caught.value)
    assert "codec" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_nothing_is_an_empty_object() -> None:
    assert read_json(b"") == read_json(b"{}") == {}
