"""What servers of this dialect do differently, as data."""

from __future__ import annotations

import re
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.attributes import ModelAttributes

PROTOCOL: Final = "generate_content"
"""The dialect's stable word, in origins and beside native blocks."""

_GENERATION: Final = re.compile(r"gemini-(\d+)")
_LATEST_GENERATION: Final = 3


@frozen(kw_only=True)
class Quirks:
    """One server's habits; the defaults take what the protocol can say.

    Attributes:
        shows_thoughts: Whether thoughts are asked for where a request does not say.
        takes_display_names: Whether data inline may have a name (``displayName``).
        name_pattern: A regular expression for the whole of a function's name that is taken. Its
            documentation has 64 characters in some places and 128 in others.
    """

    shows_thoughts: bool = False
    takes_display_names: bool = True
    name_pattern: str = "[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"


def find_generation(attributes: ModelAttributes) -> int:
    """Returns the generation of a model by its name; a name that has none is of the latest."""
    found = _GENERATION.search(attributes.address.name)
    return int(found[1]) if found else _LATEST_GENERATION
