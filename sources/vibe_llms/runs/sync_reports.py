"""Results of synchronizations, and the merging of names, tags and pins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias

import attrs

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.exceptions import Finding
from vibe_llms.foundation.attrs_classes import frozen

Side: TypeAlias = Literal["here", "there"]
Change: TypeAlias = Literal["added", "extended", "forked"]
NoteChangeWord: TypeAlias = Literal["added", "changed", "conflict", "deleted"]


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


@frozen(kw_only=True)
class NoteChange:
    """One change of a note.

    Attributes:
        side: The changed store.
        change: ``added``: a new note; ``changed``: the text of the other side; ``conflict``: a
            second note with the text that both sides had under one name; ``deleted``: the other
            side had deleted it.
        key: Key of the note in the store.
        conflicts_with: For a conflict, the key of the note with the other text.
    """

    side: Side
    change: NoteChangeWord
    key: str
    conflicts_with: str = ""


@frozen
class SyncedLabels:
    """Name, tags and pins of a conversation on both sides after a synchronization.

    Attributes:
        name: The name.
        tags: The tags.
        keep: Number of turns that a compaction keeps.
        pinned: Ids of the pinned messages.
    """

    name: str | None
    tags: tuple[str, ...]
    keep: int | None = None
    pinned: tuple[str, ...] = ()

    @classmethod
    def read(cls, metadata: ConversationMetadata) -> Self:
        """Return the labels of a conversation."""
        return cls(metadata.name, metadata.tags, metadata.keep, metadata.pinned)


@frozen(kw_only=True)
class SyncReport:
    """Result of a synchronization.

    Attributes:
        changes: The changes, in order.
        conversations: Number of conversations that were compared.
        refused: Conversations that could not be synchronized, with reasons.
        notices: Differences that remain, such as two names of one conversation, and deleted notes
            that came back.
        labels: Names, tags and pins by the ids of the conversations, for the next synchronization.
            A conversation with another id on the other side has both ids as its key.
        notes: Number of notes that were compared.
        note_changes: The changes of notes, in order.
        note_digests: Digests of the notes by their keys, empty for deleted ones, for the next
            synchronization.
    """

    changes: tuple[SyncChange, ...]
    conversations: int
    refused: tuple[Finding, ...]
    notices: tuple[Finding, ...]
    labels: Mapping[str, SyncedLabels]
    notes: int = 0
    note_changes: tuple[NoteChange, ...] = ()
    note_digests: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def is_whole(self) -> bool:
        """True if both stores now have all messages and notes."""
        return not self.refused


def merge_labels(old: SyncedLabels, new: SyncedLabels, last: SyncedLabels | None) -> SyncedLabels:
    """Return the labels of one side with the changes of the other side.

    Of two names or numbers, it is the changed one, or the old one if both have changed. Of tags and
    pins, it is those of both sides, without those that one side has removed.
    """

    def choose(field: str) -> Any:
        one, other = getattr(old, field), getattr(new, field)
        return other if one == getattr(last, field, None) else one

    def join(field: str) -> tuple[str, ...]:
        one, other = getattr(old, field), getattr(new, field)
        removed = {
            each for each in getattr(last, field, ()) if each not in one or each not in other
        }
        return tuple(each for each in dict.fromkeys([*one, *other]) if each not in removed)

    return SyncedLabels(choose("name"), join("tags"), choose("keep"), join("pinned"))
