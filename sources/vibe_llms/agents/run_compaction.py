"""Compaction by a worker: a run continues in a fork that begins with a summary.

The fork is stored in one piece, with its request. Its id follows from the request and the last
message, so that a worker that takes over finds the fork of a killed one, and pays no second
summary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs

from vibe_llms.agents.run_requests import judge_ending
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.conversations.compaction import CompactionPlan, find_summary
from vibe_llms.conversations.metadata import ParentLink
from vibe_llms.conversations.run_logs.log import ENDS, LoggedEvent
from vibe_llms.conversations.run_logs.log_lines import write_line
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.tags import OWNER_TAG, PART_TAG
from vibe_llms.engine.contexts import RunEvent
from vibe_llms.engine.run_messages import RunMessages, describe_stop, produce_handover
from vibe_llms.engine.tails import read_tail
from vibe_llms.events.engine import GenerationStartedEvent, RunEndedEvent, RunStartedEvent
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import (
    MessageReceivedEvent,
    RunContinuedEvent,
    RunRequestedEvent,
    RunResumedEvent,
    StopRequestedEvent,
)
from vibe_llms.exceptions import RequestError, Stage, UnknownConversationError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.portal import finish
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.outcomes import price_in_cents
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.views import add_usages
from vibe_llms.providers.summaries import Ask
from vibe_llms.runs.compacted_forks import derive_fork, find_fork, list_unanswered
from vibe_llms.runs.delivering import take_messages
from vibe_llms.runs.journals import ConversationJournal
from vibe_llms.runs.local import LocalRunContext
from vibe_llms.runs.opening import ClaimedRun
from vibe_llms.runs.snapshots import Snapshot, plant
from vibe_llms.runs.spending import measure_usage

_INPUTS: Final = (RunRequestedEvent, MessageReceivedEvent, RunResumedEvent)
_RESTS: Final = "The conversation was compacted; resume the run to get an answer."


@define(kw_only=True, eq=False)
class RunCompaction:
    """Compaction of a run, before the first request of a turn.

    Attributes:
        engine: Engine of the run, connected.
        store: Store of the conversation.
        claimed: The run.
        spec: Specification of the run.
        seconds: Limit of the run's working time.
        listener: Receives all events.
    """

    engine: Engine
    store: ConversationStore
    claimed: ClaimedRun
    spec: RunSpec
    seconds: float
    listener: Callable[[RunEvent], object] | None = None
    _request: LoggedEvent = attrs.field(init=False)
    _since: list[LogEvent] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        events = self.claimed.events
        place = max(i for i, each in enumerate(events) if isinstance(each.event, RunRequestedEvent))
        self._request = events[place]
        self._since = [each.event for each in events[place:]]

    @property
    def request(self) -> RunRequestedEvent:
        """The request of the run."""
        request = self._request.event
        assert isinstance(request, RunRequestedEvent)
        return request

    @property
    def is_requested(self) -> bool:
        """True if the request asks for a compaction that was not made yet."""
        return self.spec.compact and not any(isinstance(each, ENDS) for each in self._since)

    @property
    def has_input(self) -> bool:
        """True if there are new messages to answer."""
        return bool(self.request.canisters or self._survey_messages())

    async def perform(self) -> str | None:
        """Continue the run in a fork if the window is full, or the request says so.

        Returns:
            Id of the fork; empty if the run was stopped during it. ``None`` if the run stays in its
            conversation, and keeps the claim of its log.

        Raises:
            RequestError: A compaction was requested, and there is nothing to summarize.
            ConverseError: The model did not summarize; the messages are stored.
            CancelledError: The execution was cancelled; the log has its state.
        """
        if self.claimed.is_new or not self._is_at_turn():
            return None
        if fork := await asyncio.to_thread(self._find_fork):
            # Its worker was killed, or a message was sent just before the end.
            return await self._move(fork)
        candidate = self.claimed.conversation.copy()
        candidate.add_canisters(self._find_unsaved())
        planned = await self.engine.plan_compaction(candidate, is_needed=self.is_requested)
        if planned is not None:
            return await self._move("", *planned)
        if self.is_requested and not self.has_input:
            detail = "There is nothing to summarize yet."
            raise RequestError(path="compact", detail=detail, stage=Stage.EXECUTE)
        return None

    def _is_at_turn(self) -> bool:
        """Return whether nothing of an earlier turn is open, and the new messages were not sent."""
        events = [each.event for each in self.claimed.events]
        requests = [each for each in events if isinstance(each, RunRequestedEvent)]
        new = {canister.id for each in requests for canister in each.canisters}
        new |= {each.id for each in self._find_unsaved()}
        stored = [each for each in self.claimed.conversation.canisters if each.id not in new]
        tail = read_tail(stored) if stored else None
        if tail is not None and (tail.pending_calls or tail.is_paused):
            return self.is_requested and not self.has_input
        stays = self.spec.stays or self.spec.channel or self._is_attempted()
        return self.is_requested or not stays

    def _is_attempted(self) -> bool:
        """Return whether the newest message was sent, or has moved here already.

        A fork that is still too long does not move again: each message pays for one summary.
        """
        for event in reversed(self._since):
            if isinstance(event, RunContinuedEvent):
                if event.conversation == self.claimed.conversation.id:
                    return True
            elif isinstance(event, (GenerationStartedEvent, *_INPUTS)):
                return isinstance(event, GenerationStartedEvent)
        return False

    def _survey_messages(self) -> list[MessageReceivedEvent]:
        return [each for each in self._since if isinstance(each, MessageReceivedEvent)]

    def _find_unsaved(self) -> list[AnyCanister]:
        """Return the messages in the log that the conversation does not have yet."""
        known = {each.id for each in self.claimed.conversation.canisters}
        events = [each.event for each in self.claimed.events]
        messages = [each.canister for each in events if isinstance(each, MessageReceivedEvent)]
        return [each for each in messages if each.id not in known]

    # --- moving ----------------------------------------------------------------------------------

    async def _move(
        self, fork: str, plan: CompactionPlan | None = None, ask: Ask | None = None
    ) -> str:
        """Continue in the fork, which was stored before, or is planned."""
        conversation, log = self.claimed.conversation, self.claimed.take()
        journal = ConversationJournal(conversation, self.store, waits=True)
        journal.log, identity = log, conversation.id
        context = LocalRunContext(
            identity,
            log,
            listener=self.listener,
            earlier=(),
            inbox=self.store.open_inbox(identity),
            waits=True,
        )
        try:
            # First, so that the messages are stored whatever happens to the summary.
            await journal.append(self._find_unsaved())
            started = RunStartedEvent(
                run_id=identity,
                conversation_id=identity,
                length=len(conversation),
                model=self.spec.model if plan is None else str(plan.descriptor),
            )
            await context.emit(started)
            if not fork:
                assert plan is not None
                assert ask is not None
                canisters = await self._summarize(plan, ask, context)
                if canisters is None:
                    return ""
                # Finish it: a fork without the end of its parent would run after a stop.
                return await finish(self._begin_fork(canisters, journal, context))
            await finish(self._conclude(fork, journal, context))
            return fork
        finally:
            log.close()

    async def _summarize(
        self, plan: CompactionPlan, ask: Ask, context: LocalRunContext
    ) -> list[AnyCanister] | None:
        """Return the canisters of the fork; ``None`` if the run was stopped, or out of time."""
        messages = RunMessages(context, self._since.append)
        remaining = self.seconds - measure_usage(self.claimed.events).seconds
        try:
            async with messages.bound(remaining) as clock:
                canisters = await plan.perform(ask)
            if await messages.receive() is None:
                return canisters
        except TimeoutError:
            if not clock.expired():
                raise
        except asyncio.CancelledError:
            stop = await messages.receive_last()
            if stop is None:
                await context.emit(produce_handover())
            else:
                await self._end(context, reason="cancelled", detail=describe_stop(stop))
            raise
        if messages.stop is not None:
            await self._end(context, reason="cancelled", detail=describe_stop(messages.stop))
        else:
            detail = "The time was over before the conversation was summarized."
            await self._end(context, reason="limit", limit="run_seconds", detail=detail)
        return None

    async def _end(self, context: LocalRunContext, **fields: Any) -> None:
        await context.emit(RunEndedEvent(run_id=context.run_id, **fields), durable=True)

    async def _begin_fork(
        self,
        canisters: Sequence[AnyCanister],
        journal: ConversationJournal,
        context: LocalRunContext,
    ) -> str:
        fork = await asyncio.to_thread(self._plant, canisters)
        await self._conclude(fork, journal, context)
        return fork

    async def _conclude(
        self, fork: str, journal: ConversationJournal, context: LocalRunContext
    ) -> None:
        """Pass messages that arrived during it on to the fork, and end the run of the parent."""
        received = await asyncio.to_thread(self._receive, fork)
        self._since += received
        for event in received:
            context.publish(event)
        known = {each.id for each in journal.canisters}
        late = [each.canister for each in self._survey_messages()]
        await journal.append([each for each in late if each.id not in known])
        await context.emit(await asyncio.to_thread(self._pass_on, fork), soon=True)
        detail = f"It continues in {fork}, which begins with a summary."
        await self._end(context, reason="continued", detail=detail)

    # --- in a thread -----------------------------------------------------------------------------

    def _find_fork(self) -> str:
        """Return the fork to which this request has moved, also if its worker was killed then."""
        claimed = self.claimed
        conversation = claimed.conversation
        return find_fork(self.store, conversation.id, claimed.events, conversation.canisters)

    def _receive(self, fork: str) -> list[LogEvent]:
        """Receive messages; a stop reaches the fork even if this process is killed now."""
        identity, to_fork = self.claimed.conversation.id, self.store.open_inbox(fork)
        inbox = self.store.open_inbox(identity)
        return take_messages(inbox, self.claimed.log, identity, on_stop=to_fork.put)

    def _plant(self, canisters: Sequence[AnyCanister]) -> str:
        """Store the fork with its messages and the request of its run; return its id."""
        parent = self.claimed.conversation
        fork = derive_fork(parent.id, self._request.sequence, parent.canisters[-1])
        metadata = parent.metadata.fork(ParentLink(identity=parent.id, canisters=0))
        tags = [each for each in metadata.tags if not each.startswith((PART_TAG, OWNER_TAG))]
        spec = attrs.evolve(self.spec, compact=False).export()
        events: list[LogEvent] = [
            RunRequestedEvent(spec=spec, subject=self.request.subject),
            self._describe(fork, canisters),
        ]
        if self.is_requested and not self.has_input:
            events += judge_ending(canisters, fork) or [
                StopRequestedEvent(reason=_RESTS),
                RunEndedEvent(run_id=fork, reason="cancelled", detail=_RESTS),
            ]
        lines = [
            write_line(number, access_now(), fork, event) for number, event in enumerate(events, 1)
        ]
        if not self.store.plants_whole:  # remove what a killed worker has begun
            with suppress(UnknownConversationError):
                self.store.delete(fork)
        metadata = attrs.evolve(metadata, tags=tags)
        plant(self.store, Snapshot.begin(fork, metadata, canisters, lines))
        return fork

    def _pass_on(self, fork: str) -> RunContinuedEvent:
        """Send unanswered messages to the run of the fork; resume it if the parent was resumed."""
        stored = self.store.read(fork).canisters
        unanswered = {each.id for each in list_unanswered(self.claimed.conversation.canisters)}
        waiting = unanswered - {each.id for each in stored}
        messages = [each for each in self._survey_messages() if each.canister.id in waiting]
        needs_answer = not self.spec.compact or self.has_input
        resumed = [each for each in self._since if isinstance(each, RunResumedEvent)]
        inbox = self.store.open_inbox(fork)  # its run takes each message once
        for message in (*messages, *(resumed if needs_answer else ())):
            inbox.put(message)
        return self._describe(fork, stored)

    def _describe(self, fork: str, canisters: Sequence[AnyCanister]) -> RunContinuedEvent:
        summary = find_summary(canisters)
        part = None if summary is None else summary.summarizes
        origins = () if part is None else part.origins
        cents = [price_in_cents(origin) for origin in origins]
        known = [each for each in cents if each is not None]
        return RunContinuedEvent(
            conversation=fork,
            continues=self.claimed.conversation.id,
            usage=add_usages(origin.usage for origin in origins),
            cents=sum(known) if known else None,
        )
