"""Synopses of conversations for lists: number of messages, first words, last model.

Only the beginning and the end of a long file are read, if the tally has the number of lines.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import crc32

from vibe_llms.conversations.index.extraction import (
    compose_first_words,
    compose_model,
    read_record,
    survey_texts,
)
from vibe_llms.conversations.index.files import MESSAGES, read_file_stamp
from vibe_llms.foundation.files import open_regular
from vibe_llms.logs.lines import count_lines, find_line_start, read_at
from vibe_llms.logs.tallies import read_tally

_BLOCK_BYTES: Final = 1 << 16
_TAIL_BYTES: Final = 4096


class Synopsis(NamedTuple):
    """Summary of the beginning of a file of messages, up to a line end.

    Attributes:
        indexed: Size of that beginning, in bytes.
        tail: Checksum of its last bytes, to detect a rewritten file.
        canisters: Number of its lines.
        first_words: Beginning of the user's first message.
        first_position: Index of that message.
        used_model: Address of the model that answered last.
    """

    indexed: int = 0
    tail: int = 0
    canisters: int = 0
    first_words: str = ""
    first_position: int = 0
    used_model: str | None = None


def read_synopsis(descriptor: int, size: int, tally: str, previous: Synopsis) -> Synopsis:
    """Read the part added to a file, without an incomplete last line.

    Args:
        size: Size of the file.
        tally: Path of its tally.
        previous: The synopsis of the part that was read before.
    """
    start = previous.indexed
    if size - start <= _BLOCK_BYTES:
        data = read_at(descriptor, start, size - start)
        data = data[: data.rfind(b"\n") + 1]
        lines = [line for line in data.split(b"\n") if line.strip()]
        count, end = len(lines), start + len(data)
        synopsis = previous if previous.first_words else _read_first_words(lines, previous)
        model = _find_model(lines)
    else:
        data = b""
        end = find_line_start(descriptor, size)
        count = _count(descriptor, start, end, tally)
        synopsis = (
            previous if previous.first_words else _find_first_words(descriptor, end, previous)
        )
        model = _find_last_model(descriptor, start, end)
    is_in_data = len(data) == min(end, _TAIL_BYTES) or len(data) >= _TAIL_BYTES
    return Synopsis(
        indexed=end,
        tail=crc32(data[-_TAIL_BYTES:]) if is_in_data else digest_tail(descriptor, end),
        canisters=previous.canisters + count,
        first_words=synopsis.first_words,
        first_position=synopsis.first_position,
        used_model=model or previous.used_model,
    )


def digest_tail(descriptor: int, end: int) -> int:
    """Return a checksum of the bytes before a position."""
    start = max(0, end - _TAIL_BYTES)
    return crc32(read_at(descriptor, start, end - start))


def count_before(folder: str, inode: int, size: int) -> int | None:
    """Return the number of lines in the first bytes of a conversation's messages.

    ``None`` if they are missing, or the file has another inode.
    """
    try:
        with open_regular(f"{folder}/{MESSAGES}") as file:
            is_same = read_file_stamp(file.fileno())[0] == inode
            return count_lines(file.fileno(), size) if is_same else None
    except OSError:
        return None


def _count(descriptor: int, start: int, end: int, tally: str) -> int:
    tally_counts = None if start else read_tally(tally)
    if tally_counts is not None and tally_counts.size == end:
        return tally_counts.lines
    return count_lines(descriptor, end) - (count_lines(descriptor, start) if start else 0)


def _read_first_words(lines: list[bytes], synopsis: Synopsis) -> Synopsis:
    for position, line in enumerate(lines, synopsis.canisters):
        if b"user" in line and (record := read_record(line)) and record.get("role") == "user":
            words = compose_first_words(survey_texts(record))
            if words:
                return synopsis._replace(first_words=words, first_position=position)
    return synopsis


def _find_first_words(descriptor: int, end: int, synopsis: Synopsis) -> Synopsis:
    """Read the user's first words, in blocks that double until a block has the words."""
    size, start = _BLOCK_BYTES, synopsis.indexed
    while True:
        block = read_at(descriptor, start, min(size, end - start))
        lines = [line for line in block[: block.rfind(b"\n") + 1].split(b"\n") if line.strip()]
        found = _read_first_words(lines, synopsis)
        if found.first_words or len(block) >= end - start:
            return found
        size *= 2


def _find_model(lines: list[bytes]) -> str | None:
    for line in reversed(lines):
        if b'"provider"' in line and (record := read_record(line)):
            model = compose_model(record.get("origin"))
            if model:
                return model
    return None


def _find_last_model(descriptor: int, start: int, end: int) -> str | None:
    size = _BLOCK_BYTES
    while True:
        first = max(start, end - size)
        block = read_at(descriptor, first, end - first)
        lines = block.split(b"\n")
        if first != start:
            del lines[0]  # it may be incomplete
        model = _find_model(lines)
        if model or first == start:
            return model
        size *= 2
