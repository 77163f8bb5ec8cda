"""A program in a pseudo-terminal, and an emulator that shows its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pyte

from support.screens.command_line import VIBE, produce_environment

PATIENCE_SECONDS = 60.0
_TAKE_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
"""Statement at the start of a program so that it receives Ctrl-C of the terminal."""

_CURSOR_REQUEST = b"\x1b[6n"
"""Request of prompt_toolkit for the position of the cursor."""


class Terminal:
    """``vibe`` in a pseudo-terminal, whose screen is read while it runs.

    Args:
        home: Its home and working directory.
        arguments: Arguments of the command.
        environment: Environment; by default, one without the user's settings.
        variables: Further environment variables.
    """

    def __init__(
        self,
        home: Path,
        *arguments: str,
        columns: int = 80,
        rows: int = 24,
        environment: Mapping[str, str] | None = None,
        **variables: str,
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self.screen)
        self._lock = threading.Lock()
        self.raw = b""
        self._master, slave = pty.openpty()
        _set_size(slave, columns, rows)
        terminal = {"TERM": "xterm-256color", **variables}
        self._process = subprocess.Popen(
            [*VIBE[:2], _TAKE_TERMINAL + VIBE[2], *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**(environment or produce_environment(home)), **terminal},
            cwd=home,
            start_new_session=True,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        rest = b""
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            if not data:
                return
            rest = self._show(rest + data)

    def _show(self, data: bytes) -> bytes:
        """Show output, answer requests for the cursor, and return a possibly incomplete request.

        The answer has the position at the time of the request.
        """
        *before, rest = data.split(_CURSOR_REQUEST)
        for piece in before:
            with self._lock:
                self.raw += piece + _CURSOR_REQUEST
                self._stream.feed(piece)
                row, column = self.screen.cursor.y + 1, self.screen.cursor.x + 1
            os.write(self._master, f"\x1b[{row};{column}R".encode())
        partial_length = next(
            (
                n
                for n in range(len(_CURSOR_REQUEST) - 1, 0, -1)
                if rest.endswith(_CURSOR_REQUEST[:n])
            ),
            0,
        )
        shown = rest[: len(rest) - partial_length]
        with self._lock:
            self.raw += shown
            self._stream.feed(shown)
        return rest[len(shown) :]

    def type(self, text: str) -> None:
        """Type a text; Enter is a carriage return."""
        os.write(self._master, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Resize the window; this emulator cuts lines instead of wrapping them again."""
        with self._lock:
            self.screen.resize(rows, columns)
        _set_size(self._master, columns, rows)
        self._process.send_signal(signal.SIGWINCH)

    def read_lines(self) -> list[str]:
        """Return all lines, including those that scrolled away."""
        with self._lock:
            above = [
                "".join(line[x].data for x in range(self.screen.columns)).rstrip()
                for line in self.screen.history.top
            ]
            return above + [line.rstrip() for line in self.screen.display]

    def read_text(self) -> str:
        """Return the same as one text."""
        return "\n".join(self.read_lines())

    def wait_for(self, pattern: str) -> str:
        """Wait until a pattern is shown; return the whole text."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            text = self.read_text()
            if re.search(pattern, text):
                return text
            time.sleep(0.02)
        raise AssertionError(f"{pattern!r} was never shown:\n{self.read_text()}")

    def wait_for_prompt(self) -> str:
        """Wait until the next message can be typed."""
        return self.wait_for(r">\s*\Z")

    def wait_for_end(self) -> int:
        """Wait until the program has ended; return its exit code."""
        code = self._process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code

    def close(self) -> None:
        """End the program, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(PATIENCE_SECONDS)
        os.close(self._master)


def _set_size(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
