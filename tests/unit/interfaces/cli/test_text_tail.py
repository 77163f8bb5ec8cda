"""A text on a terminal whose end may still change."""

from __future__ import annotations

import io
import os

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.interfaces.cli import text_tail
from vibe_llms.interfaces.cli.output import measure_text
from vibe_llms.interfaces.cli.text_tail import TextTail

COLUMNS, ROWS = 20, 8


class Terminal(io.StringIO):
    """A terminal that shows what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.screen = pyte.HistoryScreen(COLUMNS, ROWS, history=1_000, ratio=0.5)
        self.stream = pyte.Stream(self.screen)

    def write(self, text: str) -> int:
        self.stream.feed(text)
        return len(text)

    def read(self, *_: object) -> str:
        """Return the text, with a space between rows."""
        history = [
            "".join(line[column].data for column in range(COLUMNS))
            for line in self.screen.history.top
        ]
        return " ".join(" ".join([*history, *self.screen.display]).split())


def view(terminal: Terminal) -> TextTail:
    return TextTail(terminal, lambda: os.terminal_size((COLUMNS, ROWS)))


def test_text_that_may_change_is_replaced() -> None:
    terminal = Terminal()
    text = view(terminal)
    text.add("The bridge")
    text.show(" is clothes")
    assert terminal.read() == "The bridge is clothes"

    text.show(" is closed to")
    assert terminal.read() == "The bridge is closed to"
    text.add(" is closed.")
    assert terminal.read() == "The bridge is closed."
    text.show(" Turn")
    text.finish()
    assert terminal.read() == "The bridge is closed."
    assert terminal.screen.cursor.x == 0


@pytest.mark.parametrize("text", ["\x1b[2Jgone", "\x1b]0;title\x07", "a\rb", "\u202eb"])
def test_text_sends_no_commands_to_the_terminal(text: str) -> None:
    terminal = Terminal()
    shown = view(terminal)
    shown.add("Closed. ")
    shown.show(text)
    shown.add(text)

    assert terminal.read().startswith("Closed. ")
    assert terminal.screen.title == ""


WORDS = st.text("abc", min_size=1, max_size=26)
STEPS = st.lists(
    st.tuples(st.booleans(), st.lists(WORDS, min_size=1, max_size=9)), min_size=1, max_size=12
)


@given(STEPS)
def test_only_final_text_remains(steps: list[tuple[bool, list[str]]]) -> None:
    """Texts that were shown in between leave no trace, not even above the window."""
    terminal = Terminal()
    text = view(terminal)
    final = ""
    for is_final, words in steps:
        piece = "".join(f"{word} " for word in words)
        if is_final:
            text.add(piece)
            final += piece
        else:
            text.show(piece)
    text.finish()

    assert terminal.read().replace(" ", "") == final.replace(" ", "")


@pytest.mark.parametrize("letter", [" ", "\u0301"], ids=["space", "accent"])
def test_letters_without_a_column_cost_their_number(
    letter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spaces at the end of a row, and accents, never fill a row."""
    measured = 0

    def count(text: str) -> int:
        nonlocal measured
        measured += len(text)
        return measure_text(text)

    monkeypatch.setattr(text_tail, "measure_text", count)
    totals = []
    for number in (3000, 6000):
        measured = 0
        tail = TextTail(io.StringIO(), lambda: os.terminal_size((COLUMNS, ROWS)))
        tail.add("a" + letter * number)
        tail.finish()
        totals.append(measured)

    assert totals[1] < 2.5 * totals[0]
