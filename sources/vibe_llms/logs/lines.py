"""Complete lines in an append-only file, and the torn end that a crash may leave.

A file that does not end in a newline was torn by a crash during a write that was not acknowledged.

Lines that are appended together exist together or not at all: each but the last ends in a tab and
the newline, so that an incomplete append can be recognized. JSON readers ignore the tab.
"""

from __future__ import annotations

import os

_STEP_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20
_MORE = b"\t\n"
"""Ends a line that is followed by another one of the same append."""

_pread = getattr(os, "pread", None)  # Windows has none


def join_lines(data: bytes, count: int) -> bytes:
    """Mark these lines as one append."""
    return data.replace(b"\n", _MORE, count - 1) if count > 1 else data


def end_lines(data: bytes) -> bytes:
    """Turn the end of some lines into the end of an append, without changing their size."""
    return data[: -len(_MORE)] + b" \n" if data.endswith(_MORE) else data


def read_at(descriptor: int, start: int, size: int) -> bytes:
    """Read bytes from the middle of a file; fewer at its end."""
    data = _read_once(descriptor, start, size)
    while len(data) < size:
        more = _read_once(descriptor, start + len(data), size - len(data))
        if not more:
            break
        data += more
    return data


def _read_once(descriptor: int, start: int, size: int) -> bytes:
    if _pread is not None:
        data: bytes = _pread(descriptor, size, start)
        return data
    os.lseek(descriptor, start, os.SEEK_SET)
    return os.read(descriptor, size)


def count_lines(descriptor: int, size: int) -> int:
    """Return how many lines end within the first bytes of a file."""
    count = at = 0
    while block := read_at(descriptor, at, min(_BLOCK_BYTES, size - at)):
        count += block.count(b"\n")
        at += len(block)
    return count


def find_torn_start(descriptor: int, size: int) -> int:
    """Return the end of the whole appends of a file: its size, unless the last one is torn."""
    tail = _read_once(descriptor, max(0, size - len(_MORE)), len(_MORE)) if size else b"\n"
    if tail.endswith(b"\n") and tail != _MORE:
        return size
    end = find_line_start(descriptor, size)
    # Lines that announce a missing next line are torn with it.
    while read_at(descriptor, max(0, end - len(_MORE)), len(_MORE)) == _MORE:
        end = find_line_start(descriptor, end - 1)
    return end


def find_line_start(descriptor: int, end: int) -> int:
    """Return the start of the line that ends at a position, after the newline before it."""
    while end > 0:
        start = max(0, end - _STEP_BYTES)
        found = read_at(descriptor, start, end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def measure_lines(data: bytes, count: int) -> int | None:
    """Return the size in bytes of the first lines; ``None`` if there are fewer."""
    at = 0
    while count > 0:
        # Whole blocks are counted at the speed of memory; only the last block is searched line by
        # line.
        lines = data.count(b"\n", at, at + _STEP_BYTES)
        if lines >= count or at + _STEP_BYTES >= len(data):
            break
        count -= lines
        at += _STEP_BYTES
    for _ in range(count):
        at = data.find(b"\n", at) + 1
        if at == 0:
            return None
    return at
