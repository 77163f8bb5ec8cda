"""Positions in a template: the line, which Jinja knows, and the column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from vibe_llms.exceptions import Finding


class LineNumber(int):
    """A line number with a column; Jinja copies it to the nodes of its tree, like any other."""

    column: int

    def __new__(cls, number: int, column: int) -> LineNumber:
        """Create a line number; line and column count from 1."""
        line = super().__new__(cls, number)
        line.column = column
        return line


def place_tokens(
    source: str, tokens: Iterable[tuple[int, str, str]]
) -> Iterator[tuple[int, str, str]]:
    """Add the column to the line number of each token of a template.

    Args:
        tokens: Tokens of Jinja's lexer, with their source texts.
    """
    position = 0
    for number, kind, text in tokens:
        found = source.find(text, position)
        if found >= 0:
            position = found
        yield LineNumber(number, position - source.rfind("\n", 0, position)), kind, text
        position += len(text) if found >= 0 else 0


def keep_lines(tokens: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
    """Restore the line break after an inclusion at the end of a line.

    Jinja removes the line break after every ``{% … %}``. This is right after control statements,
    but wrong after an inclusion, which inserts text.
    """
    words: list[str] = []  # of the current block
    for number, kind, text in tokens:
        if kind == "block_begin":
            words = []
        elif kind == "name":
            words.append(text)
        if kind == "block_end" and words[:1] == ["include"] and text == "%}\n":
            yield number, kind, "%}"
            yield number, "data", "\n"
        else:
            yield number, kind, text


def find_column(source: str, number: int, word: str) -> int:
    """Return the column of a word's first occurrence on a line; 0 if it does not occur."""
    lines = source.splitlines()
    if not 0 < number <= len(lines):
        return 0
    found = re.search(rf"\b{re.escape(word)}\b", lines[number - 1])
    return found.start() + 1 if found else 0


_OFFSET = re.compile(r" at (\d+)$")


def place_error(source: str, line: int | None, message: str) -> tuple[int, str]:
    """Return the line of a Jinja error, with its column, and the message.

    Only the lexer reports an offset, in its message.
    """
    found = _OFFSET.search(message)
    if found is None or isinstance(line, LineNumber):
        return line or 0, message
    offset = int(found[1])
    return LineNumber(line or 0, offset - source.rfind("\n", 0, offset)), message[: found.start()]


def produce_finding(place: str, line: Any, message: str) -> Finding:
    """Create a finding about a position in a template."""
    column = line.column if isinstance(line, LineNumber) else 0
    return Finding(place=place, line=int(line or 0), column=column, message=message)
