"""The last lines of a terminal, which may still change, below lines that are final.

Keys that are pressed during an answer are not shown within it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import attrs

from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.interfaces.cli.output import measure_text


@define
class Echo:
    """Echo of typed text on a terminal.

    While the echo is off, text is not lost: the prompt shows the text.
    """

    _file: TextIO
    _former: list[Any] | None = attrs.field(default=None, init=False)

    def silence(self) -> None:
        """Switch off the echo of typed text; Ctrl-C still interrupts."""
        try:
            import termios
        except ImportError:  # pragma: no cover  # Windows has no echo of its own
            return
        if self._former is not None or not self._file.isatty():
            return
        descriptor = self._file.fileno()
        self._former = termios.tcgetattr(descriptor)
        modes = list(self._former)
        modes[3] &= ~termios.ECHO  # item 3 has the local modes
        termios.tcsetattr(descriptor, termios.TCSANOW, modes)

    def restore(self) -> None:
        """Restore the terminal's modes."""
        if self._former is None:
            return
        import termios

        termios.tcsetattr(self._file.fileno(), termios.TCSANOW, self._former)
        self._former = None


_BEGIN_UPDATE, _END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"
"""Synchronized update: the text in between is shown at once. Other terminals ignore these."""

_BEGIN_CUTTING, _END_CUTTING = "\x1b[?7l", "\x1b[?7h"
"""Line wrapping off and on: in between, lines that are too long are cut."""

_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def is_drawable(file: TextIO) -> bool:
    """Return whether the stream is a terminal with cursor movement."""
    return file.isatty() and os.environ.get("TERM") not in (None, "", "dumb")


@frozen
class ScreenLine:
    """One line as sent to the terminal, and its width in columns."""

    text: str
    columns: int


@define
class LiveTail:
    """Rewriter of the last lines of a terminal, without flicker, also after a resize.

    Only changed lines are written again, all in one synchronized update. Lines in the tail never
    wrap, so that their number of rows is known, even if the terminal considers a letter wider.
    When the window becomes narrower, the terminal wraps the lines, and their rows are counted
    accordingly.

    Attributes:
        measure: Function that returns the size of the window.
    """

    _file: TextIO
    measure: Callable[[], os.terminal_size]
    _shown: list[ScreenLine] = attrs.field(factory=list, init=False)
    _columns: int = attrs.field(default=0, init=False)

    @property
    def room(self) -> int:
        """Maximum number of lines of the tail: few enough to stay visible after a resize."""
        return max(3, self.measure().lines // 2)

    def draw(self, lines: Sequence[ScreenLine]) -> None:
        """Replace the tail by these lines, or by the last of them if not all fit."""
        lines = lines[-self.room :]
        if lines != self._shown or self.measure().columns != self._columns:
            text = self._compose(lines)
            self._write(f"{_BEGIN_UPDATE}{_BEGIN_CUTTING}{text}{_END_CUTTING}{_END_UPDATE}")
            self._shown = list(lines)

    def settle(self, lines: Sequence[ScreenLine]) -> None:
        """Write final lines in place of the tail; the tail is empty afterwards."""
        if not lines and not self._shown:
            return
        end = "\r\n" if lines else ""
        self._write(f"{_BEGIN_UPDATE}{self._compose(lines)}{end}{_END_UPDATE}")
        self._shown = []

    def _compose(self, lines: Sequence[ScreenLine]) -> str:
        columns = self.measure().columns
        same = 0
        if columns == self._columns:
            while same < min(len(lines), len(self._shown)) and lines[same] == self._shown[same]:
                same += 1
            # The last line is always written again, as the cursor must stay at its end.
            same = max(0, min(same, len(self._shown) - 1, len(lines) - 1))
        rows = sum(self._count_rows(line, columns) for line in self._shown[same:])
        text = f"\x1b[{rows - 1}A\r" if rows > 1 else "\r"
        if columns != self._columns:
            text += "\x1b[J"  # erase: terminals keep the lines that they have wrapped
        self._columns = columns
        if self._shown and not lines:
            return text + "\x1b[J"
        # Old text is erased after new text is written: erasing it first would flicker.
        text += "\r\n".join(f"{line.text}\x1b[K" for line in lines[same:])
        return text + ("\x1b[J" if rows > len(lines) - same else "")

    def _count_rows(self, line: ScreenLine, columns: int) -> int:
        # Lines were drawn without wrapping: each takes one row until the window becomes narrower.
        if columns >= self._columns:
            return 1
        rows, column = 1, 0
        for letter in _STYLES.sub("", line.text):
            width = measure_text(letter)
            column += width
            if column > columns:
                rows, column = rows + 1, width
        return rows

    def _write(self, text: str) -> None:
        self._file.write(text)
        self._file.flush()
