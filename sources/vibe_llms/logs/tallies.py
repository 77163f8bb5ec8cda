"""Tally: the number of acknowledged lines of a log, in a file next to it.

The tally is written after the lines are on the disk, in place, without waiting for the disk: a
crash of the process or the machine leaves it correct or too low, never too high. So if the log has
fewer lines than the tally says, acknowledged lines are lost. More lines are no problem: the tally
was not updated.

The tally also records the size of the log. If the size differs, because a writer was killed between
the two writes or a person edited the log by hand, the lines are counted once.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from io import FileIO
from typing import TYPE_CHECKING, NamedTuple

from vibe_llms.foundation.files import open_handle
from vibe_llms.logs.disk import Disk
from vibe_llms.logs.lines import count_lines, read_at

if TYPE_CHECKING:
    from vibe_llms.exceptions import Finding

_FORMAT = b"lines = %-20d\nbytes = %-20d\n"  # fixed size, so that one write replaces it
_SIZE_BYTES = len(_FORMAT % (0, 0))
_PATTERN = re.compile(rb"lines = (\d+) *\nbytes = (\d+) *\n")
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe is not a tally
_IN_PLACE = os.O_RDWR | _AT_ONCE
_FOR_WRITING = _IN_PLACE | os.O_CREAT


class Tally(NamedTuple):
    """Acknowledged lines of a log.

    Attributes:
        lines: Number of the lines.
        size: Size of the file after them.
    """

    lines: int = 0
    size: int = 0


def read_tally(path: str) -> Tally | None:
    """Read a tally; ``None`` if it is missing or invalid.

    An empty file is the tally of a log without acknowledged lines.
    """
    try:
        with open_handle(path, os.O_RDONLY | _AT_ONCE) as file:
            # One byte more than a valid tally has, so that a longer file is recognized as invalid.
            return _decode(os.read(file.fileno(), _SIZE_BYTES + 1))
    except OSError:
        return None


def _decode(data: bytes) -> Tally | None:
    if not data:
        return Tally()
    found = _PATTERN.fullmatch(data)
    return Tally(int(found[1]), int(found[2])) if found and len(data) == _SIZE_BYTES else None


def encode_tally(tally: Tally) -> bytes:
    """Return the content of the tally's file."""
    return _FORMAT % tally


def advance_tally(
    disk: Disk,
    path: str,
    descriptor: int,
    previous: Tally,
    end: Tally,
    recorded: int | None = None,
    file: FileIO | None = None,
) -> tuple[int | None, FileIO | None]:
    """Add newly acknowledged lines to a tally.

    Never raises for an error of the disk: the lines are kept even if they are not counted.

    Args:
        path: Path of the tally, which is created if it is missing.
        descriptor: Descriptor of the log.
        previous: Lines, as counted by the caller, and size of the log before the new lines.
        end: The same with the new lines.
        recorded: Lines in the tally, as returned by this function when the log had the former size;
            then the tally need not be read again.
        file: The tally, if it is open.

    Returns:
        Lines in the tally now, and its open file; ``None`` if either is uncertain.
    """
    try:
        if file is None:
            try:
                file = open_handle(path, _FOR_WRITING if recorded is None else _IN_PLACE, 0o600)
            except FileNotFoundError:  # removed by a user to accept a loss
                recorded, file = None, open_handle(path, _FOR_WRITING, 0o600)
        tally = file.fileno()
        lines = _count_acknowledged(tally, descriptor, previous) if recorded is None else recorded
        lines += end.lines - previous.lines
        disk.overwrite_start(tally, _FORMAT % (lines, end.size))
        return lines, file
    except OSError:
        if file is not None:
            file.close()
        return None, None


def _count_acknowledged(tally: int, descriptor: int, previous: Tally) -> int:
    """Return the lines in the tally; those in the log if its size differs."""
    recorded = _decode(read_at(tally, 0, _SIZE_BYTES + 1))
    if recorded is not None and recorded.size == previous.size:
        return recorded.lines
    # Lost lines stay counted: the tally never decreases.
    return max(recorded.lines if recorded else 0, count_lines(descriptor, previous.size))


def renew_tally(disk: Disk, path: str, end: Tally) -> None:
    """Write the tally of a log that replaced another.

    Never raises for an error of the disk, as :func:`advance_tally`.

    Args:
        path: Path of the tally, which is created if it is missing.
        end: Number of the last line, and size of the log now.
    """
    with suppress(OSError), open_handle(path, _FOR_WRITING, 0o600) as file:
        disk.overwrite_start(file.fileno(), _FORMAT % end)


def find_loss(path: str, lines: int, place: str) -> Finding | None:
    """Describe how many lines are lost; ``None`` if none are, or if that is unknown.

    Args:
        path: Path of the tally.
        lines: Lines in the log.
        place: Path of the log.
    """
    recorded = read_tally(path)
    if recorded is None or recorded.lines <= lines:
        return None
    name = os.path.basename(path)
    from vibe_llms.exceptions import Finding  # imports attrs, which a list does not need

    return Finding(
        place=place,
        message=f"The file has {lines} lines, but {recorded.lines} were acknowledged: "
        f"{recorded.lines - lines} are lost. Restore it from a backup; data that was set aside "
        f"as torn may contain a part. To accept the loss, remove {name} next to it.",
    )
