"""Tags with a meaning for this package; all other tags belong to the user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PART_TAG: Final = "of:"
"""Prefix of the tag that names the whole of a partial conversation, such as a visit of a flow.

Lists of conversations leave parts out.
"""

OWNER_TAG: Final = "owner:"
"""Prefix of the tag that names the owner of a conversation without a run."""

FLOW_TAG: Final = "flow"
"""Tag of a flow's conversation and of those of its visits."""

SOURCE_TAG: Final = "from:"
"""Prefix of the tag that names a conversation from which turns were picked or merged."""


def is_part(tags: Iterable[str]) -> bool:
    """Return whether a conversation with these tags is a part of another."""
    return any(tag.startswith(PART_TAG) for tag in tags)


def survey_sources(tags: Iterable[str]) -> list[str]:
    """Return the ids of the conversations from which turns were picked or merged."""
    return [tag.removeprefix(SOURCE_TAG) for tag in tags if tag.startswith(SOURCE_TAG)]


def survey_labels(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags without a meaning for this package."""
    prefixes = (PART_TAG, OWNER_TAG, SOURCE_TAG)
    return tuple(tag for tag in tags if tag != FLOW_TAG and not tag.startswith(prefixes))
