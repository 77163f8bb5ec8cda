"""What commands write can be shown anywhere and commands no terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.interfaces.cli.output import measure_text, sanitize, shorten


@given(st.text())
def test_no_control_character_reaches_a_terminal(text: str) -> None:
    """Line breaks and tabs stay, all other control characters become visible signs."""
    shown = sanitize(text)

    assert len(shown) == len(text)
    assert all(letter in "\n\t" or letter >= " " for letter in shown)
    assert not any("\x7f" <= letter <= "\x9f" for letter in shown)


@given(st.text(), st.integers(1, 40))
def test_a_shortened_text_fits(text: str, columns: int) -> None:
    """It never takes more columns than there are, and it is one line."""
    shown = shorten(text, columns)

    assert measure_text(shown) <= columns
    assert "\n" not in shown


@pytest.mark.parametrize(
    ("text", "columns"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("🎉", 2), ("", 0)]
)
def test_wide_letters_take_two_columns_and_marks_none(text: str, columns: int) -> None:
    """Columns are what a terminal shows, not how many characters there are."""
    assert measure_text(text) == columns


def test_a_cut_text_says_so() -> None:
    """An ellipsis stands where something is missing."""
    assert shorten("one two three", 8) == "one two…"
