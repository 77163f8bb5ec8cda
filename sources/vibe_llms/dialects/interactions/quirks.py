"""Differences between servers of this dialect, as data."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

PROTOCOL: Final = "interactions"
"""The dialect's name, in origins and native data."""


@frozen(kw_only=True)
class Quirks:
    """One server's differences from the protocol.

    Attributes:
        shows_thoughts: Whether summaries of thoughts are requested by default.
        name_pattern: A regular expression for valid names of functions.
        server_tools: The service whose server tools it has, as named in
            ``data/dialects/server_tools.toml``; empty if it has none.
        siblings: Other interfaces of the same service, with the same uploaded files; see
            :class:`vibe_llms.dialects.ledger.Ledger`.
    """

    shows_thoughts: bool = False
    name_pattern: str = "[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"
    server_tools: str = "gemini"
    siblings: tuple[tuple[str, str], ...] = ()
