"""TOML files of limited size, with the line of each key."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import tomli

from vibe_llms.foundation.files import read_beginning
from vibe_llms.tables.paths import KeyPath, write_path
from vibe_llms.tables.reading import Position, TableReader

_T = TypeVar("_T")

MAXIMUM_FILE_BYTES: Final = 1_000_000
"""Size limit of a file; files written by hand are smaller."""


class Document:
    """Content of a file.

    Attributes:
        place: Path of the file, or another name for the source of the text.
        text: The text of the file.
        tree: The parsed data.
    """

    def __init__(self, place: str, text: str, tree: Mapping[str, Any]) -> None:
        self.place = place
        self.text = text
        self.tree = tree

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document):
            return NotImplemented
        return (self.place, self.text) == (other.place, other.text)

    def __hash__(self) -> int:
        return hash((self.place, self.text))

    def __repr__(self) -> str:
        return f"Document({self.place!r})"  # its text may hold a secret

    @cached_property
    def lines(self) -> Mapping[KeyPath, int]:
        """Line of each key, counted from 1."""
        from vibe_llms.tables.toml_lines import locate_keys  # needed after a mistake only

        return locate_keys(self.text)

    def find_line(self, path: KeyPath) -> int:
        """Return the line of a key, or of the nearest table around a key that is missing."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 0)

    def find_place(self, path: KeyPath) -> tuple[int, int]:
        """Return line and column of a key, or of the nearest table around it; 0 if unknown."""
        return self.find_line(path), 0

    def find_within(self, path: KeyPath, line: int, column: int) -> tuple[int, int]:
        """Return the position in the file of a position within a text.

        Args:
            path: Path of the text.
            line: Line within the text, from 1.
            column: Column within that line, from 1.
        """
        first = self.find_line(path)
        begins_below = self.text.splitlines()[first - 1].rstrip().endswith(("'''", '"""'))
        if begins_below:
            return first + line, column
        return first + line - 1, column if line > 1 else 0  # the key is before it on the line

    def locate(self, path: KeyPath) -> Position:
        """Return the position of a value."""
        return self.place, *self.find_place(path), write_path(path)

    def produce_reader(self, base: Path | None = None) -> TableReader:
        """Make a reader whose findings name the file and the line.

        Args:
            base: Directory where relative paths start.
        """
        return TableReader(self.locate, base=base)


def read_document(path: Path | str) -> Document:
    """Read a TOML file.

    Raises:
        ConfigurationError: The file is unreadable, too large or invalid.
    """
    return parse_document(read_bytes(path), str(path))


def read_file(cls: type[_T], path: Path) -> _T:
    """Read a TOML file as a value; relative paths in it start at its directory.

    Args:
        cls: An attrs class, see ``annotations``.

    Raises:
        ConfigurationError: The file has mistakes; lists all of them.
    """
    document = read_document(path)
    reader = document.produce_reader(path.parent)
    value = reader.read(cls, document.tree)
    reader.finish()
    assert value is not None
    return value


def read_bytes(path: Path | str, most: int = MAXIMUM_FILE_BYTES) -> bytes:
    """Read the bytes of a file.

    Args:
        most: Size of the largest file that is accepted.

    Raises:
        ConfigurationError: The file is unreadable or too large.
    """
    try:
        # One byte above the limit, to notice a larger file.
        raw = read_beginning(path, most + 1)
    except OSError as error:
        refuse(str(path), f"Cannot read the file: {error.strerror}.")
    if len(raw) > most:
        refuse(str(path), f"The file is larger than {most} bytes.")
    return raw


def parse_document(raw: bytes, place: str) -> Document:
    """Parse the bytes of a TOML file.

    Raises:
        ConfigurationError: The text is invalid; names the line, if known.
    """
    try:
        text = raw.decode("utf-8")
        return Document(place, text, tomli.loads(text))
    except UnicodeDecodeError as error:
        from vibe_llms.foundation.encodings import explain_misencoding

        reason = explain_misencoding(raw, "This file", path=place)
        line = raw.count(b"\n", 0, error.start) + 1
        refuse(place, f"TOML files must be UTF-8. {reason}", line)
    except tomli.TOMLDecodeError as error:
        refuse(place, f"Invalid TOML: {error.msg}.", error.lineno)
    except ValueError as error:  # such as an integer of thousands of digits
        refuse(place, f"Invalid TOML: {error}.")
    except RecursionError:
        refuse(place, "Invalid TOML: arrays or tables nest too deeply.")


def refuse(place: str, message: str, line: int = 0) -> NoReturn:
    """Raise ConfigurationError with one finding."""
    from vibe_llms.exceptions import ConfigurationError  # needed after a mistake only

    raise ConfigurationError.at(place, message, line)
