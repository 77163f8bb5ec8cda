"""A text on a terminal whose end may still change."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from vibe_llms.interfaces.cli.chat.tail import LiveTail, ScreenLine
from vibe_llms.interfaces.cli.output import measure_text, sanitize, style

_WORD: Final = re.compile(r"\S+\s*|\s+")
_SPACES: Final = re.compile(r"\s")
_LETTERS: Final = 4
"""Most letters of a row for each of its columns: spaces at its end and accents take no column."""


class TextTail:
    """A text that grows at the bottom of a terminal; its end may still change.

    Args:
        file: The terminal.
        measure: Returns the size of its window.
    """

    def __init__(self, file: TextIO, measure: Callable[[], os.terminal_size]) -> None:
        self._file = file
        self._tail = LiveTail(file, measure)
        self._row = ""  # the last row of the final text, which is not full

    def add(self, text: str) -> None:
        """Add final text, in place of the text that may change."""
        *rows, self._row = self._split(self._row + _join_lines(text))
        if rows:
            self._tail.settle([_produce_line(row) for row in rows])
        self.show("")

    def show(self, text: str) -> None:
        """Show text that may change behind the final text, in place of the previous one."""
        left = len(self._row)
        lines = []
        for row in self._split(self._row + _join_lines(text)):
            line = _produce_line(row)
            head, rest = line.text[: max(0, left)], line.text[max(0, left) :]
            left -= len(row)
            shown = head + style(rest, "dim", stream=self._file)
            lines.append(ScreenLine(shown, line.columns))
        self._tail.draw(lines)

    def finish(self) -> None:
        """Remove the text that may change, and end the line."""
        self._tail.settle([_produce_line(self._row)])
        self._row = ""

    def _split(self, text: str) -> list[str]:
        """Break a text into full rows and a last one."""
        columns = max(1, self._tail.measure().columns)
        rows = [""]
        for word in _WORD.findall(text):
            for part in _cut(word, columns):
                if not _fits(rows[-1] + part, columns):
                    rows.append("")
                rows[-1] += part
        return rows


def _fits(row: str, columns: int) -> bool:
    return len(row) <= _LETTERS * columns and measure_text(row.rstrip()) <= columns


def _cut(word: str, columns: int) -> Iterator[str]:
    """Yield a word with the spaces behind it, in parts if it is wider than a row."""
    part = ""
    for letter in word:
        if not _fits(part + letter, columns):
            yield part
            part = ""
        part += letter
    yield part


def _produce_line(row: str) -> ScreenLine:
    text = row.rstrip()  # a space behind a full row would be drawn over its last letter
    return ScreenLine(text, measure_text(text))


def _join_lines(text: str) -> str:
    return _SPACES.sub(" ", sanitize(text))
