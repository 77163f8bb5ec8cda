"""Results of synchronizations, and the merging of names and tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from vibe_llms.exceptions import Finding
from vibe_llms.foundation.attrs_classes import frozen

Side: TypeAlias = Literal["here", "there"]
Change: TypeAlias = Literal["added", "extended", "forked"]


@frozen(kw_only=True)
class SyncChange:
    """One change of a store.

    Attributes:
        side: The changed store.
        change: ``added``: a new conversation; ``extended``: new messages, events of runs, tags or a
            name; ``forked``: a new fork with the other store's ending of a conversation that has
            grown in both.
        identity: Id of the changed or new conversation.
        parent: Id of the conversation that was forked; empty for other changes.
        name: Name of the conversation.
    """

    side: Side
    change: Change
    identity: str
    parent: str = ""
    name: str | None = None


@frozen
class SyncedLabels:
    """Name and tags of a conversation on both sides after a synchronization.

    Attributes:
        name: The name.
        tags: The tags.
    """

    name: str | None
    tags: tuple[str, ...]


@frozen(kw_only=True)
class SyncReport:
    """Result of a synchronization.

    Attributes:
        changes: The changes, in order.
        conversations: Number of conversations that were compared.
        refused: Conversations that could not be synchronized, with reasons.
        notices: Differences that remain, such as two names of one conversation.
        labels: Names and tags by the ids of the conversations, for the next synchronization.
    """

    changes: tuple[SyncChange, ...]
    conversations: int
    refused: tuple[Finding, ...]
    notices: tuple[Finding, ...]
    labels: Mapping[str, SyncedLabels]

    @property
    def is_whole(self) -> bool:
        """True if both stores now have all messages."""
        return not self.refused


def merge_names(old: str | None, new: str | None, last: SyncedLabels | None) -> str | None:
    """Return the changed one of two names; the old one if both have changed."""
    if last is None:
        return new if old is None else old
    return new if old == last.name else old


def merge_tags(
    old: Sequence[str], new: Sequence[str], last: SyncedLabels | None
) -> tuple[str, ...]:
    """Return the tags of both sides, without those that one of them has removed."""
    known = () if last is None else last.tags
    removed = {tag for tag in known if tag not in old or tag not in new}
    return tuple(tag for tag in dict.fromkeys([*old, *new]) if tag not in removed)
