"""What commands write can be shown anywhere and commands no terminal."""

from __future__ import annotations

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.interfaces.cli.output import measure_text, sanitize, shorten, write_table


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


class Screen(io.StringIO):
    """A terminal that remembers what was written."""

    def isatty(self) -> bool:
        return True


def open_screen(monkeypatch: pytest.MonkeyPatch, columns: int) -> Screen:
    """Lets what is written go to a screen so wide."""
    screen = Screen()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    return screen


@pytest.mark.parametrize("columns", [64, 72, 100, 200])
def test_a_table_fits_its_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """The last column gives way first, then the widest; the first, with the ids, stays whole."""
    screen = open_screen(monkeypatch, columns)

    write_table(
        [("id123", "2026-11-21", "a:rather/long/name", "日本語の長い長い名前です" * 3)],
        headers=("id", "when", "model", "name"),
    )

    header, line = screen.getvalue().splitlines()
    assert max(map(measure_text, (header, line))) <= columns
    assert header.startswith("id     ")
    assert line.startswith("id123  ")
    assert header.index("when") == line.index("2026")


@pytest.mark.parametrize("columns", [24, 30, 40])
def test_in_a_narrow_terminal_cells_follow_each_other(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    """Where columns would keep a few letters each, names and dates can still be read and copied."""
    screen = open_screen(monkeypatch, columns)

    write_table(
        [("id123", "2026-11-21", "", "a:rather/long/name", "what was said " * 9)],
        headers=("id", "when", "size", "model", "name"),
    )

    lines = screen.getvalue().splitlines()
    assert max(map(measure_text, lines)) <= columns
    assert any(line.startswith("id123  2026-11-21") for line in lines)
    assert any("a:rather/long/name" in line for line in lines)
    assert lines[-1].endswith("…")


@pytest.mark.parametrize("columns", [30, 80, 132])
def test_what_is_to_be_done_is_never_cut(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """A remedy of which the end is missing is none."""
    remedy = (
        "Set TOUCAN_API_KEY, or api_key_file in [providers.toucan], "
        "or run: vibe credentials set toucan"
    )
    screen = open_screen(monkeypatch, columns)

    write_table(
        [("toucan", "needs TOUCAN_API_KEY", remedy)],
        headers=("provider", "state", "what to do"),
        whole=True,
    )

    assert remedy in " ".join(screen.getvalue().split())
    assert max(map(len, screen.getvalue().splitlines())) <= columns


def test_a_table_in_a_pipe_is_parted_by_tabs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is cut where a program reads, and every line is a row."""
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)

    write_table([("a", "b" * 300)], headers=("first", "second"))

    assert out.getvalue() == "a\t" + "b" * 300 + "\n"
