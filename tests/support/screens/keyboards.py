"""Terminal in which a test types."""

from __future__ import annotations

import os
import pty
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import attrs
import pytest

from vibe_llms.interfaces.cli import keyboard


@attrs.frozen
class Keyboard:
    """A terminal for standard input and standard error."""

    _stdin: TextIO
    _stderr: TextIO
    _master: int
    _monkeypatch: pytest.MonkeyPatch

    def plug_in(self) -> None:
        """Make the terminal the standard streams of the process.

        The fixture cannot do this, because pytest replaces the standard streams before the test.
        """
        self._monkeypatch.setattr(sys, "stdin", self._stdin)
        self._monkeypatch.setattr(sys, "stderr", self._stderr)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str) -> str:
        """Wait until a text is shown; return the output until then."""
        shown = b""
        while text.encode() not in shown:
            shown += os.read(self._master, 4096)
        return shown.decode()

    def answer(
        self, question: str, text: str, listen: Callable[[str], object] = lambda shown: None
    ) -> None:
        """Type a text when the question is shown; pass the output until then to ``listen``."""

        def wait_and_type() -> None:
            with suppress(OSError):  # the test has failed, and closed the terminal
                listen(self.wait_for(question))
                self.type(text)

        threading.Thread(target=wait_and_type, daemon=True).start()

    def read_modes(self) -> list[Any]:
        """Return the modes of the terminal (``tcgetattr``)."""
        return termios.tcgetattr(self._stdin.fileno())

    def set_modes(self, modes: list[Any]) -> None:
        """Set the modes of the terminal."""
        termios.tcsetattr(self._stdin.fileno(), termios.TCSANOW, modes)


@contextmanager
def open_keyboard(monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyboard]:
    """Open a terminal; call ``plug_in`` in the test."""
    master, slave = pty.openpty()
    try:
        with (
            open(slave, encoding="utf-8") as stdin,  # noqa: PTH123
            open(os.dup(slave), "w", encoding="utf-8") as stderr,  # noqa: PTH123
        ):
            yield Keyboard(stdin, stderr, master, monkeypatch)
    finally:
        os.close(master)


def type_answers(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """Answer each question with the next line, without a terminal; then input ends."""
    left = iter(lines)

    def read_answer(prompt: str) -> str:
        sys.stderr.write(prompt)
        return "".join(f"{line}\n" for line in [next(left, None)] if line is not None)

    monkeypatch.setattr(keyboard, "read_answer", read_answer)
