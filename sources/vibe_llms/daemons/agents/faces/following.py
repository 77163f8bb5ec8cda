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

    async def follow(self, start: int, after: int) -> AsyncGenerator[Step]:
        """Yield steps until the run has settled; the last one is a :class:`.Settled`.

        Args:
            start: Number of the first event of the answer.
            after: Number of the last event that the client knows; steps begin behind it.

        Raises:
            UnknownConversationError: The run was deleted.
            StoreError: The log or the conversation cannot be read.
        """
        last = await self._runs.count_events(self.run_id, subject=self._subject)
        sequence, may_settle = 0, False
        with self._subscriptions.subscribe(self.run_id, start - 1, last, ends=True) as subscription:
            while data := await subscription.receive():
                for event in _read_frames(data):
                    if event is None:
                        yield KeepAlive()
                    elif not isinstance(event, LoggedEvent):
                        if not isinstance(event, VisitEvent):
                            for step in self._walk.feed_piece(event):
                                yield step
                    else:
                        is_new = event.sequence > after
                        for step in self._walk.feed(event, await self._read_answer(event)):
                            if is_new and isinstance(step, PartsWithdrawn):
                                conversation = await self._read_conversation(event)
                                yield attrs.evolve(step, conversation=conversation)
                            elif is_new:
                                yield step
                        if isinstance(event.event, _MAY_SETTLE):
                            may_settle = True
                        elif isinstance(event.event, _STARTS):
                            may_settle = False
                        sequence = event.sequence
                    # Also while nothing happens: messages to visits of a flow are in other logs.
                    is_checked = event is None or isinstance(event, LoggedEvent)
                    if is_checked and sequence >= last and (may_settle or sequence == last):
                        settled = await self._settle(sequence)
                        if settled is not None:
                            yield settled
                            return
                    del event
                del data
        summary = await self._runs.find(self.run_id, subject=self._subject)
        yield describe_settled(summary, walk=self._walk)

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

    def _has_messages(self) -> bool:
        """Return whether messages, such as an approval, are still to be moved to a log.

        A message that is in the log already may stay in the inbox for a moment; it has no further
        event. Does file work.
        """
        store = self._runs.store
        return any(
            _has_unmoved(store.open_inbox(identity), store.open_log(identity))
            for identity in (self.run_id, *survey_parts(store, self.run_id))
        )

    async def _settle(self, sequence: int) -> Settled | None:
        """Return the end of the walk if the run has settled with an event of this number."""
        summary = await self._runs.find(self.run_id, subject=self._subject)
        has_messages = False
        if summary.state == "waiting":
            # Before the log is read again, as messages move from the inbox to the log.
            has_messages = await asyncio.to_thread(self._has_messages)
            summary = await self._runs.find(self.run_id, subject=self._subject)
        if summary.sequence > sequence:
            return None  # later events decide
        if summary.state == "waiting":
            waiting = await self._runs.survey_approvals(self.run_id, subject=self._subject)
            # without a call, it waits for a vendor's batch, and continues without the client; a
            # message may be the approval, which the holder of the log has not moved yet
            is_open = waiting and not has_messages
            return describe_settled(summary, waiting, self._walk) if is_open else None
        if summary.state in RESTS and not summary.starts:
            return describe_settled(summary, walk=self._walk)
        return None


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
