"""Driver: performs the commands of the machine until it decides to end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import attrs

from vibe_llms.engine.approving import ApprovalGate
from vibe_llms.engine.contexts import Journal, RunContext
from vibe_llms.engine.deferral import RequestDeferred
from vibe_llms.engine.executing import Executor
from vibe_llms.engine.generating import Generator, ModelCall, describe_stored
from vibe_llms.engine.limits import Readings, export_limits
from vibe_llms.engine.machine import Await, Command, End, Execute, Generate, decide
from vibe_llms.engine.prepared_calls import examine_pending
from vibe_llms.engine.recovery import Record
from vibe_llms.engine.run_messages import RunMessages, describe_stop, produce_handover
from vibe_llms.engine.run_status import STATES, USUAL_TURN, ModelTurn, find_situation
from vibe_llms.engine.states import Reason, State
from vibe_llms.engine.tails import find_end, read_tail
from vibe_llms.events.engine import (
    GenerationDoubtedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
    StateEnteredEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.events.runs import MessageReceivedEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables.approvals import Approval, ApprovalRequest, Approver
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import AnyCanister, Origin, ResultCanister
from vibe_llms.messages.endings import Shortfall, find_shortfall, produce_error
from vibe_llms.messages.losses import Loss


@frozen(kw_only=True)
class RunEnding:
    """End or suspension of a run.

    Attributes:
        state: ``TERMINATE``; or ``AWAIT`` if it waits for approvals.
        reason: Why it ended; ``None`` if it waits.
        detail: The reason in a sentence, for people; may be empty.
        limit: Name of the limit that was reached; empty without one.
        error: Error that the run failed with, if it did.
        requests: Open approval requests.
        final: Result of a final invocation, which is the answer.
        shortfall: Why the model's last turn is not an answer, if the run ended with that.
        doubted: Number of generations of earlier runs that may have been billed without a response.
        readings: Resource usage.
        losses: Losses of translations.
        summaries: Origins of the summaries of old turns that were generated.
    """

    state: State
    reason: Reason | None = None
    detail: str = ""
    limit: str = ""
    error: ConverseError | None = None
    requests: tuple[ApprovalRequest, ...] = ()
    final: ResultCanister | None = None
    shortfall: Shortfall | None = None
    doubted: int = 0
    readings: Readings = attrs.field(factory=Readings)
    losses: tuple[Loss, ...] = ()
    summaries: tuple[Origin, ...] = ()


class Driver:
    """Run of a conversation; use it once.

    Attributes:
        ending: End or suspension of the run; ``None`` before.

    Args:
        model_call: Model, and settings of its requests.
        registry: Connected registry of invocables.
        journal: Conversation.
        context: Log, listeners and messages of the run.
        limits: Limits of the run (``run_…``).
        approver: Asked about invocations that need an approval.
        answers: Approvals given in advance.
        spent: Resource usage so far, if the run is resumed.
        temporary_errors: Errors that are raised without ending the run, so that it can be resumed.
    """

    def __init__(
        self,
        model_call: ModelCall,
        registry: Registry,
        journal: Journal,
        context: RunContext,
        *,
        limits: Limits | None = None,
        approver: Approver | None = None,
        answers: Sequence[Approval] = (),
        spent: Readings | None = None,
        temporary_errors: tuple[type[ConverseError], ...] = (),
    ) -> None:
        self._address = model_call.address
        self._registry = registry
        self._journal = journal
        self._context = context
        self._limits = limits or Limits()
        self._record = Record.read(context.survey())
        self._readings = Readings() if spent is None else attrs.evolve(spent)
        self._temporary_errors = temporary_errors
        self._deferral_backend = model_call.deferral_backend
        self._generator = Generator(
            model_call,
            journal,
            registry,
            context,
            self._readings,
            self._record,
            self._is_handed_over,
        )
        self._price = model_call.price
        self._adds_usage = spent is not None
        self._executor = Executor(journal, registry, context, self._record, self._readings)
        self._gate = ApprovalGate(context, self._record, approver, answers)
        self._state: State | None = None
        self._clock: asyncio.Timeout | None = None
        self._doubted = 0
        self._user_messages: list[AnyCanister] = []
        self._messages = RunMessages(context, self._on_event)
        self.ending: RunEnding | None = None

    async def drive(self) -> None:
        """Continue the conversation until nothing is left to do, or a limit is reached.

        Raises:
            CancelledError, KeyboardInterrupt: The run was cancelled or interrupted; what arrived
                is in the conversation.
            ConverseError: One of the errors that do not end the run.
        """
        context = self._context
        await context.emit(
            RunStartedEvent(
                run_id=context.run_id,
                conversation_id=self._journal.conversation_id,
                length=len(self._journal.canisters),
                model=self._address,
                limits=export_limits(self._limits),
            )
        )
        try:
            await self._recover()
            end = await self._work_in_time()
        except ConverseError as error:
            if isinstance(error, self._temporary_errors):
                raise
            end = End(reason=Reason.FAILED, detail=str(error))
            await self._conclude(end, error)
        except (asyncio.CancelledError, KeyboardInterrupt):
            # A stop may have caused this: log it before the end of the run.
            stop = await self._messages.receive_last()
            if stop is None and self._temporary_errors:  # no end yet: the next worker resumes it
                await context.emit(produce_handover())
                raise
            detail = describe_stop(stop) if stop else ""
            await self._conclude(End(reason=Reason.CANCELLED, detail=detail))
            raise
        except Exception as error:  # a bug here or in a plugin: the log records the end
            await self._conclude(End(reason=Reason.FAILED, detail=repr(error)))
            raise
        else:
            match end:
                case End():
                    await self._conclude(end)
                case RequestDeferred():
                    await self._defer(end)
                case _:
                    await self._suspend(end)

    async def _work_in_time(self) -> End | RequestDeferred | tuple[ApprovalRequest, ...]:
        try:
            remaining = self._limits.run_seconds - self._readings.seconds
            async with self._messages.bound(remaining) as clock:
                self._clock = clock
                return await self._work(clock)
        except TimeoutError:
            if not clock.expired():
                raise
            if stop := self._messages.stop:
                return End(reason=Reason.CANCELLED, detail=describe_stop(stop))
            self._readings.seconds = seconds = float(self._limits.run_seconds)
            detail = (
                f"The limit run_seconds = {seconds:g} was reached; the unfinished work was stopped."
            )
            return End(reason=Reason.LIMIT, limit="run_seconds", detail=detail)

    async def _work(
        self, clock: asyncio.Timeout
    ) -> End | RequestDeferred | tuple[ApprovalRequest, ...]:
        last_turn: ModelTurn | None = None
        started = time.monotonic() - self._readings.seconds
        while True:
            self._readings.seconds = time.monotonic() - started
            if stop := await self._messages.receive():
                return End(reason=Reason.CANCELLED, detail=describe_stop(stop))
            tail = read_tail(self._journal.canisters)
            if self._user_messages and not (
                tail.pending_calls or tail.is_paused or self._has_answer()
            ):
                # More messages may arrive during the append.
                messages, self._user_messages = self._user_messages, []
                await self._journal.append(messages)
                last_turn = None
                continue
            if tail.pending_calls and not tail.is_broken_off:  # before its calls are prepared
                await examine_pending(tail.pending_calls, self._registry, self._record)
            situation = find_situation(
                self._journal.canisters, tail, self._registry, self._record, last_turn=last_turn
            )
            command = decide(situation, self._readings, self._limits)
            await self._enter(command)
            match command:
                case End():
                    return command
                case Await():
                    paused, deadline = time.monotonic(), clock.when()
                    clock.reschedule(None)  # waiting for people does not count
                    if unanswered := await self._gate.ask(command.calls):
                        return unanswered
                    waited = time.monotonic() - paused
                    started += waited
                    assert deadline is not None
                    clock.reschedule(deadline + waited)
                case Execute():
                    await self._executor.execute(command.calls)
                case Generate():
                    try:
                        last_turn = await self._ask(command, last_turn)
                    except RequestDeferred as deferred:
                        if not self._has_answer():  # else the answer arrived during the write
                            return deferred

    def _has_answer(self) -> bool:
        """Return whether the answer to a deferred request has arrived; it is handled first."""
        canisters = self._journal.canisters
        return bool(canisters) and canisters[-1].id in self._record.answers

    def _on_event(self, event: LogEvent) -> None:
        """Handle an event from the inbox; a user message waits until no result is missing."""
        if not isinstance(event, MessageReceivedEvent):
            self._record.add(event)
            self._gate.cancel_if_answered()
        elif event.canister.id not in [each.id for each in self._user_messages]:
            self._user_messages.append(event.canister)

    async def _enter(self, command: Command) -> None:
        state = STATES[type(command)]
        if state is not self._state:
            self._state = state
            event = StateEnteredEvent(state=state.value, turn=self._readings.steps)
            # Written together with the next event, which follows at once. Not with several calls,
            # which emit their events in separate tasks.
            is_shared = isinstance(command, Execute) and len(command.calls) > 1
            await self._context.emit(event, soon=not is_shared)

    async def _ask(self, command: Generate, previous: ModelTurn | None) -> ModelTurn:
        """Ask the model once, and describe its turn."""
        response = await self._generator.generate(command, self._readings.steps + 1)
        self._readings.steps += 1
        metadata, count = response.metadata, len(response.canisters)
        shortfall = find_shortfall(response.canisters, metadata.origin, metadata.native)
        if count and shortfall is None:
            return USUAL_TURN
        failures = (0 if previous is None else previous.failures) + 1
        has_failed = shortfall is not None and shortfall.reason == "failed"
        return ModelTurn(
            canisters=count, shortfall=shortfall, failures=failures if has_failed else 0
        )

    async def _recover(self) -> None:
        """Continue where an earlier run was cut off.

        Add the messages that the earlier run received to this run, and record the outcome of its
        last generation.
        """
        known_ids = {canister.id for canister in self._journal.canisters}
        self._user_messages = [
            event.canister
            for event in self._context.survey()
            if isinstance(event, MessageReceivedEvent) and event.canister.id not in known_ids
        ]
        started = self._record.generation
        if started is None:
            return
        canisters = self._journal.canisters
        position = next((i for i, each in enumerate(canisters) if each.id == started.key), None)
        later = () if position is None else canisters[position + 1 :]
        # An earlier response may have broken off at this place: it does not answer this request.
        stored = [each for each in later if each.id not in self._record.broken]
        finished = describe_stored(started, stored[: find_end(stored)], self._price)
        queued = self._record.queued.get(started.key)
        if finished is None and queued is not None and queued.model == self._address:
            return  # the next request receives this response
        if self._adds_usage:  # the readings of earlier runs do not include this generation
            self._readings.steps += 1
        if finished is not None:
            if self._adds_usage:
                self._readings.count(finished.usage, finished.cents)
            await self._context.emit(finished)
            return
        self._doubted = 1
        await self._context.emit(
            GenerationDoubtedEvent(key=started.key, turn=started.turn, model=started.model)
        )

    def _is_handed_over(self) -> bool:
        """Return whether a cancelled run has no end yet: the next worker resumes it."""
        is_stopped = self._messages.stop is not None
        is_over = self._clock is not None and self._clock.expired()
        return bool(self._temporary_errors) and not is_stopped and not is_over

    async def _defer(self, deferred: RequestDeferred) -> None:
        await self._suspend(())
        assert self._deferral_backend is not None
        # Last: its answer is a message to a suspended run.
        self._deferral_backend.put(self._journal.conversation_id, deferred.request)

    async def _suspend(self, requests: tuple[ApprovalRequest, ...]) -> None:
        digests = tuple(request.digest for request in requests)
        event = RunSuspendedEvent(run_id=self._context.run_id, digests=digests)
        await self._context.emit(event, durable=True)
        self.ending = attrs.evolve(self._compose_ending(State.AWAIT), requests=requests)

    async def _conclude(self, end: End, error: ConverseError | None = None) -> None:
        await self._enter(end)
        if end.shortfall is not None and end.reason is Reason.FAILED:
            error = produce_error(end.shortfall)
        event = RunEndedEvent(
            run_id=self._context.run_id,
            reason=end.reason.value,
            detail=end.detail,
            limit=end.limit,
            error=error,
            readings=self._readings.export(),
            settles=self._is_settled(),
        )
        await self._context.emit(event)
        self.ending = attrs.evolve(
            self._compose_ending(State.TERMINATE),
            reason=end.reason,
            detail=end.detail,
            limit=end.limit,
            error=error,
            final=end.final,
            shortfall=end.shortfall,
        )

    def _is_settled(self) -> bool:
        """Return whether the next run of the conversation needs nothing from the log."""
        canisters = self._journal.canisters
        record = self._record
        is_open = self._user_messages or record.has_standing_answers or record.queued
        if is_open or self._has_answer() or not canisters:
            return False
        return not read_tail(canisters).pending_calls

    def _compose_ending(self, state: State) -> RunEnding:
        return RunEnding(
            state=state,
            doubted=self._doubted,
            readings=self._readings,
            losses=tuple(self._generator.losses),
            summaries=self._generator.summaries,
        )
