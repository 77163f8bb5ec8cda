"""Reader of new lines of a log file, in pieces, while the file may grow.

It does not decode the events. Lines have ascending numbers, so the line after a number is found by
binary search, which is fast also in long files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Final

from vibe_llms.conversations.run_logs.log import PIECE_BYTES, LogLine
from vibe_llms.conversations.run_logs.log_lines import read_head
from vibe_llms.conversations.stores.mapping import mapping_errors
from vibe_llms.exceptions import CorruptionError
from vibe_llms.foundation.files import open_regular
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.logs.lines import find_torn_start, read_at

_PROBE_BYTES: Final = 1 << 12


class FileTail:
    """Reader of the lines of a file whose numbers are higher than one; see :class:`.log.LogTail`.

    It does not keep the file open between reads, so that thousands of readers can follow as many
    files.

    Args:
        path: Path of the file; the file need not exist yet.
        after: Number of the last event that the caller knows; 0 for none.
    """

    def __init__(self, path: str, after: int = 0) -> None:
        self._path = path
        self._after = after
        self._offset = 0
        self._inode = -1  # of the file that was read last

    def read(self) -> Sequence[LogLine]:
        """Return the next events."""
        lines, _ = self.read_raw()
        return [self._read_head(line) for line in lines.split(b"\n")[:-1]]

    @mapping_errors
    def read_raw(self, max_bytes: int = PIECE_BYTES) -> tuple[bytes, int]:
        """Return the next events as lines, and the number of the last event that was read."""
        try:
            file = open_regular(self._path)
        except FileNotFoundError:
            return b"", self._after
        with file:
            lines = self._read(file.fileno(), max_bytes)
        if lines:
            self._after = self._read_number(lines[lines.rfind(b"\n", 0, -1) + 1 : -1])
            self._offset += len(lines)
        return lines, self._after

    def _read(self, descriptor: int, max_bytes: int) -> bytes:
        status = os.fstat(descriptor)
        end = find_torn_start(descriptor, status.st_size)
        if self._inode == status.st_ino and self._is_at_line(descriptor, end):
            lines = _read_lines(descriptor, self._offset, end, max_bytes)
            if not lines or self._read_number(lines[: lines.find(b"\n")]) == self._after + 1:
                return lines
        # The file is read for the first time, or was replaced by a compacted one since. After two
        # replacements, the new file may have the same inode as the old one.
        self._inode = status.st_ino
        self._offset = 0
        if self._after:
            self._offset = find_offset_after(descriptor, end, self._after, self._read_number)
        return _read_lines(descriptor, self._offset, end, max_bytes)

    def _is_at_line(self, descriptor: int, end: int) -> bool:
        offset = self._offset
        return not offset or (offset <= end and read_at(descriptor, offset - 1, 1) == b"\n")

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
    """Return complete lines with their line breaks, at least one if there are any.

    Args:
        size: The size to read; it is doubled until a line is complete.
    """
    while start < end:
        data = read_at(descriptor, start, min(size, end - start))
        if (last := data.rfind(b"\n")) >= 0:
            return data[: last + 1]
        if len(data) < size:
            break
        size *= 2
    return b""


def find_offset_after(
    descriptor: int, end: int, number: int, read_number: Callable[[bytes], int]
) -> int:
    """Return the offset behind the lines with at most a number; the line numbers are ascending.

    Args:
        end: End offset of the last complete line.
        number: The highest number of the lines to skip.
        read_number: Returns the number of a line.
    """
    # Invariant: lines before `low` have at most the number, those from `high` on a higher one.
    low, high = 0, end
    while low < high:
        middle = (low + high) // 2
        start, line = _find_line(descriptor, middle, low)
        if read_number(line) <= number:
            low = start + len(line) + 1
        else:
            high = start
    return low


def _find_line(descriptor: int, point: int, low: int) -> tuple[int, bytes]:
    """Return the complete line at a point and its start, which is not before ``low``.

    If the file was truncated in the meantime, the line is incomplete.
    """
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
        more = read_at(descriptor, start + len(data), len(data))
        if not more:
            return start, data
        data += more
    return start, data[:stop]
