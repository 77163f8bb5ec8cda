"""Whole lines in a file that only grows, and what a crash may leave behind the last of them.

A file that does not end in a newline was torn by a crash in the middle of a write which nobody
was told had succeeded.

Lines that are appended together are there together or not at all: each but the last of them ends
in a tab and the newline, so that a beginning without its end can be told. To readers of JSON the
tab is nothing.
"""

from __future__ import annotations

import os

_STEP_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 20
_MORE = b"\t\n"
"""Ends a line that was appended together with the next."""

_pread = getattr(os, "pread", None)  # Windows has none


def join_lines(data: bytes, count: int) -> bytes:
    """Marks so many lines as one append."""
    return data.replace(b"\n", _MORE, count - 1) if count > 1 else data


def end_lines(data: bytes) -> bytes:
    """Makes the end of some lines the end of an append, without changing their size."""
    return data[: -len(_MORE)] + b" \n" if data.endswith(_MORE) else data


def read_at(descriptor: int, start: int, size: int) -> bytes:
    """Reads bytes from the middle of a file; fewer where it ends before."""
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
    """Returns how many lines end within the first bytes of a file."""
    count = at = 0
    while block := read_at(descriptor, at, min(_BLOCK_BYTES, size - at)):
        count += block.count(b"\n")
        at += len(block)
    return count


def find_torn_start(descriptor: int, size: int) -> int:
    """Returns where the whole appends of a file end: its size, unless the last one is torn."""
    tail = _read_once(descriptor, max(0, size - len(_MORE)), len(_MORE)) if size else b"\n"
    if tail.endswith(b"\n") and tail != _MORE:
        return size
    end = find_line_start(descriptor, size)
    # Lines that say that another follows go with the one that is missing.
    while read_at(descriptor, max(0, end - len(_MORE)), len(_MORE)) == _MORE:
        end = find_line_start(descriptor, end - 1)
    return end


def find_line_start(descriptor: int, end: int) -> int:
    """Returns where the line begins that goes on until a point, after the newline before it."""
    while end > 0:
        start = max(0, end - _STEP_BYTES)
        found = read_at(descriptor, start, end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def measure_lines(data: bytes, count: int) -> int | None:
    """Returns the size in bytes of the first lines; ``None`` where there are fewer."""
    at = 0
    while count > 0:
        # Whole blocks are counted at the speed of memory; only the last is searched by line.
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
