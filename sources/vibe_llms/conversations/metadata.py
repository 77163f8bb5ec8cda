"""What is known about a conversation apart from what was said in it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import attrs

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.sentinels import ABSENT, Absence
from vibe_llms.messages.identities import access_now, ensure_utc


def order_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Keeps each tag once; a bare text is one tag, not one a letter."""
    return (tags,) if isinstance(tags, str) else tuple(dict.fromkeys(tags))


@frozen(kw_only=True)
class ParentLink:
    """Where a fork leaves its parent: everything before that point is read from the parent.

    A parent only grows, so that what comes before the point never changes. Exactly one of the
    two measures is given.

    Attributes:
        identity: Of the parent.
        canisters: How many canisters of the parent's whole history belong to the fork.
        bytes: How many bytes of what the parent itself has stored belong to it, on top of
            everything that the parent inherits. Only the store which counted them can say.
    """

    identity: str
    canisters: int | None = None
    bytes: int | None = None

    def __attrs_post_init__(self) -> None:
        if (self.canisters is None) == (self.bytes is None):
            raise StoreError(detail="A fork point is either canisters or bytes.")
        if (self.canisters or 0) < 0 or (self.bytes or 0) < 0:
            raise StoreError(detail="A fork point lies before the beginning.")


@frozen(kw_only=True)
class ConversationMetadata:
    """What is known about a conversation apart from what was said in it.

    Attributes:
        name: For people; need not be unique. ``None`` where nobody has named it.
        created: When it began.
        updated: When something was last said. Stores derive it, nobody sets it.
        tags: In the order in which they were given, each once.
        model: The address of the model last used, such as ``local:smollm2``.
        parent: Where it was forked from.
    """

    name: str | None = None
    created: datetime = attrs.field(factory=access_now, converter=ensure_utc)
    updated: datetime = attrs.field(converter=ensure_utc)
    tags: tuple[str, ...] = attrs.field(default=(), converter=order_tags)
    model: str | None = None
    parent: ParentLink | None = None

    @updated.default
    def _begin(self) -> datetime:
        return self.created

    def change(
        self,
        *,
        name: str | None | Absence = ABSENT,
        tags: Iterable[str] | Absence = ABSENT,
        model: str | None | Absence = ABSENT,
    ) -> ConversationMetadata:
        """Returns them with what is given, and the rest as it is."""
        given: dict[str, Any] = {"name": name, "tags": tags, "model": model}
        return attrs.evolve(
            self, **{key: each for key, each in given.items() if each is not ABSENT}
        )

    def fork(self, parent: ParentLink) -> ConversationMetadata:
        """Returns what is known of a fork at its beginning."""
        return ConversationMetadata(name=self.name, tags=self.tags, model=self.model, parent=parent)
