"""Plain data: what can be written, and what is written alike."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.foundation.json_types import escape_surrogates, is_encodable, is_same

TEXTS = st.text(st.characters(categories=["L", "P", "S", "Cs"]), max_size=5)


@given(TEXTS)
def test_what_is_made_whole_can_be_written_and_what_was_whole_stays(text: str) -> None:
    whole = escape_surrogates(text)

    assert whole.encode("utf-8").decode("utf-8") == whole
    assert is_encodable(whole)
    assert (whole == text) == is_encodable(text)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("name", "name"),
        ("größer 😀", "größer 😀"),
        ("caf\udce9", "caf\\udce9"),
        ("\ud83d\ude00", "😀"),
        ("\ude00\ud83d", "\\ude00\\ud83d"),
        ("ä\ud800", "ä\\ud800"),
    ],
)
def test_halves_are_joined_or_can_be_seen(text: str, whole: str) -> None:
    assert escape_surrogates(text) == whole
    assert is_encodable(text) == (text == whole)


@pytest.mark.parametrize("text", ["name", "caf\udce9"])
def test_of_a_text_that_behaves_otherwise_the_text_is_taken(text: str) -> None:
    """As some libraries mark theirs: what is kept is a plain one, and no code of theirs has run."""

    class Marked(str):
        def __str__(self) -> str:
            return "marked"

        def encode(self, *arguments: str) -> bytes:
            return b"marked"

    taken = escape_surrogates(Marked(text))

    assert type(taken) is str
    assert taken == escape_surrogates(text)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (True, True, True),
        (False, True, False),
        (True, 1, False),
        (0, False, False),
        (1, 1.0, True),
        ("a", "b", False),
        (None, None, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": None}, {"b": None}, False),
        ({}, [], False),
        ([], {}, False),
        ([1, [2]], (1, (2,)), True),
        ([1, 2], [1, 2, 3], False),
        ([1, 2, 3], [1, 2], False),
        ([1], [True], False),
        ([[1]], [[True]], False),
        ("ab", ["a", "b"], False),
    ],
)
def test_values_are_the_same_where_they_are_written_alike(
    first: Any, second: Any, expected: bool
) -> None:
    """In JSON ``true`` is not 1, though in Python it is."""
    assert is_same(first, second) is expected
