"""Whose a conversation is."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.lines import read_order_subject
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import OWNER_TAG, PART_TAG
from vibe_llms.exceptions import UnknownConversationError

_REQUESTED: Final = "run.requested"


def read_owner(
    store: ConversationStore, identity: str, metadata: ConversationMetadata | None = None
) -> str | None:
    """Returns on whose behalf a conversation is kept. Does file work.

    That is who asked for its run; where nobody did, whom its tag names; of a part of another, as
    of a visit of a flow, whose that is.

    Args:
        metadata: Of the conversation, where it was read already.

    Returns:
        It; empty where nobody in particular, ``None`` where that of which it is a part is gone.

    Raises:
        UnknownConversationError: There is no such conversation.
        StoreError: It does not read.
    """
    seen: set[str] = set()
    while identity not in seen:  # tags are anybody's to set: they may go in a circle
        seen.add(identity)
        metadata = metadata or store.read_metadata(identity)
        if (subject := read_subject(store, identity)) is not None:
            return subject
        whole = _find(metadata, PART_TAG)
        if whole is None:
            return _find(metadata, OWNER_TAG) or ""
        identity, metadata = whole, None
        with suppress(UnknownConversationError):
            metadata = store.read_metadata(identity)
        if metadata is None:
            return None
    return None


def read_subject(store: ConversationStore, identity: str) -> str | None:
    """Returns on whose behalf a run was asked for; ``None`` of what nobody has asked for.

    It reads no more of the log than the order. Does file work.

    Raises:
        StoreError: The log does not read.
    """
    tail = store.open_log(identity).tail()
    while lines := tail.read():
        for line in lines:
            if line.word == _REQUESTED:
                return read_order_subject(line.data)
    return None


def _find(metadata: ConversationMetadata, prefix: str) -> str | None:
    return next((tag[len(prefix) :] for tag in metadata.tags if tag.startswith(prefix)), None)
