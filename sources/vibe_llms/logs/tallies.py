"""How many lines a log was acknowledged to have, beside the file that holds them.

The tally is written after the lines are on the disk, in place, and is not waited for: whatever
takes a process or the machine down leaves it right or too low, never too high. So fewer lines than
it says are lines that somebody was told were kept, and are gone; more say nothing.

It also says how large the file was then. Where that is no longer so, because a writer was killed
in between, or a person has corrected a line by hand, the lines are counted once.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

from vibe_llms.exceptions import Finding
from vibe_llms.foundation.files import open_handle
from vibe_llms.logs.disk import Disk
from vibe_llms.logs.lines import count_lines

_FORM = b"lines = %-20d\nbytes = %-20d\n"  # always as long, so that one write replaces it
_SIZE_BYTES = len(_FORM % (0, 0))
_PATTERN = re.compile(rb"lines = (\d+) *\nbytes = (\d+) *\n")
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)  # a pipe is no tally
_IN_PLACE = os.O_RDWR | _AT_ONCE
_TO_NOTE = _IN_PLACE | os.O_CREAT


class Tally(NamedTuple):
    """What was acknowledged.

    Attributes:
        lines: How many.
        size: How large the file was after them.
    """

    lines: int = 0
    size: int = 0


def read_tally(path: str) -> Tally | None:
    """Reads a tally; ``None`` where there is none that makes sense, so that nothing is known.

    An empty one is that of a file in which nothing was acknowledged yet.
    """
    try:
        with open_handle(path, os.O_RDONLY | _AT_ONCE) as file:
            # One byte more than a whole one has, so that a longer file is seen to be none.
            return _decode(os.read(file.fileno(), _SIZE_BYTES + 1))
    except OSError:
        return None


def _decode(data: bytes) -> Tally | None:
    if not data:
        return Tally()
    found = _PATTERN.fullmatch(data)
    return Tally(int(found[1]), int(found[2])) if found and len(data) == _SIZE_BYTES else None


def encode_tally(tally: Tally) -> bytes:
    """Returns the bytes of the file."""
    return _FORM % tally


def advance_tally(
    disk: Disk, path: str, descriptor: int, former: Tally, end: Tally, known: int | None = None
) -> int | None:
    """Notes that lines were acknowledged behind those that a file had before.

    Never raises for what the disk does: the lines are kept, whether they are tallied or not.

    Args:
        path: Of the tally, which is made where it is missing.
        descriptor: Of the file of lines.
        former: How many lines the caller had counted before the new ones, from wherever, and how
            large the file was.
        end: The same with the new lines.
        known: How many lines the tally says by now, as this returned when the file had the former
            size: it need not be read again.

    Returns:
        How many it says now; ``None`` where that is not certain.
    """
    try:
        try:
            file = open_handle(path, _TO_NOTE if known is None else _IN_PLACE, 0o600)
        except FileNotFoundError:  # removed by somebody who puts up with what is lost
            known, file = None, open_handle(path, _TO_NOTE, 0o600)
        with file:
            tally = file.fileno()
            lines = _count_acknowledged(tally, descriptor, former) if known is None else known
            lines += end.lines - former.lines
            disk.note(tally, _FORM % (lines, end.size))
            return lines
    except OSError:
        return None


def _count_acknowledged(tally: int, descriptor: int, former: Tally) -> int:
    """Returns how many lines a tally says; those of the file where it is of another size."""
    known = _decode(os.read(tally, _SIZE_BYTES + 1))
    if known is not None and known.size == former.size:
        return known.lines
    # What is missing stays missing: the tally never goes down.
    return max(known.lines if known else 0, count_lines(descriptor, former.size))


def renew_tally(disk: Disk, path: str, end: Tally) -> None:
    """Notes what was acknowledged of a file that was put in the place of another.

    Never raises for what the disk does, as :func:`advance_tally`.

    Args:
        path: Of the tally, which is made where it is missing.
        end: How many lines, by the number of the last; and how large the file is now.
    """
    with suppress(OSError), open_handle(path, _TO_NOTE, 0o600) as file:
        disk.note(file.fileno(), _FORM % end)


def find_loss(path: str, lines: int, place: str) -> Finding | None:
    """Words how many lines are gone; ``None`` where none are, or where that is not known.

    Args:
        path: Of the tally.
        lines: How many there are.
        place: The file of lines.
    """
    known = read_tally(path)
    if known is None or known.lines <= lines:
        return None
    name = os.path.basename(path)
    return Finding(
        place=place,
        message=f"The file has {lines} lines, but {known.lines} were acknowledged: "
        f"{known.lines - lines} are lost. Restore it from a backup; data that was set aside "
        f"as torn may contain a part. To accept the loss, remove {name} next to it.",
    )
