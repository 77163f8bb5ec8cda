"""Names of conversations: one line of text, for lists and titles."""

from __future__ import annotations

import unicodedata
from typing import Final

from vibe_llms.exceptions import RequestError

MAXIMUM_CHARACTERS: Final = 200
"""Limit of a name's length."""

# Control characters, line and paragraph separators, and surrogates. Joiners and marks of direction
# are allowed: some names cannot be written without them.
_INVALID_CATEGORIES: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})


def read_name(text: str) -> str | None:
    """Check and strip a new name; return ``None`` for a blank name.

    Names that a store already has are not checked.

    Raises:
        RequestError: The name is too long or has several lines.
    """
    name = text.strip()
    if len(name) > MAXIMUM_CHARACTERS:
        raise RequestError(
            path="name",
            detail=f"The name has {len(name):,} characters.",
            remedy=f"A name has at most {MAXIMUM_CHARACTERS} characters.",
        )
    for place, letter in enumerate(name, 1):
        if unicodedata.category(letter) in _INVALID_CATEGORIES:
            raise RequestError(
                path="name",
                detail=f"Character {place} of the name is U+{ord(letter):04X}, which ends a line "
                "or controls a terminal.",
                remedy="Use a name of one line of text.",
            )
    return name or None
