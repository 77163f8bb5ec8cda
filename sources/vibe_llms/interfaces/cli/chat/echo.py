"""Keeps keys that are pressed while an answer arrives out of the answer."""

from __future__ import annotations

from typing import Any, TextIO

import attrs


@attrs.define
class Echo:
    """The echo of a terminal. What is typed without it is not lost: the prompt shows it later."""

    _file: TextIO
    _former: list[Any] | None = attrs.field(default=None, init=False)

    def silence(self) -> None:
        """Lets the terminal show nothing of what is typed; Ctrl-C still interrupts."""
        try:
            import termios
        except ImportError:  # pragma: no cover  # Windows echoes nothing by itself
            return
        if self._former is not None or not self._file.isatty():
            return
        descriptor = self._file.fileno()
        self._former = termios.tcgetattr(descriptor)
        quiet = list(self._former)
        quiet[3] &= ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSANOW, quiet)

    def restore(self) -> None:
        """Lets the terminal be as it was."""
        if self._former is None:
            return
        import termios

        termios.tcsetattr(self._file.fileno(), termios.TCSANOW, self._former)
        self._former = None
