"""Owner of a conversation, and subject of a run."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.run_logs.log_lines import read_request_subject
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import OWNER_TAG, PART_TAG
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.invocables.contexts import InvocationContext

_REQUESTED: Final = "run.requested"


def read_owner(
    store: ConversationStore, identity: str, metadata: ConversationMetadata | None = None
) -> str | None:
    """Return the owner of a conversation. Does file work.

    The owner is the user who requested its run. Without a request, the owner is the user in the
    conversation's tag. A part of another conversation, such as a visit of a flow, has the owner of
    that one.

    Args:
        metadata: Metadata of the conversation, if the caller has already read it.

    Returns:
        The owner; empty for no particular user, ``None`` if the conversation is a part of one that
        was deleted.

    Raises:
        UnknownConversationError: The conversation does not exist.
        StoreError: It cannot be read.
    """
    seen: set[str] = set()
    while identity not in seen:  # anyone can set tags: they may form a cycle
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


def find_owner(store: ConversationStore, identity: str) -> str | None:
    """Return the owner of a conversation; empty if it is not stored, ``None`` if it is damaged.

    Does file work.
    """
    try:
        return read_owner(store, identity)
    except UnknownConversationError:
        return ""
    except StoreError:
        return None


def find_caller(store: ConversationStore, context: InvocationContext) -> str | None:
    """Return the user on whose behalf a tool is called. Does file work.

    This is the owner of the run, or the client of the tools daemon. Without either, it is the user
    of this machine, whose name is empty.
    """
    return find_owner(store, context.run_id) if context.run_id else context.subject


def read_subject(store: ConversationStore, identity: str) -> str | None:
    """Return the user on whose behalf a run was requested; ``None`` if it was not requested.

    Reads only the run request in the log. Does file work.

    Raises:
        StoreError: The log cannot be read.
    """
    tail = store.open_log(identity).tail()
    while lines := tail.read():
        for line in lines:
            if line.word == _REQUESTED:
                return read_request_subject(line.data)
    return None


def _find(metadata: ConversationMetadata, prefix: str) -> str | None:
    return next((tag[len(prefix) :] for tag in metadata.tags if tag.startswith(prefix)), None)
