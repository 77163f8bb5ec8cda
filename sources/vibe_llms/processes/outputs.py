"""Output of a running program: the last lines, and a bounded log file."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final

LOG_BYTES: Final = 4_194_304
"""Maximum size of the file; a new file is started beyond it."""

_LINE_BYTES: Final = 65_536
_KEPT_LINES: Final = 8
_KEPT_CHARACTERS: Final = 300


class OutputLog:
    """Bounded log of a program's output. Thread-safe.

    Args:
        path: Path of the log file; ``None`` for no file.
        scrub: Redacts secrets in whole lines.
    """

    def __init__(self, path: Path | None, scrub: Callable[[bytes], bytes] | None = None) -> None:
        self._path = path
        self._scrub = scrub
        self._file: IO[bytes] | None = None
        self._size = 0
        self._rest = b""
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        """Add output, split at any byte."""
        with self._lock:
            self._take(data)

    def _take(self, data: bytes) -> None:
        # Redact whole lines only: a secret that is split in two would not be found.
        whole, newline, rest = (self._rest + data).rpartition(b"\n")
        # A line without an end would be buffered without bound.
        if len(rest) > _LINE_BYTES:
            whole, newline, rest = whole + newline + rest, b"", b""
        self._rest = rest
        if whole:
            redacted = whole + newline if self._scrub is None else self._scrub(whole + newline)
            self._write_file(redacted)
            for line in redacted.splitlines()[-_KEPT_LINES:]:
                self._keep(line)

    def _keep(self, line: bytes) -> None:
        # A character has up to four bytes.
        text = line[: 4 * _KEPT_CHARACTERS].decode("utf-8", "replace").strip()
        if text:
            self._lines.append(text[:_KEPT_CHARACTERS])

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
        except OSError:  # the log cannot be written: keep the lines, and do not stall the program
            self._path = None

    def tail(self) -> tuple[str, ...]:
        """Return the last lines, including an unfinished one."""
        with self._lock:
            self._flush()
            return tuple(self._lines)

    def close(self) -> None:
        """Add the rest of the output and close the file. May be called again."""
        with self._lock:
            self._flush()
            if self._file is not None:
                self._file.close()
                self._file, self._path = None, None

    def _flush(self) -> None:
        if self._rest:
            self._take(b"\n")
