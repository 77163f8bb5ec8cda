"""The word of this dialect, and what its servers do differently."""

from __future__ import annotations

from typing import Final

import attrs

PROTOCOL: Final = "ollama_chat"
"""The dialect's stable word, in origins and beside native blocks."""


@attrs.frozen(kw_only=True)
class Quirks:
    """One server's habits; the defaults are Ollama's own.

    Attributes:
        takes_invocation_ids: Whether invocations and results go with their ids. Servers before
            0.12 neither give nor read them, and pass over what they do not know.
    """

    takes_invocation_ids: bool = True
