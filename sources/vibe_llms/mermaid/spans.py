"""Where something stands in the text that a person wrote, also after the text was cleaned."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property

from vibe_llms.foundation.attrs_classes import frozen

SPACE = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""What JavaScript calls white space, for classes of regular expressions: not what Python does."""

_SPACES = re.compile(f"[{SPACE}]*")


@frozen
class Span:
    """A stretch of the text as it was written.

    Attributes:
        line: Of its first character, counted from 1.
        column: Counted from 1, in characters.
        start: Its first character, counted from 0 in the whole text.
        end: The character after its last.
    """

    line: int
    column: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.line}:{self.column}"


NOWHERE = Span(0, 0, 0, 0)
"""The place of what no text was read for."""


@frozen
class Edit:
    """Other words for a stretch of a text."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Returns the text with the edits made, which must be in order and must not overlap."""
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += (text[position : edit.start], edit.text)
        position = edit.end
    return "".join([*pieces, text[position:]])


def skip_space(text: str, position: int) -> int:
    """Returns where the white space ends that begins there."""
    found = _SPACES.match(text, position)
    assert found is not None
    return found.end()


def strip_space(text: str) -> str:
    """Returns the text without white space at its ends, as ``trim`` of JavaScript does."""
    start = skip_space(text, 0)
    end = len(text)
    while end > start and _SPACES.fullmatch(text[end - 1]):
        end -= 1
    return text[start:end]


class Writing:
    """A text and, where it was cleaned, where each character of it stands in what was written.

    Mermaid cleans a diagram in several passes before it reads it; errors and edits need the
    places from before that.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.text = source
        self._origins: Sequence[int] = range(len(source) + 1)

    def clean(self, edits: Iterable[Edit]) -> None:
        """Makes edits of the text as it is now; they must be in order and must not overlap."""
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
        """Returns where a stretch of the cleaned text stands in what was written."""
        begin = self._origins[start]
        # the end is behind the last character: what was taken out after it is not part of it
        stop = self._origins[end - 1] + 1 if end > start else begin
        return self.locate_source(begin, max(begin, stop))

    def locate_source(self, start: int, end: int) -> Span:
        """Returns the place of a stretch of what was written."""
        line = bisect_right(self._lines, start)
        return Span(line, start - self._lines[line - 1] + 1, start, end)
