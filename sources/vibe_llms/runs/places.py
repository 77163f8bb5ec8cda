"""Where the logs of a conversation's runs are: beside the conversation, in whatever store."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final, Protocol, TypeGuard

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ParentLink
from vibe_llms.conversations.run_logs.file_log import RUNS, FileLog
from vibe_llms.conversations.run_logs.inbox import FileInbox, Inbox, MemoryInbox
from vibe_llms.conversations.run_logs.log import RunLog
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.stores.interfaces import ContentStore, ConversationStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.conversations.stores.naming import ensure_identity
from vibe_llms.engine.tails import read_tail
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.logs.disk import Disk
from vibe_llms.messages.canisters import AnyCanister, ResultCanister

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.postgresql.database import Database


class _FolderStore(Protocol):
    """A store that has a folder for each conversation, as `DirectoryStore` has."""

    contents: ContentStore
    disk: Disk

    def locate(self, identity: str) -> str: ...


class _DatabaseStore(Protocol):
    """A store in a database, as `PostgresqlStore` is: the logs have tables of their own there."""

    contents: ContentStore
    database: Database


class LoggedStore(Protocol):
    """A store that keeps the logs of runs beside the conversations, wherever these are."""

    def produce_log(self, identity: str) -> RunLog:
        """Produces the log of a conversation's runs; nothing is opened yet.

        It lives and ends with the conversation. To claim it raises UnknownConversationError as
        long as there is no such conversation.
        """


def produce_log(store: ConversationStore | None, identity: str) -> RunLog:
    """Produces the log of a conversation's runs; nothing is opened yet.

    It lives and ends with the conversation: in its folder, in the memory of a store that has
    only that, or wherever a :class:`LoggedStore` puts it. Without a store, or with one that keeps
    no logs, it lasts as long as it is held (:func:`survey_doubtful`).
    """
    if _has_companions(store):
        return store.access_companion(identity, MemoryLog)
    if _has_folders(store):
        return FileLog(store.locate(identity), contents=store.contents, disk=store.disk)
    if _has_database(store):
        from vibe_llms.conversations.run_logs.database_log import DatabaseLog

        return DatabaseLog(store.database, ensure_identity(identity), contents=store.contents)
    return store.produce_log(identity) if _keeps_its_own(store) else MemoryLog()


def produce_inbox(store: ConversationStore | None, identity: str) -> Inbox:
    """Produces the inbox of a conversation's runs; nothing is opened yet.

    It lives and ends with the conversation. Where a store has no place for one, nobody can write
    to its runs from outside, but for those who hold it.
    """
    if _has_companions(store):
        return store.access_companion(identity, MemoryInbox)
    if _has_folders(store):
        return FileInbox(store.locate(identity), store.disk)
    if _has_database(store):
        from vibe_llms.conversations.run_logs.database_inbox import DatabaseInbox

        return DatabaseInbox(store.database, ensure_identity(identity))
    return MemoryInbox()


def reach(store: ConversationStore) -> None:
    """Ask the database of a store for nothing; do nothing for a store without one. Blocks.

    Raises:
        StoreUnavailableError: It is out of reach.
    """
    if _has_database(store):
        with store.database.transact(reading=True):
            pass


def keeps_logs(store: ConversationStore) -> bool:
    """Tells whether a store keeps the logs of runs."""
    kinds = (_has_companions, _has_folders, _has_database, _keeps_its_own)
    return any(has(store) for has in kinds)


def require_logs(store: ConversationStore) -> None:
    """Raises StoreError where a store keeps no logs of runs."""
    if not keeps_logs(store):
        raise StoreError(
            detail=f"{type(store).__name__} keeps no logs of runs: what a run waits for is known "
            "to its own process alone.",
            remedy="Answer there, or choose a store that has `produce_log`.",
        )


def at_once(store: ConversationStore, *, reading: bool = False) -> AbstractContextManager[object]:
    """While it is entered, what is done with a store in a database is done as one, or not at all.

    With others it does nothing.

    Args:
        reading: Nothing is to be changed, and all that is read is of one moment.
    """
    return store.database.transact(reading=reading) if _has_database(store) else nullcontext()


def _has_folders(store: object) -> TypeGuard[_FolderStore]:
    # By what it has, not by its class: a store of somebody else's may have it, too.
    return hasattr(store, "locate") and hasattr(store, "disk")


def _has_database(store: object) -> TypeGuard[_DatabaseStore]:
    return hasattr(store, "database")


def _has_companions(store: object) -> TypeGuard[MemoryStore]:
    return hasattr(store, "access_companion")


def _keeps_its_own(store: object) -> TypeGuard[LoggedStore]:
    return hasattr(store, "produce_log")


def survey_doubtful(
    store: ConversationStore | None, conversation: Conversation
) -> Sequence[LogEvent]:
    """Returns what must be taken for begun where the store keeps no logs of runs.

    Of a call without a result nobody knows then whether an earlier run has executed it: it counts
    as begun, so that what must not be repeated is not repeated in silence.
    """
    if store is None or keeps_logs(store) or not len(conversation):
        return ()
    return [
        InvocationStartedEvent(
            key=call.id,
            invocation_id=call.invocation_id,
            name=call.name,
            arguments=call.arguments,
            effect="",
            idempotency_key="",
        )
        for call in read_tail(conversation.canisters).owed
    ]


_ABOUT_CALLS: Final = (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)


def survey_inherited(
    store: ConversationStore | None,
    conversation: Conversation,
    kinds: tuple[type[LogEvent], ...] = _ABOUT_CALLS,
) -> Sequence[LogEvent]:
    """Returns what is known about calls that a fork shares with its parents, oldest first.

    A call that took effect in the parent's run must not be repeated in a fork.
    """
    link: ParentLink | None = conversation.metadata.parent
    if store is None:
        boxes = reversed(conversation.companions.maps[1:])
        logs: list[MemoryLog] = [each[MemoryLog] for each in boxes if MemoryLog in each]
        events = (each.event for log in logs for each in log.read())
        return [event for event in events if isinstance(event, kinds)]
    if link is None:
        return ()
    parents: list[list[LogEvent]] = []
    while link is not None:
        try:
            logged = produce_log(store, link.identity).read()
            known: list[LogEvent] = [each.event for each in logged if isinstance(each.event, kinds)]
            if any(each.kept for each in logged):
                known = _restore_results(known, store.read(link.identity).canisters)
            parents.append(known)  # before it may be deleted: what was begun has begun
            link = store.read_metadata(link.identity).parent
        except UnknownConversationError:  # deleted meanwhile
            break
    return [event for events in reversed(parents) for event in events]


def _restore_results(
    events: Sequence[LogEvent], canisters: Sequence[AnyCanister]
) -> list[LogEvent]:
    """Returns the events with the results that a compacted log has left to the conversation."""
    results = {each.id: each for each in canisters if isinstance(each, ResultCanister)}
    return [
        attrs.evolve(each, result=results.get(each.result.id, each.result))
        if isinstance(each, InvocationFinishedEvent)
        else each
        for each in events
    ]


def measure_log(store: ConversationStore, identity: str) -> tuple[object, int] | None:
    """Returns which log a conversation's runs have, and how much is in it; a short look.

    The same again says that nothing has been added. ``None`` where there is nothing, and where
    only reading would tell.
    """
    if _has_folders(store):
        try:
            found = os.stat(f"{store.locate(identity)}/{RUNS}")  # noqa: PTH116  # often, of all
        except OSError:
            return None
        return (found.st_ino, found.st_size) if found.st_size else None
    log = produce_log(store, identity)
    last = log.read_last()
    if last is None:
        return None
    return (id(log) if _has_companions(store) else 0), last.sequence
