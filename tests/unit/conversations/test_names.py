"""A name is one line that lists can show; what was kept before there was a bound still reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.names import MAXIMUM_CHARACTERS, read_name
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.exceptions import RequestError


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("  A nice walk ", "A nice walk"),
        (" \n", None),
        ("", None),
        ("x" * MAXIMUM_CHARACTERS, "x" * MAXIMUM_CHARACTERS),
        # What joins letters, and what turns their direction.
        ("\u200f\u0645\u06cc\u200c\u062e 👩\u200d👧", "\u200f\u0645\u06cc\u200c\u062e 👩\u200d👧"),
    ],
)
def test_a_name_is_kept_without_spaces_around_it(given: str, kept: str | None) -> None:
    assert read_name(given) == kept


@pytest.mark.parametrize("letter", ["\n", "\r", "\0", "\x1b", "\x85", "\u2028", "\u2029", "\ud800"])
def test_what_ends_a_line_or_controls_a_terminal_is_refused(letter: str) -> None:
    with pytest.raises(RequestError) as refused:
        read_name(f"ab{letter}c")
    said = str(refused.value)
    assert f"Character 3 of the name is U+{ord(letter):04X}" in said
    assert said.isprintable()


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(RequestError, match=r"has 100,000 characters.*at most 200"):
        read_name("x" * 100_000)


@given(st.text())
def test_what_is_kept_is_a_line_and_is_kept_again(text: str) -> None:
    try:
        name = read_name(text)
    except RequestError:
        return
    if name is None:
        assert not text.strip()
    else:
        assert len(name.splitlines()) == 1
        assert len(name) <= MAXIMUM_CHARACTERS
        assert read_name(name) == name


def test_what_was_kept_before_is_read() -> None:
    store, name = MemoryStore(), "two\nlines" * 20_000
    store.create("a", ConversationMetadata(name=name))
    assert store.read_metadata("a").name == name
