"""Changes of one table in the text of a file of keys; comments and all else stay.

Only the text of this table is parsed by the slow library that keeps comments, so that a change
takes as long in a large file as in a small one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

import tomli

_HEADER: Final = re.compile(r"^[ \t]*\[", re.MULTILINE)


def split_tables(text: str) -> list[str]:
    """Split a text before each header of a table. Comments before the first header are left out.

    A line within a text of several lines may look like a header: the caller checks each part.
    """
    starts = [each.start() for each in _HEADER.finditer(text)]
    parts = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    first = text[: starts[0]] if starts else text
    return parts if _is_comment(first) else [first, *parts]


def _is_comment(text: str) -> bool:
    try:
        return not tomli.loads(text)
    except tomli.TOMLDecodeError:
        return False


def append_table(text: str, name: str, fields: Mapping[str, object]) -> str:
    """Append a table that the text does not have."""
    import tomlkit  # not needed by daemons without an operator

    end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{end}\n{tomlkit.dumps({name: fields})}"


def change_table(text: str, name: str, fields: Mapping[str, object]) -> str:
    """Set or remove fields of a table.

    Args:
        text: Valid TOML with this table.
        name: Name of the table, at the top level: letters and digits.
        fields: New values; ``None`` removes a field.
    """
    start, end = _find_table(text, name)
    return text[:start] + _change(text[start:end], name, fields) + text[end:]


def _find_table(text: str, name: str) -> tuple[int, int]:
    """Return where a table begins and ends; the whole text if it is not written as usual."""
    header = rf"""^[ \t]*\[[ \t]*(["']?){re.escape(name)}\1[ \t]*\]"""
    found = [*re.finditer(header, text, re.MULTILINE)]
    if len(found) == 1:
        start = found[0].start()
        following = _HEADER.search(text, found[0].end())
        end = following.start() if following else len(text)
        # Such a line may be within a text or a list of several lines.
        if _is_whole(text[start:end], name):
            return start, end
    return 0, len(text)


def _is_whole(part: str, name: str) -> bool:
    try:
        return tomli.loads(part).keys() == {name}
    except tomli.TOMLDecodeError:
        return False


def _change(part: str, name: str, fields: Mapping[str, object]) -> str:
    import tomlkit

    document: Any = tomlkit.parse(part)
    table = document[name]
    for field, value in fields.items():
        if value is None:
            table.pop(field, None)
        else:
            table[field] = value
    return tomlkit.dumps(document)
