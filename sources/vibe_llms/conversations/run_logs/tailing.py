"""Reading a log on from a number, in pieces, while it may still grow; nothing is decoded.

An event's number is that of its line, so that the line behind any number is found by halving the
file, however long it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

from vibe_llms.conversations.run_logs.lines import read_head
from vibe_llms.conversations.run_logs.log import PIECE_BYTES, LogLine
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.exceptions import CorruptionError
from vibe_llms.foundation.files import open_regular
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.logs.lines import find_torn_start, read_at

_PROBE_BYTES: Final = 1 << 12


class FileTail:
    """Reads a file of lines on from a number; see :class:`.log.LogTail`.

    It holds no descriptor between two readings: thousands may follow as many files.

    Args:
        path: Of the file; it need not be there yet.
        after: The number of the last event that the caller knows; 0 for none.
    """

    def __init__(self, path: str, after: int = 0) -> None:
        self._path = path
        self._after = after
        self._offset = 0
        self._file = -1  # its number in the file system, once it was read

    def read(self) -> Sequence[LogLine]:
        """Returns the next events."""
        return [self._read_head(line) for line in self.read_raw()[0].split(b"\n")[:-1]]

    @mapping_errors
    def read_raw(self, most: int = PIECE_BYTES) -> tuple[bytes, int]:
        """Returns the next events as lines."""
        try:
            file = open_regular(self._path)
        except FileNotFoundError:
            return b"", self._after
        with file:
            return self._note(self._read(file.fileno(), most)), self._after

    def _read(self, descriptor: int, most: int) -> bytes:
        status = os.fstat(descriptor)
        end = find_torn_start(descriptor, status.st_size)
        if self._file == status.st_ino and self._is_at_line(descriptor, end):
            lines = _read_lines(descriptor, self._offset, end, most)
            if not lines or self._read_number(lines[: lines.find(b"\n")]) == self._after + 1:
                return lines
        # It is read for the first time, or is the compacted successor of the file that was read;
        # that may even have its number in the file system, where two came one after the other.
        self._file = status.st_ino
        self._offset = (
            find_behind(descriptor, end, self._after, self._read_number) if self._after else 0
        )
        return _read_lines(descriptor, self._offset, end, most)

    def _is_at_line(self, descriptor: int, end: int) -> bool:
        offset = self._offset
        return not offset or (offset <= end and read_at(descriptor, offset - 1, 1) == b"\n")

    def _note(self, lines: bytes) -> bytes:
        if lines:
            self._after = self._read_number(lines[lines.rfind(b"\n", 0, -1) + 1 : -1])
            self._offset += len(lines)
        return lines

    def _read_number(self, data: bytes) -> int:
        return self._read_head(data).sequence

    def _read_head(self, data: bytes) -> LogLine:
        try:
            return read_head(data)
        except UNREADABLE as error:
            raise CorruptionError(
                path=self._path, detail=f"Cannot read a line: {error}."
            ) from error


def _read_lines(descriptor: int, start: int, end: int, size: int) -> bytes:
    """Returns whole lines with their ends: some, one at least where there is one."""
    while start < end:
        data = read_at(descriptor, start, min(size, end - start))
        if (last := data.rfind(b"\n")) >= 0:
            return data[: last + 1]
        if len(data) < size:
            break
        size *= 2
    return b""


def find_behind(descriptor: int, end: int, number: int, read_number: Callable[[bytes], int]) -> int:
    """Returns where the line behind a number begins, in a file whose lines are numbered upwards.

    Args:
        end: Where the last whole line ends.
        read_number: Returns the number of a line.
    """
    low, high = 0, end  # lines that begin before low are up to the number; from high on, behind it
    while low < high:
        middle = (low + high) // 2
        start, line = _find_line(descriptor, middle, low)
        if read_number(line) <= number:
            low = start + len(line) + 1
        else:
            high = start
    return low


def _find_line(descriptor: int, point: int, low: int) -> tuple[int, bytes]:
    """Returns the whole line that a point lies in, and where it begins, not before ``low``."""
    start, step = point, _PROBE_BYTES
    while start > low:
        begin = max(low, start - step)
        found = read_at(descriptor, begin, start - begin).rfind(b"\n")
        if found >= 0:
            start = begin + found + 1
            break
        start, step = begin, step * 2
    data = read_at(descriptor, start, _PROBE_BYTES)
    while (stop := data.find(b"\n")) < 0:
        data += read_at(descriptor, start + len(data), len(data))
    return start, data[:stop]
