"""Tags that say something to us; all others are a person's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PART_TAG: Final = "of:"
"""What the tag begins with of a conversation that is a part of another; behind it is its id.

Such as a visit of a flow's run: it is found from there, and not among what people have said.
"""

OWNER_TAG: Final = "owner:"
"""What the tag begins with of a conversation that is somebody's and has no run that says whose."""


def is_part(tags: Iterable[str]) -> bool:
    """Tells whether a conversation with these tags is a part of another."""
    return any(tag.startswith(PART_TAG) for tag in tags)
