"""Search for files by their names, and for lines by a text in them.

Regular expressions are not supported: endless backtracking would block the whole process, and no
time limit could stop it.
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
_PASSED_OVER: Final = frozenset({".git"})


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
        text: Empty to search for files by name only.
        name: A pattern with ``*``, ``?`` and ``[…]`` for the name of a file, not its path.
        size_limit: Maximum size in bytes of the searched files.

    Raises:
        Refusal: The target is not a directory, or the pattern is too long.
    """
    # fnmatch creates a regular expression from it: a model's pattern must be short.
    if len(name) > _PATTERN_CHARACTERS:
        raise Refusal(f"A pattern of names has at most {_PATTERN_CHARACTERS} characters.")
    if "\n" in text:
        raise Refusal("The text must not contain a line break: the search goes line by line.")
    visit = DirectoryWalk(target, context, passed_over=_PASSED_OVER)
    found: list[str] = []
    for entry in visit.survey():
        if not stat.S_ISREG(entry.found.st_mode) or not fnmatchcase(entry.target.name, name):
            continue
        if not text:
            found.append(entry.target.shown)
        # The file's own size; if it has more data, reading still stops at the limit.
        elif entry.found.st_size > size_limit:
            visit.note(f"files larger than {size_limit} bytes were skipped")
        else:
            lines = _search_file(entry.target, text, ignore_case, size_limit, context)
            for line in lines:
                found.append(line)
                if len(found) > FOUND_LIMIT:
                    break
        if len(found) > FOUND_LIMIT:
            visit.note(
                f"only the first {FOUND_LIMIT} are shown; search for something more specific"
            )
            break
    lines_found = found[:FOUND_LIMIT] or ["[nothing found]"]
    return "\n".join([*lines_found, *(f"[{note}]" for note in visit.notes)])


def _search_file(
    target: GrantedPath, text: str, ignore_case: bool, size_limit: int, context: InvocationContext
) -> Iterator[str]:
    wanted = text.casefold() if ignore_case else text
    try:
        data = _read_text(target, size_limit, context)
    except Refusal:
        return  # it was removed, or is unreadable
    for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1):
        if wanted in (line.casefold() if ignore_case else line):
            yield f"{target.shown}:{number}: {_shorten(line.strip(), wanted)}"


def _read_text(target: GrantedPath, size_limit: int, context: InvocationContext) -> bytes:
    """Return the text of a file, up to the limit; empty if it is binary."""
    data = bytearray()
    with open_file(target) as (descriptor, _):
        for block in read_blocks(descriptor, context):
            # The first block decides: a picture is not read to its end in vain.
            if not data and is_binary(block):
                return b""
            data += block
            if len(data) > size_limit:
                break  # it grew in between, or reports no size
    return bytes(data)


def _shorten(line: str, wanted: str) -> str:
    if len(line) <= _LINE_CHARACTERS:
        return line
    start = max(0, line.casefold().find(wanted.casefold()) - _LINE_CHARACTERS // 3)
    piece = line[start : start + _LINE_CHARACTERS]
    return f"{'…' if start else ''}{piece}…"
