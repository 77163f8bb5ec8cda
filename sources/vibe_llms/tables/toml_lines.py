"""Lines of the keys in a TOML text, which tomli does not return."""

from __future__ import annotations

import re
from collections.abc import Mapping

import tomli

Path = tuple[str | int, ...]
"""Path of a value: keys of tables and, in arrays, indices from 0."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]}#\n]+")


def locate_keys(text: str) -> Mapping[Path, int]:
    """Find the line, counted from 1, of each key's first occurrence.

    Includes elements of arrays that are tables or arrays. A table without a header of its own is on
    the line of its first key.

    Args:
        text: TOML that tomli has accepted; for other text the result is meaningless.
    """
    scanner = _TomlScanner(text)
    scanner.scan_document()
    return scanner.lines


class Scanner:
    """Position in a text that a parser has accepted."""

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position

    def accept(self, mark: str) -> bool:
        """Skip a mark, if it is next."""
        found = self.text.startswith(mark, self.position)
        if found:
            self.position += len(mark)
        return found

    def take(self, pattern: re.Pattern[str]) -> str:
        """Skip the text that matches, and return it."""
        match = pattern.match(self.text, self.position)
        if match is None:
            raise ValueError(f"Invalid syntax at character {self.position}.")
        self.position = match.end()
        return match.group()


class _TomlScanner(Scanner):
    """Lines found up to the position."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.counted = 0
        self.line = 1
        self.lines: dict[Path, int] = {}
        self.last_indices: dict[Path, int] = {}

    def scan_document(self) -> None:
        table: Path = ()
        self.take(_BLANK)
        while self.position < len(self.text):
            if self.accept("[["):
                table = self.scan_key((), appends=True)
                self.accept("]]")
            elif self.accept("["):
                table = self.scan_key(())
                self.accept("]")
            else:
                self.scan_pair(table)
            self.take(_BLANK)

    def scan_pair(self, table: Path) -> None:
        path = self.scan_key(table)
        self.accept("=")
        self.take(_SPACE)
        self.scan_value(path)

    def scan_key(self, table: Path, *, appends: bool = False) -> Path:
        """Read a key, dotted or not, and record each table on its path."""
        path = table
        while True:
            self.take(_SPACE)
            path = (*path, self.take_key_part())
            self.take(_SPACE)
            self.record_line(path)
            if not self.accept("."):
                break
            path = self.enter_array(path)
        if appends:
            self.last_indices[path] = self.last_indices.get(path, -1) + 1
        path = self.enter_array(path)
        self.record_line(path)
        return path

    def enter_array(self, path: Path) -> Path:
        """Append the index of the last element, if the path names an array of tables."""
        index = self.last_indices.get(path)
        return path if index is None else (*path, index)

    def take_key_part(self) -> str:
        if self.text[self.position] not in "\"'":
            return self.take(_BARE)
        quoted = self.take(_STRING)
        if "\\" in quoted:  # tomli decodes the escapes
            return str(tomli.loads(f"key = {quoted}")["key"])
        return quoted[1:-1]

    def scan_value(self, path: Path) -> None:
        if self.accept("["):
            self.scan_array(path)
        elif self.accept("{"):
            self.scan_inline_table(path)
        elif self.text[self.position] in "\"'":
            self.take(_STRING)
        else:
            self.take(_SCALAR)

    def scan_array(self, path: Path) -> None:
        index = 0
        self.take(_BLANK)
        while not self.accept("]"):
            element = (*path, index)
            if self.text[self.position] in "[{":
                self.record_line(element)
            self.scan_value(element)
            self.take(_BLANK)
            self.accept(",")
            self.take(_BLANK)
            index += 1

    def scan_inline_table(self, path: Path) -> None:
        self.take(_BLANK)
        while not self.accept("}"):
            self.scan_pair(path)
            self.take(_BLANK)
            self.accept(",")
            self.take(_BLANK)

    def record_line(self, path: Path) -> None:
        # Continue the last count: starting over would take quadratic time.
        self.line += self.text.count("\n", self.counted, self.position)
        self.counted = self.position
        self.lines.setdefault(path, self.line)  # each key below it records it again
