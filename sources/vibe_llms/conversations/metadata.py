"""Metadata of conversations: name, tags, times, model and parent."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import attrs

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.messages.identities import access_now, ensure_utc

DESCRIPTIVE_FIELDS: Final = ("name", "tags", "model", "keep", "pinned")
"""Fields that can be changed; a fork takes them over."""


def order_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Remove duplicate tags or ids; a plain string is one tag."""
    return (tags,) if isinstance(tags, str) else tuple(dict.fromkeys(tags))


def _ensure_count(metadata: object, field: object, count: int | None) -> None:
    if count is not None and (count.__class__ is not int or count < 0):
        raise StoreError(detail=f"Invalid number of turns to keep: {count!r}. Use 0 or more.")


@frozen(kw_only=True)
class ParentLink:
    """Fork point: a fork reads everything before this point from its parent.

    A parent only grows, so the part before the point never changes. A fork point is measured in
    canisters or in bytes; only one of the two is set.

    Attributes:
        identity: Id of the parent.
        canisters: Number of canisters shared, of the parent's whole history.
        bytes: Number of shared bytes of the parent's file, in addition to everything that the
            parent inherits. Only the store that counted the bytes can interpret this number.
    """

    identity: str
    canisters: int | None = None
    bytes: int | None = None

    def __attrs_post_init__(self) -> None:
        measures = [each for each in (self.canisters, self.bytes) if each is not None]
        if len(measures) != 1:
            raise StoreError(
                detail="A fork point must be given in canisters or in bytes, not both."
            )
        if measures[0] < 0:
            raise StoreError(detail="A fork point must not be negative.")


@frozen(kw_only=True)
class ConversationMetadata:
    """Metadata of a conversation.

    Attributes:
        name: For people; need not be unique. ``None`` for an unnamed conversation.
        created: Time of its creation.
        updated: Time of the last message, which stores derive.
        tags: The tags, in the order in which they were added, without duplicates.
        model: Address of the model last used, such as ``local:smollm2``.
        keep: Number of turns that a compaction keeps word for word; ``None`` for the default.
        pinned: Ids of messages that a compaction always keeps.
        parent: Fork point, if it is a fork.
    """

    name: str | None = None
    created: datetime = attrs.field(factory=access_now, converter=ensure_utc)
    updated: datetime = attrs.field(converter=ensure_utc)
    tags: tuple[str, ...] = attrs.field(default=(), converter=order_tags)
    model: str | None = None
    keep: int | None = attrs.field(default=None, validator=_ensure_count)
    pinned: tuple[str, ...] = attrs.field(default=(), converter=order_tags)
    parent: ParentLink | None = None

    @updated.default
    def _default_updated(self) -> datetime:
        return self.created

    def change(
        self,
        *,
        name: str | None | Absence = ABSENT,
        tags: Iterable[str] | Absence = ABSENT,
        model: str | None | Absence = ABSENT,
        keep: int | None | Absence = ABSENT,
        pinned: Iterable[str] | Absence = ABSENT,
    ) -> ConversationMetadata:
        """Return a copy with some values changed."""
        values: dict[str, Any] = {
            "name": name,
            "tags": tags,
            "model": model,
            "keep": keep,
            "pinned": pinned,
        }
        changes = {key: value for key, value in values.items() if value is not ABSENT}
        return attrs.evolve(self, **changes)

    def compare(self, changed: ConversationMetadata) -> dict[str, Any]:
        """Return the descriptive fields of other metadata that differ from these."""
        values = {field: getattr(changed, field) for field in DESCRIPTIVE_FIELDS}
        return {field: value for field, value in values.items() if value != getattr(self, field)}

    def fork(self, parent: ParentLink | None) -> ConversationMetadata:
        """Return the metadata of a new fork."""
        return ConversationMetadata(
            name=self.name,
            tags=self.tags,
            model=self.model,
            keep=self.keep,
            pinned=self.pinned,
            parent=parent,
        )
