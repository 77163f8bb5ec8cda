"""Where in a template something stands: the line, which Jinja knows, and the column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from vibe_llms.exceptions import Finding


class LineNumber(int):
    """The number of a line that also knows a column; Jinja carries it wherever lines go."""

    column: int

    def __new__(cls, number: int, column: int) -> LineNumber:
        """Makes a line; both count from 1."""
        line = super().__new__(cls, number)
        line.column = column
        return line


def place_tokens(
    source: str, tokens: Iterable[tuple[int, str, str]]
) -> Iterator[tuple[int, str, str]]:
    """Gives each token of a template the column where it begins.

    Args:
        tokens: As Jinja's lexer finds them, with their texts as they stand in the source.
    """
    position = 0
    for number, kind, text in tokens:
        found = source.find(text, position)
        if found >= 0:
            position = found
        yield LineNumber(number, position - source.rfind("\n", 0, position)), kind, text
        position += len(text) if found >= 0 else 0


def keep_lines(tokens: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
    """Gives a line that ends with an inclusion its end back.

    Jinja takes the end of a line away after every ``{% … %}``: right after those that decide
    something, and wrong after one in whose place text comes.
    """
    words: list[str] = []
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
    """Returns the column at which a word first stands on a line; 0 where it does not."""
    lines = source.splitlines()
    if not 0 < number <= len(lines):
        return 0
    found = re.search(rf"\b{re.escape(word)}\b", lines[number - 1])
    return found.start() + 1 if found else 0


_OFFSET = re.compile(r" at (\d+)$")


def place_error(source: str, line: int | None, message: str) -> tuple[int, str]:
    """Returns the line of an error of Jinja's, with its column, and what is wrong.

    The lexer alone tells an offset, in its words.
    """
    found = _OFFSET.search(message)
    if found is None or isinstance(line, LineNumber):
        return line or 0, message
    offset = int(found[1])
    return LineNumber(line or 0, offset - source.rfind("\n", 0, offset)), message[: found.start()]


def produce_finding(place: str, line: Any, message: str) -> Finding:
    """Makes a finding about a place in a template."""
    column = getattr(line, "column", 0)
    return Finding(place=place, line=int(line or 0), column=column, message=message)
