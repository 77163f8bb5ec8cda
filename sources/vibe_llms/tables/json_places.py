"""Where each value of a JSON text stands, which Python's ``json`` does not tell."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from vibe_llms.tables.reading import KeyPath
from vibe_llms.values import frozen

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR: Final = re.compile(r"[^\s,\]}]+")
_CHARACTER: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u.{4}|\\.|[^\\]", re.DOTALL
)
"""One character of a value, however many were written for it."""


@frozen
class JsonPlaces:
    """Where things stand in a text, as offsets from its beginning.

    Attributes:
        text: JSON that ``json`` has accepted; for other text nothing that is said here means much.
        keys: Where a member's key or an element stands, by its path.
        values: Where the value itself begins.
        repeated: The paths of keys that stand in their object twice.
    """

    text: str
    keys: Mapping[KeyPath, int]
    values: Mapping[KeyPath, int]
    repeated: tuple[KeyPath, ...]
    _starts: list[int]

    def tell(self, offset: int) -> tuple[int, int]:
        """Returns the line and the column of an offset, both counted from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def find_character(self, path: KeyPath, index: int) -> int:
        """Returns the offset at which a character of a string was written.

        Args:
            path: The way to the string.
            index: Which character of its value, from 0.
        """
        offset = self.values[path] + 1
        end = self.text.rindex('"', 0, _take(_STRING, self.text, offset - 1))
        for _ in range(index):
            if offset >= end:
                break
            offset = _take(_CHARACTER, self.text, offset)
        return min(offset, end)


def locate_values(text: str) -> JsonPlaces:
    """Finds where each key and each value stands. Deep nesting costs no stack."""
    walk = _Walk(text)
    walk.follow()
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return JsonPlaces(text, walk.keys, walk.values, tuple(walk.repeated), starts)


class _Walk:
    """A position in the text, what was found up to there, and which containers are open."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.keys: dict[KeyPath, int] = {(): 0}
        self.values: dict[KeyPath, int] = {}
        self.repeated: list[KeyPath] = []
        self.open: list[tuple[KeyPath, int]] = []  # of an array the next index, of an object -1

    def follow(self) -> None:
        self.begin_value(())
        while self.open:
            self.skip()
            path, index = self.open.pop()
            if self.accept("]") or self.accept("}"):
                continue
            self.accept(",")
            self.skip()
            self.open.append((path, index + 1 if index >= 0 else index))
            self.begin_value((*path, index) if index >= 0 else self.take_key(path))

    def take_key(self, path: KeyPath) -> KeyPath:
        import json

        offset = self.position
        self.position = _take(_STRING, self.text, offset)
        path = (*path, json.loads(self.text[offset : self.position], strict=False))
        if path in self.keys and not any(path[: len(each)] == each for each in self.repeated):
            self.repeated.append(path)  # within what stands twice itself, everything might
        self.keys[path] = offset  # json keeps the last one, too
        self.skip()
        self.accept(":")
        return path

    def begin_value(self, path: KeyPath) -> None:
        self.skip()
        self.keys.setdefault(path, self.position)
        self.values[path] = self.position
        if self.accept("["):
            self.open.append((path, 0))
        elif self.accept("{"):
            self.open.append((path, -1))
        else:
            is_string = self.text.startswith('"', self.position)
            self.position = _take(_STRING if is_string else _SCALAR, self.text, self.position)

    def accept(self, mark: str) -> bool:
        found = self.text.startswith(mark, self.position)
        if found:
            self.position += len(mark)
        return found

    def skip(self) -> None:
        self.position = _take(_SPACE, self.text, self.position)


def _take(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    if match is None:
        raise ValueError(f"This is not JSON, from character {position} on.")
    return match.end()
