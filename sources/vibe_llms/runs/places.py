"""Where the logs of a conversation's runs are: beside the conversation, in whatever store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeGuard

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ParentLink
from vibe_llms.conversations.stores.disk import Disk
from vibe_llms.conversations.stores.interfaces import ContentStore, ConversationStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    EngineEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.runs.file_log import FileLog
from vibe_llms.runs.log import MemoryLog, RunLog


class _FolderStore(Protocol):
    """A store that has a folder for each conversation, as `DirectoryStore` has."""

    contents: ContentStore
    disk: Disk

    def locate(self, identity: str) -> str: ...


def produce_log(store: ConversationStore | None, identity: str) -> RunLog:
    """Produces the log of a conversation's runs; nothing is opened yet.

    It lives and ends with the conversation: in its folder, or in the memory of a store that
    has only that. Without a store it lasts as long as it is held.

    Raises:
        StoreError: The store has no place for it. A run whose log is lost in a crash could
            repeat in silence what must not be repeated.
    """
    if store is None:
        return MemoryLog()
    if isinstance(store, MemoryStore):
        return store.access_companion(identity, MemoryLog)
    if _has_folders(store):
        return FileLog(store.locate(identity), contents=store.contents, disk=store.disk)
    raise StoreError(
        detail=f"{type(store).__name__} has no place for the logs of runs.",
        remedy="Give it the method `locate` and the attribute `disk` of DirectoryStore.",
    )


def _has_folders(store: object) -> TypeGuard[_FolderStore]:
    return hasattr(store, "locate") and hasattr(store, "disk")


_ABOUT_CALLS = (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)


def survey_inherited(
    store: ConversationStore | None, conversation: Conversation
) -> Sequence[EngineEvent]:
    """Returns what is known about calls that a fork shares with its parents, oldest first.

    A call that took effect in the parent's run must not be repeated in a fork.
    """
    link: ParentLink | None = conversation.metadata.parent
    if store is None or link is None:
        return ()
    parents: list[list[EngineEvent]] = []
    while link is not None:
        try:
            logged = produce_log(store, link.identity).read()
            link = store.read_metadata(link.identity).parent
        except UnknownConversationError:  # deleted meanwhile
            break
        parents.append([each.event for each in logged if isinstance(each.event, _ABOUT_CALLS)])
    return [event for events in reversed(parents) for event in events]
