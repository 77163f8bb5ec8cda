"""Opening a conversation for a run: claim its log, and read what earlier runs have left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.inbox import RunInbox
from vibe_llms.conversations.run_logs.log import (
    STOPS,
    LoggedEvent,
    RunLog,
    read_unsettled,
    wait_for_room,
)
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.contexts import RunEvent
from vibe_llms.engine.tails import read_tail
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.identities import produce_identity
from vibe_llms.runs.delivering import abandon_fork, take_messages
from vibe_llms.runs.earlier_calls import survey_doubtful, survey_inherited
from vibe_llms.runs.journals import ConversationJournal, is_at_hand
from vibe_llms.runs.local import LocalRunContext
from vibe_llms.runs.settling import settle_calls


@define(kw_only=True, eq=False)
class ClaimedRun:
    """A run whose log is claimed on behalf of the code that will perform it.

    Attributes:
        conversation: The conversation as it is stored.
        log: Log of the run.
        events: Events in the log.
        is_new: Whether the run was requested just now, so that nothing has to be stored or read.
    """

    conversation: Conversation
    log: RunLog
    events: Sequence[LoggedEvent]
    is_new: bool = False
    _has_claim: bool = attrs.field(default=True, init=False)

    def take(self) -> RunLog:
        """Hand the claim to the caller, who releases it when the run has come to rest."""
        self._has_claim = False
        return self.log

    def release(self) -> None:
        """Release the claim unless it was taken. Idempotent."""
        if self._has_claim:
            self._has_claim = False
            self.log.close()


@asynccontextmanager
async def open_run(
    conversation: Conversation,
    store: ConversationStore | None = None,
    *,
    run_id: str | None = None,
    listener: Callable[[RunEvent], object] | None = None,
    claimed: ClaimedRun | None = None,
    waits: bool = False,
) -> AsyncIterator[tuple[LocalRunContext, ConversationJournal]]:
    """Open a conversation exclusively for a run, and release it at the end.

    On entry, unsaved canisters are stored, and canisters that others have added since the
    conversation was read are loaded.

    Args:
        conversation: The conversation; the run adds to it.
        store: Store of the conversation and of the run's log; ``None`` to keep both in memory only.
        run_id: Name of the run. By default, a run in a store has the name of its conversation: it
            is found by this name, and no other run of the conversation works at the same time. A
            run in memory gets a new name.
        listener: See :class:`LocalRunContext`.
        claimed: The same run, if its log is already claimed.
        waits: Wait while the disk is full, rather than fail.

    Raises:
        StoreError: Another run of the conversation is active, or something cannot be written.
    """
    default_name = produce_identity() if store is None else conversation.id
    name = run_id or default_name
    opening = _Opening(ConversationJournal(conversation, store, waits=waits), store, name)
    if claimed is not None:
        opening.log = claimed.take()
    try:
        if claimed is not None and claimed.is_new:
            opening.take_over(claimed)
        else:
            await _open(opening, waits=waits)
        assert opening.log is not None
        context = LocalRunContext(
            opening.run_id,
            opening.log,
            listener=listener,
            earlier=opening.earlier,
            inbox=opening.inbox,
            pending=opening.pending,
            waits=waits,
        )
        try:
            yield context, opening.journal
        finally:
            with suppress(StoreError):  # found by the next process that opens the run
                await context.settle()
    finally:
        if opening.log is not None:
            opening.log.close()
            conversation.notices += opening.log.notices


async def _open(opening: _Opening, *, waits: bool) -> None:
    """Open a run; if ``waits``, do it again while the disk is full."""
    while True:
        try:
            # In this thread: a switch to another costs as much as all of the work.
            if is_at_hand(opening.store):
                opening.open()
            else:
                # A thread cannot be stopped: it may have the claim when this task is cancelled.
                await finish(asyncio.to_thread(opening.open))
            return
        except StoreError as error:
            if not waits:
                raise
            await wait_for_room(error)


@define(eq=False)
class _Opening:
    """Opening of a conversation; see :func:`open_run`.

    Attributes:
        log: Log of the run, as soon as it is claimed.
        inbox: Inbox of the run, if any.
        pending: Messages to the run that were not received yet.
        earlier: Events of earlier runs.
    """

    journal: ConversationJournal
    store: ConversationStore | None
    run_id: str
    log: RunLog | None = None
    inbox: RunInbox | None = None
    pending: Sequence[LogEvent] = ()
    earlier: Sequence[LogEvent] = ()

    def take_over(self, claimed: ClaimedRun) -> None:
        """Use a log that was claimed for this run, and whose events are all known."""
        self.journal.log = claimed.log
        assert self.store is not None  # a requested run is in a store
        self.inbox = self.store.open_inbox(self.journal.conversation_id)
        self.earlier = [each.event for each in claimed.events]

    def open(self) -> None:
        """Claim the log, store new canisters, and read earlier events. Does file work."""
        store, journal, identity = self.store, self.journal, self.journal.conversation_id
        log = self.log
        if log is None:
            log = self.log = self._claim()
        # After the claim: from here on no other run adds to the conversation or its log.
        journal.log = log
        settle_calls(journal.conversation, store, log, journal.catch_up_blocking)
        journal.catch_up_blocking()
        if store is not None:
            self.inbox = store.open_inbox(identity)
            if not self.inbox.is_empty:
                self.pending = take_messages(self.inbox, log, self.run_id)
        self.earlier = _read_earlier(log, store, journal.conversation)

    def _claim(self) -> RunLog:
        if self.store is None:
            return _claim_memory_log(self.journal.conversation)
        try:
            return self._claim_stored_log(self.store)
        except UnknownConversationError:  # a new one: only the logs of its parents know of calls
            settle_calls(
                self.journal.conversation, self.store, MemoryLog(), self.journal.catch_up_blocking
            )
            self.journal.catch_up_blocking()  # from now on it can have a log
            return self._claim_stored_log(self.store)

    def _claim_stored_log(self, store: ConversationStore) -> RunLog:
        log = store.open_log(self.journal.conversation_id)
        log.claim()
        return log


def _claim_memory_log(conversation: Conversation) -> RunLog:
    """Claim the log of a conversation that is in no store."""
    log = _access_memory_log(conversation)
    try:
        log.claim()
    except StoreError:
        if read_tail(conversation.canisters).pending_calls:  # or a call might be executed twice
            raise
        # Copies may be answered at the same time, so this copy is independent.
        conversation.companions = conversation.companions.new_child()
        log = _access_memory_log(conversation)
        log.claim()
    return log


def _access_memory_log(conversation: Conversation) -> MemoryLog:
    log: MemoryLog = conversation.companions.maps[0].setdefault(MemoryLog, MemoryLog())
    return log.share()


def _read_earlier(
    log: RunLog, store: ConversationStore | None, conversation: Conversation
) -> Sequence[LogEvent]:
    """Read the events of runs of the conversation, preceded by those of its parents' runs."""
    own_events = read_unsettled(log)
    inherited = survey_inherited(store, conversation)
    if store is None or is_at_hand(store):
        return [*inherited, *own_events]
    is_killed = own_events and not isinstance(own_events[-1], STOPS)
    if is_killed or not store.keeps_logs:
        # A run was killed, or may have been. From here on, the new run relies on what that run
        # stored, which may not have reached the disk: a power failure would remove it from below
        # later writes.
        store.secure(conversation.id)
    if is_killed:
        abandon_fork(store, conversation.id)
    return [*inherited, *own_events, *survey_doubtful(store, conversation)]
