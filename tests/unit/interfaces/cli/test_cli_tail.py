"""The bottom of a terminal is rewritten without leaving anything twice."""

from __future__ import annotations

import io
import os

import pyte
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.interfaces.cli.chat.tail import LiveTail, ScreenLine

_COLUMNS, _ROWS = 30, 12


class _Terminal(io.StringIO):
    """A terminal that shows at once what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.screen = pyte.HistoryScreen(_COLUMNS, _ROWS, history=10_000, ratio=0.5)
        self.stream = pyte.Stream(self.screen)

    def write(self, text: str) -> int:
        self.stream.feed(text)
        return len(text)

    def read_lines(self) -> list[str]:
        history = [
            "".join(line[column].data for column in range(_COLUMNS)).rstrip()
            for line in self.screen.history.top
        ]
        shown = [line.rstrip() for line in self.screen.display]
        lines = history + shown
        while lines and not lines[-1]:
            lines.pop()
        return lines


def _produce_tail() -> tuple[_Terminal, LiveTail]:
    terminal = _Terminal()
    return terminal, LiveTail(terminal, lambda: os.terminal_size((_COLUMNS, _ROWS)))


def _lines(*texts: str) -> list[ScreenLine]:
    return [ScreenLine(text, len(text)) for text in texts]


_WORDS = st.text("abc", min_size=1, max_size=12)
_STEPS = st.lists(st.tuples(st.booleans(), st.lists(_WORDS, max_size=20)), max_size=12)


@given(_STEPS)
def test_what_is_shown_is_what_was_settled_and_the_latest_tail(
    steps: list[tuple[bool, list[str]]],
) -> None:
    """Whatever was drawn in between leaves no trace, not even above the window."""
    terminal, tail = _produce_tail()
    settled: list[str] = []
    drawn: list[str] = []

    for is_settled, texts in steps:
        if is_settled:
            tail.settle(_lines(*texts))
            settled += texts
            drawn = []
        else:
            tail.draw(_lines(*texts))
            drawn = texts[-tail.room :]

    assert terminal.read_lines() == settled + drawn


def test_only_lines_that_differ_are_written_again() -> None:
    """A word more costs a line, not the whole tail."""
    written: list[str] = []
    terminal, tail = _produce_tail()
    tail.draw(_lines("one", "two", "thr"))
    terminal.write = lambda text: written.append(text) or len(text)  # type: ignore[method-assign]

    tail.draw(_lines("one", "two", "three"))

    assert "three" in "".join(written)
    assert "two" not in "".join(written)


def test_a_narrower_window_is_cleared_of_all_rows_that_broken_lines_take() -> None:
    """A terminal that has become narrower breaks lines anew; all their rows are rewritten."""
    columns = 30
    written: list[str] = []
    terminal, _ = _produce_tail()
    terminal.write = lambda text: written.append(text) or len(text)  # type: ignore[method-assign]
    tail = LiveTail(terminal, lambda: os.terminal_size((columns, _ROWS)))
    tail.draw(_lines("x" * 25, "y" * 5))
    columns = 10

    tail.draw(_lines("x" * 9, "x" * 9, "x" * 7, "y" * 5))

    assert "\x1b[3A" in written[-1]  # 25 letters take three rows, the last line is the fourth
