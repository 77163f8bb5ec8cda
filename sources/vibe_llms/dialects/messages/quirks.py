"""The word of this dialect, and what its servers do differently."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

PROTOCOL: Final = "messages"
"""The dialect's stable word, in origins and beside native blocks."""


@frozen(kw_only=True)
class Quirks:
    """What servers of this dialect do in their own way: so far all are Anthropic's.

    Attributes:
        name_pattern: A regular expression for the whole of a tool's name that is taken.
    """

    name_pattern: str = "[a-zA-Z0-9_-]{1,128}"
