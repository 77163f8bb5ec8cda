"""Sentences of a text that arrives in pieces."""

from __future__ import annotations

import re
from typing import Final

_QUOTES: Final = "\"'\u201d\u2019\u00bb)\\]"
_END: Final = re.compile(
    rf"(?<![.!?\u2026])[.!?\u2026]++[{_QUOTES}]*+\s++"
    "|[\u3002\uff01\uff1f]++[\u201d\u2019\u300d\u300f\uff09]*+"
    r"|\n\s*\n"
)
"""End of a sentence, also in Chinese and Japanese. ``3.5`` has no space after the dot."""
_MIN_CHARACTERS: Final = 20
"""Shorter sentences are joined with the next one: "Dr." is not a sentence."""
_MAX_CHARACTERS: Final = 1_000


class SentenceSplitter:
    """Splits a text into sentences, as soon as each is complete.

    Sentences contain the blanks after them, so that they can be joined to the text.
    """

    def __init__(self) -> None:
        self._text = ""

    def feed(self, piece: str) -> list[str]:
        """Return the sentences that a piece completes."""
        self._text += piece
        found, start = [], 0
        for match in _END.finditer(self._text):
            # The blanks after a sentence may continue.
            if match.end() - start >= _MIN_CHARACTERS and match.end() < len(self._text):
                found.append(self._text[start : match.end()])
                start = match.end()
        while len(self._text) - start > _MAX_CHARACTERS:
            end = self._text.rfind(" ", start, start + _MAX_CHARACTERS) + 1
            end = end if end > start else start + _MAX_CHARACTERS
            found.append(self._text[start:end])
            start = end
        self._text = self._text[start:]
        return [each for each in found if each.strip()]

    def finish(self) -> list[str]:
        """Return the rest of the text."""
        rest, self._text = self._text, ""
        return [rest] if rest.strip() else []
