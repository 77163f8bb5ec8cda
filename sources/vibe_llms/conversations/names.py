"""What people may call a conversation: one line, as it stands in lists and titles."""

from __future__ import annotations

import unicodedata
from typing import Final

from vibe_llms.exceptions import RequestError

MOST_CHARACTERS: Final = 200
"""How long a name may be."""

# Control characters, ends of lines and of paragraphs, and what is no text. Not what joins letters
# or turns their direction, without which some names cannot be written.
_REFUSED: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def read_name(given: str) -> str | None:
    """Returns a name as it is kept: without spaces around it; ``None`` where nothing is left.

    For whoever names one now. What a store has from before, or from elsewhere, is read as it is.

    Raises:
        RequestError: It is too long, or more than a line.
    """
    name = given.strip()
    if len(name) > MOST_CHARACTERS:
        raise RequestError(
            path="name",
            detail=f"The name has {len(name):,} characters.",
            remedy=f"A name has at most {MOST_CHARACTERS}.",
        )
    for place, letter in enumerate(name, 1):
        if unicodedata.category(letter) in _REFUSED:
            raise RequestError(
                path="name",
                detail=f"Character {place} of the name is U+{ord(letter):04X}, which ends a line "
                "or controls a terminal.",
                remedy="A name is one line of text.",
            )
    return name or None
