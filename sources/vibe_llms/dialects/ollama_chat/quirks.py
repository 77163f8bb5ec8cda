"""Name of this dialect, and differences between its servers."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

PROTOCOL: Final = "ollama_chat"
"""The dialect's name, in origins and native data."""


@frozen(kw_only=True)
class Quirks:
    """Differences between servers of this dialect: so far none, as all are Ollama's.

    Any name of a tool is valid.
    """
