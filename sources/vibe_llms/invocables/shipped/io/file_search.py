"""Search for files by name, and for lines that contain a text.

Regular expressions are not supported, because endless backtracking would block the whole process
and no time limit could stop it.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Final

from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.grants import GrantedPath
from vibe_llms.invocables.shipped.io.directory_listing import DirectoryWalk
from vibe_llms.invocables.shipped.io.file_lines import is_binary
from vibe_llms.invocables.shipped.opening import open_file, read_blocks

FOUND_LIMIT: Final = 200
"""Maximum number of files or lines that one search returns."""

_LINE_CHARACTERS: Final = 300
_PATTERN_CHARACTERS: Final = 200
_SKIPPED: Final = frozenset({".git"})


def search(
    target: GrantedPath,
    text: str,
    name: str,
    ignore_case: bool,
    size_limit: int,
    context: InvocationContext,
) -> str:
    """Return the files with a matching name, or their lines that contain the text.

    Args:
        text: The text; empty to search for files by name only.
        name: A pattern with ``*``, ``?`` and ``[…]`` for the name of a file, not its path.
        size_limit: Maximum size in bytes of the searched files.

    Raises:
        Refusal: The target is not a directory, or the pattern is too long.
    """
    # Limited, because fnmatch turns the model's pattern into a regular expression.
    if len(name) > _PATTERN_CHARACTERS:
        raise Refusal(f"A name pattern can have at most {_PATTERN_CHARACTERS} characters.")
    if "\n" in text:
        raise Refusal("The text must not contain a line break: the search goes line by line.")
    walk = DirectoryWalk(target, context, skipped=_SKIPPED)
    results: list[str] = []
    for entry in walk.survey():
        if not stat.S_ISREG(entry.status.st_mode) or not fnmatchcase(entry.target.name, name):
            continue
        if not text:
            results.append(entry.target.shown)
        # A file may have more data than its size; reading still stops at the limit.
        elif entry.status.st_size > size_limit:
            walk.note(f"files larger than {size_limit} bytes were skipped")
        else:
            lines = _search_file(entry.target, text, ignore_case, size_limit, context)
            for line in lines:
                results.append(line)
                if len(results) > FOUND_LIMIT:
                    break
        if len(results) > FOUND_LIMIT:
            walk.note(f"only the first {FOUND_LIMIT} are shown; search for something more specific")
            break
    shown = results[:FOUND_LIMIT] or ["[nothing found]"]
    return "\n".join([*shown, *(f"[{note}]" for note in walk.notes)])


def _search_file(
    target: GrantedPath, text: str, ignore_case: bool, size_limit: int, context: InvocationContext
) -> Iterator[str]:
    searched = text.casefold() if ignore_case else text
    try:
        data = _read_text(target, size_limit, context)
    except Refusal:
        return  # it was removed, or is unreadable
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        compared = line.casefold() if ignore_case else line
        if searched in compared:
            yield f"{target.shown}:{number}: {_shorten(line.strip(), searched)}"


def _read_text(target: GrantedPath, size_limit: int, context: InvocationContext) -> bytes:
    """Return the text of a file, up to the limit; empty if it is binary."""
    data = bytearray()
    with open_file(target) as (descriptor, _):
        for block in read_blocks(descriptor, context):
            # The first block tells whether a file is binary, so that no picture is read to its end.
            if not data and is_binary(block):
                return b""
            data += block
            if len(data) > size_limit:
                break  # it grew in between, or reports no size
    return bytes(data)


def _shorten(line: str, searched: str) -> str:
    if len(line) <= _LINE_CHARACTERS:
        return line
    start = max(0, line.casefold().find(searched.casefold()) - _LINE_CHARACTERS // 3)
    piece = line[start : start + _LINE_CHARACTERS]
    return f"{'…' if start else ''}{piece}…"
