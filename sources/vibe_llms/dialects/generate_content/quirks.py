"""Differences between servers of this dialect, as data."""

from __future__ import annotations

import re
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.models.attributes import ModelAttributes

PROTOCOL: Final = "generate_content"
"""The dialect's name, in origins and native data."""

_GENERATION: Final = re.compile(r"gemini-(\d+)")
_LATEST_GENERATION: Final = 3


@frozen(kw_only=True)
class Quirks:
    """One server's differences; the defaults allow everything in the protocol.

    Attributes:
        shows_thoughts: Whether thoughts are requested by default.
        takes_display_names: Whether inline data may have a name (``displayName``).
        name_pattern: A regular expression for valid names of functions. The documentation allows
            64 characters in some places and 128 in others.
        server_tools: The service whose server tools it has, as named in
            ``data/dialects/server_tools.toml``; empty if it has none.
    """

    shows_thoughts: bool = False
    takes_display_names: bool = True
    name_pattern: str = "[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}"
    server_tools: str = "gemini"


def find_generation(attributes: ModelAttributes) -> int:
    """Return the generation in the name of a model; the latest one if the name has none."""
    generation = read_generation(attributes.address.name)
    return _LATEST_GENERATION if generation is None else generation


def read_generation(name: str) -> int | None:
    """Return the generation in the name of a model; ``None`` if the name has none."""
    match = _GENERATION.search(name)
    return int(match[1]) if match else None
