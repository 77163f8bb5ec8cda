"""Positions of the values in a JSON text, which Python's ``json`` does not return."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.toml_lines import Scanner

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR: Final = re.compile(r"[^\s,\]}]+")
_CHARACTER: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u.{4}|\\.|[^\\]", re.DOTALL
)
"""One character of a text, escaped or not."""


@frozen
class JsonOffsets:
    """Offsets of keys and values in a JSON text.

    Attributes:
        text: JSON that ``json`` has accepted; for other text the offsets are meaningless.
        keys: Offset of a member's key, or of an element, by its path.
        values: Offset of the value itself.
        repeated: Paths of duplicate keys.
    """

    text: str
    keys: Mapping[KeyPath, int]
    values: Mapping[KeyPath, int]
    repeated: tuple[KeyPath, ...]
    _starts: list[int]

    def locate(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of an offset, both counted from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def find_character(self, path: KeyPath, index: int) -> int:
        """Return the offset at which a character of a string was written.

        Args:
            path: Path of the string.
            index: Index of the character in the value, from 0.
        """
        scanner = Scanner(self.text, self.values[path])
        end = scanner.position + len(scanner.take(_STRING)) - 1
        scanner.position = self.values[path] + 1
        for _ in range(index):
            if scanner.position >= end:
                break
            scanner.take(_CHARACTER)
        return min(scanner.position, end)


def locate_values(text: str) -> JsonOffsets:
    """Find the offset of each key and each value, without recursion."""
    scanner = _JsonScanner(text)
    scanner.scan()
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return JsonOffsets(text, scanner.keys, scanner.values, tuple(scanner.repeated), starts)


class _JsonScanner(Scanner):
    """Offsets found up to the position, and the open containers."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.keys: dict[KeyPath, int] = {(): 0}
        self.values: dict[KeyPath, int] = {}
        self.repeated: list[KeyPath] = []
        self.open: list[tuple[KeyPath, int]] = []  # of an array the next index, of an object -1

    def scan(self) -> None:
        self.begin_value(())
        while self.open:
            self.take(_SPACE)
            path, index = self.open.pop()
            if self.accept("]") or self.accept("}"):
                continue
            self.accept(",")
            self.take(_SPACE)
            self.open.append((path, index + 1 if index >= 0 else index))
            self.begin_value((*path, index) if index >= 0 else self.take_key(path))

    def take_key(self, path: KeyPath) -> KeyPath:
        import json

        offset = self.position
        path = (*path, json.loads(self.take(_STRING), strict=False))
        if path in self.keys and not any(path[: len(each)] == each for each in self.repeated):
            self.repeated.append(path)  # keys within a duplicate are not reported again
        self.keys[path] = offset  # json keeps the last one, too
        self.take(_SPACE)
        self.accept(":")
        return path

    def begin_value(self, path: KeyPath) -> None:
        self.take(_SPACE)
        self.keys.setdefault(path, self.position)
        self.values[path] = self.position
        if self.accept("["):
            self.open.append((path, 0))
        elif self.accept("{"):
            self.open.append((path, -1))
        else:
            is_string = self.text.startswith('"', self.position)
            self.take(_STRING if is_string else _SCALAR)
