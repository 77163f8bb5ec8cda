"""Repetition in a text: small models fall into it, and go on with it until their window is full."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import define

REPEATS: Final = 8
"""So often in a row, at least, the same words are a loop."""

CHARACTERS: Final = 1000
"""So long, at least, a loop is: shorter ones are verses, tables and lines of dashes."""

_TAIL: Final = 4000
_STEP: Final = 200


@define
class RepetitionWatch:
    """Watches a text that grows for a loop at its end."""

    _tail: str = ""
    _fresh: int = 0

    def feed(self, piece: str) -> bool:
        """Take a piece of the text; tell whether the text has fallen into a loop."""
        self._tail = (self._tail + piece)[-_TAIL:]
        self._fresh += len(piece)
        if self._fresh < _STEP:
            return False
        self._fresh = 0
        return is_loop(self._tail)


def is_loop(text: str) -> bool:
    """Tell whether a text ends in the same words, again and again."""
    backwards = text[::-1]
    # borders[n]: how much of the first n characters, at most, is their end as well as their begin.
    borders = [0] * (len(backwards) + 1)
    length = 0
    for place in range(1, len(backwards)):
        while length and backwards[place] != backwards[length]:
            length = borders[length]
        length += backwards[place] == backwards[length]
        borders[place + 1] = length
        size = place + 1
        if size >= CHARACTERS and size >= REPEATS * (size - length):
            return True
    return False
