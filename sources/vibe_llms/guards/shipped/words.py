"""Guard against words and phrases of a list."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.guards.shipped.settings import Action, read_guard_settings
from vibe_llms.plugins.specification.guards import (
    GuardContext,
    GuardRefusal,
    GuardVerdict,
    Inspection,
    Redaction,
)
from vibe_llms.tables.annotations import Strings
from vibe_llms.tables.reading import require

_WORD: Final = re.compile(r"(?:[^\W_][\u0300-\u036f]*+)++")
"""Letters with their accents, and digits."""

_GAP_CHARACTERS: Final = 8
"""Most characters between two words of a phrase, such as spaces and a line end."""

_END: Final = ""


def _fold(text: str) -> str:
    """Return a text without differences of case, of width, and of the coding of accents."""
    return unicodedata.normalize("NFKC", text).casefold()


@frozen(kw_only=True)
class WordSettings:
    """Settings of a guard of the kind ``words``.

    Attributes:
        words: Words and phrases, found as whole words in any case and width. Between the
            words of a phrase may be any spaces and punctuation.
        action: ``mark`` to replace what is found, or ``refuse``.
    """

    words: Strings
    action: Action = "mark"

    def __attrs_post_init__(self) -> None:
        require(self, "guards")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions: a field, and a sentence."""
        if not self.words:
            yield "words", "The list is empty."
        for number, each in enumerate(self.words, 1):
            if not _WORD.search(each):
                yield "words", f"Entry {number} has no letter and no digit."


def make_guard(context: GuardContext) -> WordGuard:
    """Make the guard of a table. Raises ConfigurationError."""
    return WordGuard(read_guard_settings(WordSettings, context))


@frozen(eq=False)
class WordGuard:
    """Finds whole words and phrases, in one pass over the words of a text."""

    settings: WordSettings
    window: int = attrs.field(init=False)
    _phrases: Mapping[str, Any] = attrs.field(init=False, repr=False)
    """The phrases as a tree: each word leads to the words that may follow."""

    @window.default
    def _measure_window(self) -> int:
        decomposed = (unicodedata.normalize("NFKD", each) for each in self.settings.words)
        words = [_WORD.findall(each) for each in decomposed]
        return max(sum(map(len, each)) + _GAP_CHARACTERS * len(each) for each in words)

    @_phrases.default
    def _plant(self) -> Mapping[str, Any]:
        root: dict[str, Any] = {}
        for phrase in self.settings.words:
            node = root
            for word in _WORD.findall(_fold(phrase)):
                node = node.setdefault(word, {})
            node[_END] = True
        return root

    async def examine(self, inspection: Inspection) -> GuardVerdict:
        """Return the words and phrases in the texts."""
        found: list[Redaction] = []
        for index, text in enumerate(inspection.texts):
            begin = inspection.begin if index == 0 else 0
            found += [
                Redaction(start, end, "[word removed]", "a word of its list", index)
                for start, end in self._find(text, begin)
            ]
        if self.settings.action == "refuse":
            size = len(inspection.texts[0])
            if any(inspection.is_complete or each.end < size for each in found):
                return GuardRefusal("it has a word of its list")
        return found

    def _find(self, text: str, begin: int) -> Iterator[tuple[int, int]]:
        words = [(_fold(match[0]), *match.span()) for match in _WORD.finditer(text)]
        position = 0
        while position < len(words):
            last = -1 if words[position][1] < begin else self._match(words, position)
            if last >= 0:
                yield words[position][1], words[last][2]
            position = max(position, last) + 1

    def _match(self, words: list[tuple[str, int, int]], position: int) -> int:
        """Return the last word of the longest phrase that begins with a word; -1 without one."""
        node = self._phrases
        found, end = -1, words[position][1]
        for index in range(position, len(words)):
            word, start, stop = words[index]
            if word not in node or start - end > _GAP_CHARACTERS:
                break
            node = node[word]
            if _END in node:
                found = index
            end = stop
        return found
