"""Name of this dialect, and differences between its servers."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

PROTOCOL: Final = "messages"
"""The dialect's name, in origins and native data."""


@frozen(kw_only=True)
class Quirks:
    """Differences between servers of this dialect. So far, all known servers are like Anthropic's.

    Attributes:
        name_pattern: A regular expression for valid names of tools.
        server_tools: The service whose server tools it has, as named in
            ``data/dialects/server_tools.toml``; empty if it has none.
    """

    name_pattern: str = "[a-zA-Z0-9_-]{1,128}"
    server_tools: str = "anthropic"
