"""The word of this dialect, and what its servers do differently."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

PROTOCOL: Final = "ollama_chat"
"""The dialect's stable word, in origins and beside native blocks."""


@frozen(kw_only=True)
class Quirks:
    """What servers of this dialect do in their own way: so far nothing, as all are Ollama's.

    Any name of a tool is taken.
    """
