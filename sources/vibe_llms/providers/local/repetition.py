"""Repetition in a text: small models may repeat themselves until their window is full."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import define

REPEATS: Final = 8
"""Minimum number of repetitions in a row."""

CHARACTERS: Final = 1000
"""Minimum length of all repetitions together: shorter ones may be verses or tables."""

_TAIL: Final = 4000
_STEP: Final = 200


@define
class RepetitionWatch:
    """Detects a loop at the end of a growing text."""

    _tail: str = ""
    _unchecked: int = 0

    def feed(self, piece: str) -> bool:
        """Add a piece of the text; return whether the text now ends in a loop."""
        self._tail = (self._tail + piece)[-_TAIL:]
        self._unchecked += len(piece)
        if self._unchecked < _STEP:
            return False
        self._unchecked = 0
        return is_loop(self._tail)


def is_loop(text: str) -> bool:
    """Return whether a text ends with many repetitions of some words."""
    backwards = text[::-1]
    # borders[n]: length of the longest proper prefix of the first n characters that is also their
    # suffix.
    borders = [0] * (len(backwards) + 1)
    length = 0
    for index in range(1, len(backwards)):
        while length and backwards[index] != backwards[length]:
            length = borders[length]
        if backwards[index] == backwards[length]:
            length += 1
        borders[index + 1] = length
        size = index + 1
        # The last characters of the text, as many as size, repeat the same period characters.
        period = size - length
        if size >= CHARACTERS and size >= REPEATS * period:
            return True
    return False
