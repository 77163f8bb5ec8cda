"""Taking a conversation up for a run, alone: its log is claimed, and what others left is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.inbox import RunInbox
from vibe_llms.conversations.run_logs.log import (
    RESTED,
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
from vibe_llms.runs.delivering import take_messages
from vibe_llms.runs.earlier_calls import survey_doubtful, survey_inherited
from vibe_llms.runs.journals import ConversationJournal, is_at_hand
from vibe_llms.runs.local import LocalRunContext
from vibe_llms.runs.settling import settle_calls


@define(kw_only=True, eq=False)
class ClaimedRun:
    """A run whose log is claimed for whoever performs it.

    Attributes:
        conversation: As it is stored.
        log: Of the run.
        events: What is in it.
        is_new: Whether it was asked for just now, so that nothing is left to be stored or read.
    """

    conversation: Conversation
    log: RunLog
    events: Sequence[LoggedEvent]
    is_new: bool = False
    _is_held: bool = attrs.field(default=True, init=False)

    def take(self) -> RunLog:
        """Hands the claim on to who lets go of it when the run has come to rest."""
        self._is_held = False
        return self.log

    def release(self) -> None:
        """Gives the claim up where nobody has taken it; may be called again."""
        if self._is_held:
            self._is_held = False
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
    """Takes a conversation up for a run, alone, and lets it go in the end.

    What of it was not stored yet is stored then, and what others have added since it was read
    is there.

    Args:
        conversation: Grows by what the run brings.
        store: Where it is kept, and the run's log beside it; ``None`` for nowhere.
        run_id: The name of the run; by default that of its conversation, where it is kept: by that
            it is found, and no other run of it works meanwhile. Else a new one.
        listener: See :class:`LocalRunContext`.
        claimed: The same run, where its log was claimed for this.
        waits: Wait while the disk is full, rather than fail.

    Raises:
        StoreError: Another run of the conversation is on its way, or something cannot be
            written.
    """
    name = run_id or (produce_identity() if store is None else conversation.id)
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
            unheard=opening.unheard,
            waits=waits,
        )
        try:
            yield context, opening.journal
        finally:
            with suppress(StoreError):  # whoever takes the run up finds out
                await context.settle()
    finally:
        if opening.log is not None:
            opening.log.close()
            conversation.notices += opening.log.notices


async def _open(opening: _Opening, *, waits: bool) -> None:
    """Open a run; if ``waits``, do it again while the disk is full."""
    while True:
        try:
            # In one thread: to go to another costs as much as all that is done there.
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
    """Takes a conversation up; see :func:`open_run`.

    Attributes:
        log: Of the run, as soon as it is claimed.
        inbox: Of the run, where there is one.
        unheard: What was said to it.
        earlier: What earlier runs have left.
    """

    journal: ConversationJournal
    store: ConversationStore | None
    run_id: str
    log: RunLog | None = None
    inbox: RunInbox | None = None
    unheard: Sequence[LogEvent] = ()
    earlier: Sequence[LogEvent] = ()

    def take_over(self, claimed: ClaimedRun) -> None:
        """Goes on with a log that was claimed for this run, and all of which is known."""
        self.journal.log = claimed.log
        assert self.store is not None  # a run that was asked for is in a store
        self.inbox = self.store.open_inbox(self.journal.conversation_id)
        self.earlier = [each.event for each in claimed.events]

    def open(self) -> None:
        """Claims the log, stores what is new, and reads what has happened. Does file work."""
        store, journal, identity = self.store, self.journal, self.journal.conversation_id
        log = self.log
        if log is None:
            log = self.log = self._claim()
        # After the claim: from here on no other run adds to it, nor to its log.
        journal.log = log
        settle_calls(journal.conversation, store, log, journal.keep)
        journal.keep()
        if store is not None:
            self.inbox = store.open_inbox(identity)
            if not self.inbox.is_empty:
                self.unheard = take_messages(self.inbox, log, self.run_id)
        self.earlier = _read_earlier(log, store, journal.conversation)

    def _claim(self) -> RunLog:
        if self.store is None:
            return _claim_own(self.journal.conversation)
        try:
            return self._claim_there(self.store)
        except UnknownConversationError:  # a new one: only the logs of its parents know of calls
            settle_calls(self.journal.conversation, self.store, MemoryLog(), self.journal.keep)
            self.journal.keep()  # it has a place for a log from now on
            return self._claim_there(self.store)

    def _claim_there(self, store: ConversationStore) -> RunLog:
        log = store.open_log(self.journal.conversation_id)
        log.claim()
        return log


def _claim_own(conversation: Conversation) -> RunLog:
    """Claim the log of a conversation that is in no store."""
    log = _access_own(conversation)
    try:
        log.claim()
    except StoreError:
        if read_tail(conversation.canisters).owed:  # or a call might be executed twice
            raise
        # Copies may be answered at the same time: this one goes its own way.
        conversation.companions = conversation.companions.new_child()
        log = _access_own(conversation)
        log.claim()
    return log


def _access_own(conversation: Conversation) -> MemoryLog:
    log: MemoryLog = conversation.companions.maps[0].setdefault(MemoryLog, MemoryLog())
    return log.share()


def _read_earlier(
    log: RunLog, store: ConversationStore | None, conversation: Conversation
) -> Sequence[LogEvent]:
    """Reads what runs of the conversation have left, and before that, those of its parents."""
    own = read_unsettled(log)
    inherited = survey_inherited(store, conversation)
    if store is None or is_at_hand(store):
        return [*inherited, *own]
    is_killed = own and not isinstance(own[-1], RESTED)
    if is_killed or not store.keeps_logs:
        # A run was killed, or nobody knows. What it had stored is acted upon from here on,
        # and may not have reached the disk: a loss of power would take it away from under
        # what follows.
        store.secure(conversation.id)
    return [*inherited, *own, *survey_doubtful(store, conversation)]
