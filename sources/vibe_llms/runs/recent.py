"""Buffers shared by all subscribers of a run: its last lines, and data that is in no log."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

KEPT_BYTES: Final = 1 << 16
"""Size of each buffer."""


class RecentLines:
    """Buffer for the last lines of a log, encoded once for all subscribers.

    Attributes:
        base: Number of the line behind which the buffer is complete.
        last: Number of the last line.
    """

    def __init__(self, last: int) -> None:
        self.base = self.last = last
        self._lines: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._batch = (last, b"")  # the last addition, and the number before it

    def add(self, lines: Sequence[tuple[int, bytes]]) -> None:
        """Add lines with their numbers, and drop the oldest beyond the size of the buffer."""
        self._batch = (self.last, b"".join([data for _, data in lines]))
        for number, data in lines:
            self._lines.append((number, data))
            self._size += len(data)
            self.last = number
        while self._size > KEPT_BYTES:
            self.base, data = self._lines.popleft()
            self._size -= len(data)

    def take(self, after: int) -> bytes | None:
        """Return the lines behind a number; ``None`` if some were already dropped."""
        if after == self._batch[0]:  # the common case: joined once for all subscribers
            return self._batch[1]
        if after < self.base:
            return None
        found = []
        for number, data in reversed(self._lines):
            if number <= after:
                break
            found.append(data)
        return b"".join(reversed(found))


class Volatile:
    """Data in no log, such as parts of a response; only up-to-date subscribers receive it."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._size = 0
        self._data, self._number = b"", 0

    def add(self, data: bytes) -> bool:
        """Add data for the next batch; return False if the batch is full."""
        if self._size > KEPT_BYTES:
            return False
        self._pending.append(data)
        self._size += len(data)
        return True

    def clear(self) -> None:
        """Drop the added data: the log has it by now."""
        self._pending, self._size = [], 0

    def hand_out(self, keep_alive: bytes) -> bool:
        """Make a batch of the added data; return whether there is any."""
        self._data = keep_alive + b"".join(self._pending)
        self._pending, self._size = [], 0
        if self._data:
            self._number += 1
        return bool(self._data)

    def take(self, known: int) -> tuple[int, bytes]:
        """Return the number of the last batch, and the batch if it is newer than ``known``."""
        return self._number, self._data if known < self._number else b""
