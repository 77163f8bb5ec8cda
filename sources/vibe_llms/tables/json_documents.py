"""Tables in JSON files, with the line and the column of each value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.tables.documents import Document, refuse
from vibe_llms.tables.json_offsets import JsonOffsets, locate_values
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import TableReader

DEPTH_LIMIT: Final = 100
"""Limit of the nesting of objects and arrays; files written by hand have about ten levels."""

NODES_LIMIT: Final = 200_000
"""Limit of the number of values: as many as fit into a file."""


class JsonDocument(Document):
    """Content of a JSON file."""

    @cached_property
    def offsets(self) -> JsonOffsets:
        """Positions of keys and values, for error messages."""
        return locate_values(self.text)

    @cached_property
    def lines(self) -> Mapping[KeyPath, int]:
        """Line of each key, counted from 1."""
        return {path: self.offsets.locate(offset)[0] for path, offset in self.offsets.keys.items()}

    def find_place(self, path: KeyPath) -> tuple[int, int]:
        """Return line and column of a key or an element, or of the nearest around it."""
        while path not in self.offsets.keys:
            path = path[:-1]
        return self.offsets.locate(self.offsets.keys[path])

    def find_within(self, path: KeyPath, line: int, column: int) -> tuple[int, int]:
        """Return the position in the file of a character of a text, which may be escaped."""
        text: Any = self.tree
        for part in path:
            text = text[part]
        starts = [0, *(index + 1 for index, each in enumerate(text) if each == "\n")]
        index = starts[min(line, len(starts)) - 1] + column - 1
        return self.offsets.locate(self.offsets.find_character(path, index))

    def produce_reader(self, base: Path | None = None) -> TableReader:
        """Make a reader that has already reported duplicate keys."""
        reader = super().produce_reader(base)
        for path in self.offsets.repeated:
            reader.report(path, "The key occurs twice: remove one.")
        return reader


def parse_json_document(raw: bytes, place: str) -> JsonDocument:
    """Parse the bytes of a JSON file.

    Raises:
        ConfigurationError: The text is not a JSON object; names line and column.
    """
    try:
        text = raw.decode("utf-8-sig")  # some editors for Windows put a mark before it
        tree = json.loads(text, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        from vibe_llms.foundation.encodings import explain_misencoding

        reason = explain_misencoding(raw, "This file", path=place)
        line = raw.count(b"\n", 0, error.start) + 1
        refuse(place, f"JSON files must be UTF-8. {reason}", line)
    except json.JSONDecodeError as error:
        message = f"Invalid JSON: {error.msg[:1].lower()}{error.msg[1:]}."
        raise ConfigurationError.at(place, message, error.lineno, error.colno) from error
    except RecursionError:
        refuse(place, "Invalid JSON: objects or arrays nest too deeply.")
    except ValueError as error:  # a number of thousands of digits, or NaN
        refuse(place, f"Invalid JSON: {error}.")
    if not isinstance(tree, dict):
        refuse(place, "The document must be a JSON object, which begins with '{'.", 1)
    excess = find_excess(tree)
    if excess is not None:
        refuse(place, excess)
    return JsonDocument(place, text, tree)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def find_excess(tree: object) -> str | None:
    """Return the limit that plain data exceed, if any; handle cycles and huge data, too."""
    pending = [(tree, 0)]
    nodes = 0
    while pending:
        each, depth = pending.pop()
        nodes += 1
        if depth > DEPTH_LIMIT:
            return f"It nests more than {DEPTH_LIMIT} levels deep."
        if nodes + len(pending) > NODES_LIMIT:
            return f"It has more than {NODES_LIMIT} values."
        if isinstance(each, Mapping):
            pending += [(inner, depth + 1) for inner in each.values()]
        elif isinstance(each, (list, tuple)):
            pending += [(inner, depth + 1) for inner in each]
    return None
