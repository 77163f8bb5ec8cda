"""Runs in this process: steps are performed in place, and what was said goes to a store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import Final

import attrs
import msgspec

from vibe_llms.asynchrony import finish
from vibe_llms.conversations.contents import hydrate, needs_content_store
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.engine.contexts import Operation, RunEvent, Step
from vibe_llms.events.bus import EventBus
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import (
    CodecError,
    Finding,
    Stage,
    StoreError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.messages.identities import produce_identity
from vibe_llms.plain import JsonObject
from vibe_llms.runs.delivering import take_letters
from vibe_llms.runs.inbox import Inbox
from vibe_llms.runs.log import RESTED, FencedLog, LoggedEvent, RunLog, read_events, read_unsettled
from vibe_llms.runs.places import (
    keeps_logs,
    produce_inbox,
    produce_log,
    survey_doubtful,
    survey_inherited,
)
from vibe_llms.values import define

_LOOK_SECONDS: Final = 0.2
"""How soon a run hears what is said to it while a step is under way."""


class LocalRunContext:
    """Performs a run in this process; see :class:`vibe_llms.engine.contexts.RunContext`.

    Args:
        run_id: The name of the run.
        log: Where events go; claimed already where it can be.
        listener: Hears each event when it has been written. One that raises gets one logged
            warning and harms nobody.
        earlier: What earlier runs have left; by default what the log holds by now.
        inbox: Where letters to the run are.
        unheard: What was taken from there already.
        checked: Whether all that goes into a step and comes out of it really passes through
            JSON, as it would on the way to another machine; costs what that costs.
    """

    def __init__(
        self,
        run_id: str,
        log: RunLog,
        *,
        listener: Callable[[RunEvent], object] | None = None,
        earlier: Sequence[LogEvent] | None = None,
        checked: bool = False,
        inbox: Inbox | None = None,
        unheard: Sequence[LogEvent] = (),
    ) -> None:
        self.run_id = run_id
        self._log = log
        self._inbox = inbox
        self._unheard = unheard
        self._earlier = read_events(log) if earlier is None else earlier
        self._checked = checked
        self._operations: dict[str, Operation] = {}
        self._waiting: list[LogEvent] = []  # for the next one, to be written together
        self._bus: EventBus[RunEvent] | None = None
        if listener is not None:
            self._bus = EventBus()
            self._bus.subscribe(listener)

    def register(self, operations: Mapping[str, Operation]) -> None:
        """Takes the operations that steps may name."""
        self._operations.update(operations)

    async def step(self, operation: str, arguments: JsonObject, *, key: str) -> JsonObject:
        """Performs one step and returns its receipt.

        Raises:
            UnknownNameError: No operation was registered under the name.
            CodecError: Checked, the arguments or the receipt are not JSON.
        """
        perform = self._operations.get(operation)
        if perform is None:
            raise UnknownNameError(
                kind="operation",
                name=operation,
                known=tuple(sorted(self._operations)),
                stage=Stage.EXECUTE,
            )
        if not self._checked:
            return await perform(arguments)
        sent = _pass_through_json(arguments, f"the arguments of {operation} ({key})")
        return _pass_through_json(await perform(sent), f"the receipt of {operation} ({key})")

    async def gather(self, steps: Sequence[Step]) -> list[JsonObject]:
        """Performs steps at the same time."""
        if len(steps) == 1:  # one step needs no group of tasks
            (only,) = steps
            return [await self.step(only.operation, only.arguments, key=only.key)]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self.step(step.operation, step.arguments, key=step.key))
                    for step in steps
                ]
        except BaseExceptionGroup as errors:
            first = errors.exceptions[0]
        else:
            return [task.result() for task in tasks]
        raise first  # by itself: what cancelled the others is what there is to know

    async def emit(self, event: LogEvent, *, durable: bool = False, soon: bool = False) -> None:
        """Adds an event to the log, then tells the listener, in the order of the log."""
        if soon:
            self._waiting.append(event)
            return
        events, self._waiting = [*self._waiting, event], []
        try:
            sequence = await self._log.write(self.run_id, *events, durable=durable)
        except Exception:  # whoever emits the last one hears of it; of the others nobody would
            self._waiting[:0] = events[:-1]
            raise
        except asyncio.CancelledError:  # it is written all the same
            self._tell_all(events)
            raise
        self._tell_all(events)  # before the disk is waited for, where others would overtake
        if durable:
            await self._log.secure(sequence)

    async def settle(self) -> None:
        """Writes what was to be written soon, where nothing has come after it."""
        if self._waiting:
            last = self._waiting.pop()
            await self.emit(last)

    def _tell_all(self, events: Sequence[LogEvent]) -> None:
        if self._bus is not None:
            for event in events:
                self._bus.publish(event)

    @property
    def is_followed(self) -> bool:
        """Whether there is a listener."""
        return self._bus is not None

    def tell(self, event: RunEvent) -> None:
        """Tells the listener of an event that is not kept."""
        if self._bus is not None:
            self._bus.publish(event)

    async def receive(self) -> Sequence[LogEvent]:
        """Moves what others have said to the run into its log, and returns it."""
        events, self._unheard = self._unheard, ()
        if self._inbox is not None and not self._inbox.is_empty:
            # In no thread: branches of a flow may write to the log meanwhile. Letters are rare.
            events = [*events, *take_letters(self._inbox, self._log, self.run_id)]
        for event in events:
            self.tell(event)
        return events

    @contextmanager
    def attend(self, hear: Callable[[Sequence[LogEvent]], object]) -> Iterator[None]:
        """Looks again and again whether others say something, and hands it over."""
        inbox, loop = self._inbox, asyncio.get_running_loop()
        if inbox is None:
            yield
            return

        timer: asyncio.TimerHandle

        def look() -> None:
            nonlocal timer
            timer = loop.call_later(_LOOK_SECONDS, look)
            with suppress(StoreError):  # they stay there: whoever receives is told of it
                if not inbox.is_empty:
                    events = take_letters(inbox, self._log, self.run_id)
                    for event in events:
                        self.tell(event)
                    hear(events)

        timer = loop.call_later(_LOOK_SECONDS, look)
        try:
            yield
        finally:
            timer.cancel()

    async def now(self) -> float:
        """Returns the seconds since some moment."""
        return time.monotonic()

    def survey(self) -> Sequence[LogEvent]:
        """Returns what earlier runs have left."""
        return self._earlier


def _pass_through_json(value: JsonObject, what: str) -> JsonObject:
    try:
        passed: JsonObject = msgspec.json.decode(encode_document(value), type=dict)
        return passed
    except (CodecError, msgspec.ValidationError) as error:
        raise CodecError(path=what, detail=str(error), stage=Stage.EXECUTE) from error


class ConversationJournal:
    """A conversation, and the store that keeps it; see :class:`vibe_llms.engine.contexts.Journal`.

    Args:
        conversation: What was said; grows.
        store: Where it is kept; ``None`` for nowhere.

    Attributes:
        log: Of the run, once that has claimed it. Where others may take that over, nothing is
            stored without its claim, so that a run that was taken over says nothing more.
    """

    log: RunLog | None = None

    def __init__(self, conversation: Conversation, store: ConversationStore | None = None) -> None:
        self.conversation = conversation
        self._store = store

    @property
    def conversation_id(self) -> str:
        """The name of the conversation."""
        return self.conversation.id

    @property
    def canisters(self) -> Sequence[AnyCanister]:
        """All that was said, oldest first."""
        return self.conversation.canisters

    async def append(self, canisters: Sequence[AnyCanister]) -> None:
        """Adds what was said. It is stored or not, and the conversation says which, when this
        returns, raises or is cancelled."""
        store = self._store
        if store is not None and needs_content_store(canisters):  # out of the log of a crash
            canisters = await asyncio.to_thread(hydrate, canisters, store.contents)
        self.conversation.add_canisters(canisters)
        if store is None:
            return
        try:
            await self.catch_up()
        except BaseException:
            self.conversation.take_back(canisters)
            raise

    async def catch_up(self) -> None:
        """Stores what is new, and takes over what others have added meanwhile."""
        if is_at_hand(self._store):
            self.keep()
        else:
            await finish(asyncio.to_thread(self.keep))

    def keep(self) -> None:
        """The same, for code without an event loop. Does file work."""
        store = self._store
        if store is None:
            return
        if isinstance(store, MemoryStore):  # whose runs nobody takes over
            is_shared = self.conversation.catch_up(store)
        else:
            with self.log.fencing() if isinstance(self.log, FencedLog) else nullcontext():
                is_shared = self.conversation.catch_up(store)
        if is_shared:
            notice = Finding(place=self.conversation.id, message="Others have written to it, too.")
            self.conversation.notices += (notice,)


def is_at_hand(store: ConversationStore | None) -> bool:
    """Tells whether nothing is waited for, so that a thread would cost more than the work."""
    return store is None or isinstance(store, MemoryStore)


@define(kw_only=True, eq=False)
class BegunRun:
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

    def let_go(self) -> None:
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
    log: RunLog | None = None,
    listener: Callable[[RunEvent], object] | None = None,
    checked: bool = False,
    begun: BegunRun | None = None,
) -> AsyncIterator[tuple[LocalRunContext, ConversationJournal]]:
    """Takes a conversation up for a run, alone, and lets it go in the end.

    What of it was not stored yet is stored then, and what others have added since it was read
    is there.

    Args:
        conversation: Grows by what the run brings.
        store: Where it is kept, and the run's log beside it; ``None`` for nowhere.
        run_id: The name of the run; a new one by default.
        log: Of the conversation's earlier runs, where no store has it.
        listener, checked: See :class:`LocalRunContext`.
        begun: The same run, where its log was claimed for this.

    Raises:
        StoreError: Another run of the conversation is on its way, or something cannot be
            written.
    """
    opening = _Opening(
        ConversationJournal(conversation, store), store, log, run_id or produce_identity()
    )
    if begun is not None:
        opening.log = begun.take()
    try:
        # In one thread: to go to another costs as much as all that is done there.
        if begun is not None and begun.is_new:
            opening.take_over(begun)
        elif is_at_hand(store):
            opening.open()
        else:
            # A thread cannot be stopped: it may have the claim by the time we are told to go.
            await finish(asyncio.to_thread(opening.open))
        assert opening.log is not None
        context = LocalRunContext(
            opening.run_id,
            opening.log,
            listener=listener,
            earlier=opening.earlier,
            checked=checked,
            inbox=opening.inbox,
            unheard=opening.unheard,
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
    given: RunLog | None
    run_id: str
    log: RunLog | None = None
    inbox: Inbox | None = None
    unheard: Sequence[LogEvent] = ()
    earlier: Sequence[LogEvent] = ()

    def take_over(self, begun: BegunRun) -> None:
        """Goes on with a log that was claimed for this run, and all of which is known."""
        self.journal.log = begun.log
        self.inbox = produce_inbox(self.store, self.journal.conversation_id)
        self.earlier = [each.event for each in begun.events]

    def open(self) -> None:
        """Claims the log, stores what is new, and reads what has happened. Does file work."""
        store, journal, identity = self.store, self.journal, self.journal.conversation_id
        log = self.log
        if log is None:
            log = self.log = self._claim()
        # After the claim: from here on no other run adds to it, nor to its log.
        journal.log = log
        journal.keep()
        if store is not None:
            self.inbox = produce_inbox(store, identity)
            if not self.inbox.is_empty:
                self.unheard = take_letters(self.inbox, log, self.run_id)
        self.earlier = _read_earlier(log, store, journal.conversation)

    def _claim(self) -> RunLog:
        if self.store is None and self.given is not None:
            self.given.claim()
            return self.given
        try:
            return self._claim_there()
        except UnknownConversationError:
            self.journal.keep()  # a new one: it has a place for a log from now on
            return self._claim_there()

    def _claim_there(self) -> RunLog:
        log = produce_log(self.store, self.journal.conversation_id)
        log.claim()
        return log


def _read_earlier(
    log: RunLog, store: ConversationStore | None, conversation: Conversation
) -> Sequence[LogEvent]:
    """Reads what runs of the conversation have left, and before that, those of its parents."""
    own = read_unsettled(log)
    inherited = survey_inherited(store, conversation)
    if store is None or is_at_hand(store):
        return [*inherited, *own]
    is_killed = own and not isinstance(own[-1], RESTED)
    if is_killed or not keeps_logs(store):
        # A run was killed, or nobody knows. What it had stored is acted upon from here on,
        # and may not have reached the disk: a loss of power would take it away from under
        # what follows.
        store.secure(conversation.id)
    return [*inherited, *own, *survey_doubtful(store, conversation)]
