"""Places in the original text, also after it was cleaned."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

from vibe_llms.foundation.attrs_classes import frozen

SPACE = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""JavaScript's white space, for character classes: differs from Python's."""

_SPACES = re.compile(f"[{SPACE}]*")


@frozen
class Span:
    """A range of the original text.

    Attributes:
        line: Line of its first character, from 1.
        column: Column of its first character, from 1.
        start: Index of its first character in the whole text, from 0.
        end: Index after its last character.
    """

    line: int
    column: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


NOWHERE = Span(0, 0, 0, 0)
"""Place of values that were not read from a text."""


@frozen
class Edit:
    """Replacement of a range of a text."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with the edits applied, which must be in order and must not overlap."""
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += (text[position : edit.start], edit.text)
        position = edit.end
    return "".join([*pieces, text[position:]])


def skip_space(text: str, position: int) -> int:
    """Return the end of the white space that begins at a position."""
    found = _SPACES.match(text, position)
    assert found is not None
    return found.end()


def strip_space(text: str) -> str:
    """Return the text without white space at its ends, like JavaScript's ``trim``."""
    start = skip_space(text, 0)
    end = len(text)
    while end > start and _SPACES.fullmatch(text[end - 1]):
        end -= 1
    return text[start:end]


class SourceText:
    """A text and, if it was cleaned, the original position of each character.

    Mermaid cleans a diagram in several passes before it parses it; errors and edits need the
    original places.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.text = source
        self._origins: Sequence[int] = range(len(source) + 1)

    def apply(self, edits: Iterable[Edit]) -> None:
        """Apply edits to the current text; they must be in order and must not overlap."""
        edits = list(edits)
        if not edits:
            return
        origins: list[int] = []
        position = 0
        for edit in edits:
            origins += self._origins[position : edit.start]
            begin = self._origins[edit.start]
            if len(edit.text) == edit.end - edit.start:
                origins += self._origins[edit.start : edit.end]
            else:
                last = self._origins[max(edit.end - 1, edit.start)]
                origins += [*[begin] * (len(edit.text) - 1), last][: len(edit.text)]
            position = edit.end
        self._origins = [*origins, *self._origins[position:]]
        self.text = apply_edits(self.text, edits)

    @cached_property
    def _lines(self) -> list[int]:
        breaks = re.finditer(r"\r\n?|\n", self.source)
        return [0, *(found.end() for found in breaks)]

    def locate(self, start: int, end: int) -> Span:
        """Return the original place of a range of the cleaned text."""
        begin = self._origins[start]
        # the end follows the last character: text removed after it is not part of it
        stop = self._origins[end - 1] + 1 if end > start else begin
        return self.locate_source(begin, max(begin, stop))

    def locate_source(self, start: int, end: int) -> Span:
        """Return the place of a range of the original text."""
        line = bisect_right(self._lines, start)
        return Span(line, start - self._lines[line - 1] + 1, start, end)
