"""Session files of coding agents: lines of JSON, in a file or in a folder of files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from vibe_llms.conversations.exchange.exports import decode_table
from vibe_llms.exceptions import CodecError, ConverseError
from vibe_llms.foundation.files import open_reader, read_beginning

_BEGINNING_BYTES: Final = 1_048_576
_MAX_LOOKED_AT: Final = 20
"""Number of files in a folder whose beginning is read to recognize the folder."""


def survey_files(path: Path, pattern: str) -> list[Path]:
    """Return a file, or all files below a folder whose names match a pattern, in order."""
    return sorted(path.rglob(pattern)) if path.is_dir() else [path]


@contextmanager
def name_file(place: str) -> Iterator[None]:
    """Name the file of a folder in the errors of the block.

    Raises:
        CodecError: The file cannot be converted.
    """
    try:
        yield
    except (CodecError, OSError):  # name it already
        raise
    except (ConverseError, ArithmeticError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise CodecError(
            path=place,
            detail=f"Cannot convert {place}: {reason}",
            remedy="Move this file to another folder, and import the others.",
        ) from error


def has_key(path: Path, pattern: str, keys: bytes) -> bool:
    """Return whether a file, or one of the first files of a folder, matches an expression."""
    files = path.rglob(pattern) if path.is_dir() else [path]
    beginnings = (read_beginning(file, _BEGINNING_BYTES) for file in islice(files, _MAX_LOOKED_AT))
    return any(re.search(keys, beginning) for beginning in beginnings)


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield the number of each line and its object; ``None`` for a damaged line.

    An agent that is killed leaves an incomplete last line.
    """
    with open_reader(str(path)) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                table = decode_table(line, f"line {number}")
            except CodecError:
                yield number, None
            else:
                yield number, table
