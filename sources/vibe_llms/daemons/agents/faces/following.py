"""Follow a run until it has ended, was stopped, or waits for an approval."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import attrs

from vibe_llms.agents.interfaces import WatchedEvent
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.remote_events import read_event
from vibe_llms.conversations.run_logs.inbox import RunInbox, read_message_id
from vibe_llms.conversations.run_logs.log import LoggedEvent, RunLog
from vibe_llms.conversations.stores.interfaces import Position
from vibe_llms.daemons.agents.faces.steps import KeepAlive, Outcome, PartsWithdrawn, Settled, Step
from vibe_llms.daemons.agents.faces.walking import Walk
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.events.engine import (
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import FlowEndedEvent, FlowStartedEvent, VisitEvent
from vibe_llms.events.runs import MessageReceivedEvent, RunRequestedEvent, StopRequestedEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    UserCanister,
)
from vibe_llms.runs.parts import survey_parts
from vibe_llms.runs.subscriptions import LogSubscriptions
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.surveying import RESTS
from vibe_llms.runs.waiting import Waiting

_MODEL_CANISTERS: Final = (AssistantCanister, InvocationCanister, ResultCanister)
_MAY_SETTLE: Final = (
    FlowEndedEvent,
    MessageReceivedEvent,
    RunEndedEvent,
    RunSuspendedEvent,
    StopRequestedEvent,
)
"""Events after which a run may have settled."""

_STARTS: Final = (FlowStartedEvent, RunStartedEvent)
_PAUSE_SECONDS: Final = 0.5


class RunFollower:
    """Follower of one run, which yields its steps.

    Args:
        runs: Runs of the daemon.
        subscriptions: Subscriptions to their logs.
        run_id: Id of the run.
        subject: The caller.
    """

    def __init__(
        self, runs: LocalRuns, subscriptions: LogSubscriptions, run_id: str, subject: str
    ) -> None:
        self.run_id = run_id
        self._runs = runs
        self._subscriptions = subscriptions
        self._subject = subject
        self._walk = Walk(run_id)
        self._stored: Sequence[AnyCanister] = ()  # from the last answer on
        self._position: Position | None = None
        self._sequence = 0  # number of the last event
        self._may_settle = False

    async def follow(self, start: int, after: int) -> AsyncGenerator[Step]:
        """Yield steps until the run has settled; the last one is a :class:`.Settled`.

        Args:
            start: Number of the first event of the answer.
            after: Number of the last event that the client knows; steps begin behind it.

        Raises:
            UnknownConversationError: The run was deleted.
            StoreError: The log or the conversation cannot be read.
        """
        self._sequence, settled = start - 1, None
        while settled is None:
            last = await self._runs.count_events(self.run_id, subject=self._subject)
            with self._subscriptions.subscribe(
                self.run_id, self._sequence, last, ends=True
            ) as subscription:
                while settled is None and (data := await subscription.receive()):
                    for event in _read_frames(data):
                        for step in await self._take(event, after):
                            yield step
                        if self._is_checked(event, last):
                            settled = await self._settle()
                            if settled is not None:
                                break
                        del event
                    del data
            if settled is None:
                settled = await self._settle(is_over=True)
                if settled is None:  # later events decide, or a message for it is not in its log
                    yield KeepAlive()
        yield settled

    async def _take(self, event: WatchedEvent | None, after: int) -> Sequence[Step]:
        """Return the steps of an event; ``None`` is a comment."""
        if event is None:
            return [KeepAlive()]
        if not isinstance(event, LoggedEvent):
            return [] if isinstance(event, VisitEvent) else [*self._walk.feed_piece(event)]
        steps = [*self._walk.feed(event, await self._read_answer(event))]
        if isinstance(event.event, _MAY_SETTLE):
            self._may_settle = True
        elif isinstance(event.event, _STARTS):
            self._may_settle = False
        self._sequence = event.sequence
        if event.sequence <= after:
            return []
        for place, step in enumerate(steps):
            if isinstance(step, PartsWithdrawn):
                conversation = await self._read_conversation(event)
                steps[place] = attrs.evolve(step, conversation=conversation)
        return steps

    def _is_checked(self, event: WatchedEvent | None, last: int) -> bool:
        """Return whether the run may have settled by an event."""
        if not (event is None or isinstance(event, LoggedEvent)):
            return False
        # Also while nothing happens: messages to visits of a flow are in other logs.
        return self._sequence >= last and (self._may_settle or self._sequence == last)

    async def _read_answer(self, logged: LoggedEvent) -> Sequence[AnyCanister]:
        """Return the canisters of the answer whose generation has just finished."""
        event = logged.event
        if not isinstance(event, GenerationFinishedEvent):
            return ()
        found = find_answer(self._stored, event)
        if len(found) < event.canisters:
            await asyncio.to_thread(self._read_on)
            found = find_answer(self._stored, event)
        if len(found) < event.canisters:
            self._position = None
            await asyncio.to_thread(self._read_on)
            found = find_answer(self._stored, event)
        if len(found) < event.canisters:
            raise StoreError(detail=f"An answer of the run {self.run_id} is not stored.")
        # Later answers follow this one, so that earlier canisters need no second search.
        place = next(index for index, each in enumerate(self._stored) if each.id == event.key)
        self._stored = self._stored[place:]
        return found

    def _read_on(self) -> None:
        """Read what the conversation has in addition; all of it at first. Does file work."""
        store, position = self._runs.store, self._position
        grown = None if position is None else store.read_on(self.run_id, position)
        if grown is None:
            grown, self._stored = store.read(self.run_id), ()
        self._stored = (*self._stored, *grown.canisters)
        self._position = grown.position

    async def _read_conversation(self, logged: LoggedEvent) -> Sequence[AnyCanister]:
        """Return the conversation up to an event; the run may have continued since."""
        history = await asyncio.to_thread(self._runs.store.read, self.run_id)
        event, stored = logged.event, history.canisters
        match event:
            case GenerationFinishedEvent():
                answer = find_answer(stored, event)
                key = answer[-1].id if answer else event.key
            case GenerationFailedEvent() if event.canisters:
                key = event.canisters[-1].id
            case GenerationFailedEvent() | GenerationStartedEvent():
                key = event.key
            case _:
                return stored
        places = [place for place, each in enumerate(stored) if each.id == key]
        return stored[: places[0] + 1] if places else stored

    def _has_messages(self, *, includes_parts: bool) -> bool:
        """Return whether messages, such as an approval, are still to be moved to a log.

        A message that is in the log already may stay in the inbox for a moment; it has no further
        event. Does file work.
        """
        store = self._runs.store
        parts = survey_parts(store, self.run_id) if includes_parts else ()
        return any(
            _has_unmoved(store.open_inbox(identity), store.open_log(identity))
            for identity in (self.run_id, *parts)
        )

    async def _settle(self, *, is_over: bool = False) -> Settled | None:
        """Return the end of the walk if the run has settled with the last event.

        Args:
            is_over: The run is at rest with that event.
        """
        summary = await self._runs.find(self.run_id, subject=self._subject)
        is_waiting, has_messages = summary.state == "waiting", False
        if is_waiting or is_over or summary.state in RESTS:
            # Before the log is read again, as messages move from the inbox to the log.
            has_messages = await asyncio.to_thread(self._has_messages, includes_parts=is_waiting)
            summary = await self._runs.find(self.run_id, subject=self._subject)
        if summary.sequence > self._sequence:
            return None  # later events decide
        if summary.state == "waiting":
            waiting = await self._runs.survey_approvals(self.run_id, subject=self._subject)
            # without a call, it waits for a vendor's batch, and continues without the client; a
            # message may be the approval, which the holder of the log has not moved yet
            is_open = waiting and not has_messages
            return describe_settled(summary, waiting, self._walk) if is_open else None
        if not (is_over or (summary.state in RESTS and not summary.starts)):
            return None
        if has_messages:  # it continues with them, but another process still keeps its log
            await retry_delivery(self._runs, self.run_id)
            return None
        return describe_settled(summary, walk=self._walk)


def _has_unmoved(inbox: RunInbox, log: RunLog) -> bool:
    """Return whether an inbox has messages that are not in the log. Does file work."""
    messages = inbox.read()
    if not messages:
        return False
    moved = {read_message_id(each.event) for each in log.read()} - {""}
    return any(read_message_id(each) not in moved for each in messages)


def describe_settled(
    summary: RunSummary, waiting: Sequence[Waiting] = (), walk: Walk | None = None
) -> Settled:
    """Return the last step of a run that has settled.

    Args:
        waiting: Calls that wait for an approval.
        walk: Walk over the run.
    """
    outcome: Outcome = "completed"
    if waiting:
        outcome = "waiting"
    elif summary.state == "stopped":
        outcome = "stopped"
    elif summary.tone == "failed":
        outcome = "failed"
    return Settled(
        outcome=outcome,
        summary=summary,
        detail=summary.detail or (summary.label if outcome == "failed" else ""),
        waiting=waiting,
        calls={} if walk is None else walk.calls,
        usages=() if walk is None else walk.usages,
    )


async def retry_delivery(runs: LocalRuns, run_id: str) -> None:
    """Move the messages of a run at rest to its log; pause if another process keeps the log."""
    if not await runs.deliver(run_id):
        await asyncio.sleep(_PAUSE_SECONDS)


async def await_receipt(runs: LocalRuns, call: HttpCall, run_id: str, subject: str) -> None:
    """Wait while messages for a run at rest are not in its log, as another process keeps the log.

    The last answer of the run is an answer to earlier messages. This is cancelled if the client of
    the request disconnects.
    """
    inbox = runs.store.open_inbox(run_id)
    while await asyncio.to_thread(inbox.read):
        summary = await runs.find(run_id, subject=subject)
        if summary.state not in RESTS:
            return
        with call.cancelling_on_disconnect():
            await retry_delivery(runs, run_id)


async def find_start(runs: LocalRuns, run_id: str) -> int:
    """Return the number of the event that asked for the current answer of a run."""

    def find() -> int:
        numbers = [
            logged.sequence
            for logged in runs.store.open_log(run_id).read()
            if isinstance(logged.event, RunRequestedEvent)
            or (
                isinstance(logged.event, MessageReceivedEvent)
                and isinstance(logged.event.canister, UserCanister)
            )
        ]
        return numbers[-1] if numbers else 1

    return await asyncio.to_thread(find)


def find_answer(
    stored: Sequence[AnyCanister], event: GenerationFinishedEvent
) -> Sequence[AnyCanister]:
    """Return the canisters of an answer, which follow the last canister that was sent."""
    places = (index for index, each in enumerate(stored) if each.id == event.key)
    place = next(places, None)
    if place is None:
        return ()
    following = (each for each in stored[place + 1 :] if isinstance(each, _MODEL_CANISTERS))
    return [each for each, _ in zip(following, range(event.canisters), strict=False)]


def _read_frames(data: bytes) -> Iterator[WatchedEvent | None]:
    """Yield the events of frames; ``None`` for a comment."""
    for block in data.split(b"\n\n"):
        _, found, text = (b"\n" + block).partition(b"\ndata: ")
        if found:
            event = read_event(text)
            if event is not None:
                yield event
        elif block:
            yield None
