"""How contents, such as pictures, find their places in a rendered text.

A content that a template prints becomes a mark, which survives blocks, macros and partials;
where the marks stand, the text is cut. Marks consist of characters for private use alone, so
that what is left of one that has not survived is seen.
"""

from __future__ import annotations

import re
import secrets

import attrs

from vibe_llms.messages.contents import AnyContent, TextualContent
from vibe_llms.values import define

_FIRST = 0xF0000  # of a plane of Unicode that is for private use as a whole
_PRIVATE = re.compile("[\U000f0000-\U000ffffd]")
_EDGE = chr(_FIRST)


def _hide(number: int) -> str:
    return "".join(chr(_FIRST + ord(digit)) for digit in str(number))


@define(eq=False)
class Placements:
    """The contents that one rendering places.

    Attributes:
        contents: In the order in which they were printed.
        nonce: What no value can hold, since it is new each time.
    """

    contents: list[AnyContent] = attrs.field(factory=list)
    nonce: str = attrs.field(factory=lambda: _hide(secrets.randbits(64)))

    def place(self, content: AnyContent) -> str:
        """Returns the mark in the place of a content."""
        self.contents.append(content)
        return f"{_EDGE}{self.nonce}{_EDGE}{_hide(len(self.contents) - 1)}{_EDGE}"

    def cut(self, text: str) -> tuple[AnyContent, ...] | None:
        """Cuts a text into contents; blank texts between them are left out.

        Returns:
            Nothing, where a mark has not survived what the template did with it.
        """
        if not self.contents:
            return (TextualContent(text),)
        marks = {_hide(index): each for index, each in enumerate(self.contents)}
        contents: list[AnyContent] = []
        parts = re.split(f"{_EDGE}{self.nonce}{_EDGE}([^{_EDGE}]+){_EDGE}", text)
        for index, part in enumerate(parts):
            if index % 2:
                contents.append(marks[part])
            elif _PRIVATE.search(part):
                return None
            elif part.strip():
                contents.append(TextualContent(part))
        return tuple(contents)
