"""What a program says while it runs: the last lines, and a bounded file of the rest."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

LOG_BYTES: Final = 4_194_304
"""How large the file may become; then it begins anew."""

_LINE_BYTES: Final = 65_536
_SHOWN_LINES: Final = 8
_SHOWN_CHARACTERS: Final = 300


class OutputLog:
    """Takes what a program says, in bounded space; may be used from several threads.

    Args:
        path: Of the file; ``None`` for none.
        scrub: Strikes out, of whole lines, what nobody is to read.
    """

    def __init__(self, path: Path | None, scrub: Callable[[bytes], bytes] | None = None) -> None:
        self._path = path
        self._scrub = scrub
        self._file: IO[bytes] | None = None
        self._size = 0
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=_SHOWN_LINES)
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        """Takes what the program says, cut anywhere."""
        with self._lock:
            self._take(data)

    def _take(self, data: bytes) -> None:
        # Whole lines only: a secret that is cut in two would not be found, and not struck out.
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        # A line without an end would be kept for good.
        if len(rest) > _LINE_BYTES:
            whole, newline, rest = whole + newline + rest, b"", b""
        self._rest = rest
        if whole:
            said = whole + newline if self._scrub is None else self._scrub(whole + newline)
            self._write_file(said)
            for line in said.splitlines()[-_SHOWN_LINES:]:
                self._keep(line)

    def _keep(self, line: bytes) -> None:
        # A character has up to four bytes.
        text = line[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace").strip()
        if text:
            self._lines.append(text[:_SHOWN_CHARACTERS])

    def _write_file(self, data: bytes) -> None:
        if self._path is None:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("wb")
            if self._size + len(data) > LOG_BYTES:
                self._file.seek(0)
                self._file.truncate()
                self._size = 0
            self._size += self._file.write(data[-LOG_BYTES:])
            self._file.flush()
        except OSError:  # no place for a log: the lines are kept, and the program must not stall
            self._path = None

    def tail(self) -> tuple[str, ...]:
        """Returns the last lines, the last also where it has not ended."""
        with self._lock:
            self._flush()
            return tuple(self._lines)

    def close(self) -> None:
        """Takes what was said last, and closes the file. May be called again."""
        with self._lock:
            self._flush()
            if self._file is not None:
                self._file.close()
                self._file, self._path = None, None

    def _flush(self) -> None:
        if self._rest:
            self._take(b"\n")
