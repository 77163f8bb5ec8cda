"""Name of this dialect, and differences between its servers."""

from __future__ import annotations

from typing import Final

from vibe_llms.foundation.attrs_classes import frozen

PROTOCOL: Final = "bedrock"
"""The dialect's name, in origins and native data."""


@frozen(kw_only=True)
class Quirks:
    """Differences between servers of this dialect. So far, there is one server.

    Attributes:
        name_pattern: A regular expression for valid names of tools.
    """

    name_pattern: str = "[a-zA-Z0-9_-]{1,64}"
