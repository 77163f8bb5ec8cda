"""Driver of flows: performs the commands of the machine until it decides to stop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import attrs

from vibe_llms.engine.contexts import RunContext
from vibe_llms.engine.run_messages import RunMessages, describe_stop, produce_handover
from vibe_llms.events.flow import FlowEndedEvent, FlowEvent, FlowStartedEvent, NodeFinishedEvent
from vibe_llms.events.runs import StopRequestedEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.flows.budgets import produce_limit_error
from vibe_llms.flows.debugging import enable_logging, log_event
from vibe_llms.flows.machine import Pass, Stop, VisitNode, decide
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import Branch, FlowState
from vibe_llms.flows.verifying import FlowOutcome, GoalVerification, Verdict, verify
from vibe_llms.flows.visit_execution import Rest, VisitPerformer
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.portal import finish

POLL_SECONDS: Final = 0.5
"""Interval at which waiting visits are checked for answers while others work."""

_PASSES_BETWEEN_PAUSES: Final = 64
"""Number of nodes without work after which the event loop runs other tasks."""


@define(kw_only=True, eq=False)
class FlowDriver:
    """Run of a flow; use it once.

    Attributes:
        state: State of the run; updated.
        context: Log and messages of the run.
        performer: Performs visits.
        config: Limits of the run.
        answer: Adds the last response to the conversation, before the log records the end.
        temporary_errors: Errors that are raised without ending the run, so that it can be resumed.
    """

    state: FlowState
    context: RunContext
    performer: VisitPerformer
    config: AdapterConfig
    answer: Callable[[], Awaitable[None]]
    temporary_errors: tuple[type[ConverseError], ...] = ()
    _working: dict[int, asyncio.Task[NodeFinishedEvent | Rest]] = attrs.field(factory=dict)
    _occupied: set[int] = attrs.field(factory=set)
    _resting: dict[int, Rest] = attrs.field(factory=dict)
    _messages: RunMessages = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        # Messages and answers to requests go to the visits themselves.
        self._messages = RunMessages(self.context, lambda _: None)

    async def drive(self, started: FlowStartedEvent, before: Sequence[FlowEvent] = ()) -> None:
        """Run the flow until it ends or is suspended.

        Args:
            started: First event of the run.
            before: Visits of another run, which this one continues.

        Raises:
            CancelledError: The run was cancelled; the log records its progress.
            StoreError: The log cannot be written.
            ConverseError: One of the errors that do not end the run.
        """
        if self.config.debug_mode:
            enable_logging()
        for event in (started, *before):
            await self._emit(event)
        verification: GoalVerification | None = None
        try:
            async with self._messages.bound(self.config.timeout_ms / 1000) as clock:
                rest = await self._work()
                if rest.reason == "ended":
                    verification = await self._verify()
        except TimeoutError as error:
            if not clock.expired():
                await self._end(Rest(reason="failed", detail=repr(error)), None)
                raise
            stop = self._messages.stop
            rest = _describe_stopped(stop) if stop else self._rest_at_limit("timeout_ms")
        except ConverseError as error:
            rest = Rest(reason="failed", detail=str(error), error=error)
        except asyncio.CancelledError:
            stop = await self._messages.receive_last()  # before the end that it caused
            if stop is None and self.temporary_errors:  # no end yet: the next worker resumes it
                await self.context.emit(produce_handover())
                raise
            await self._end(_describe_stopped(stop) if stop else Rest(reason="cancelled"), None)
            raise
        except Exception as error:
            await self._end(Rest(reason="failed", detail=repr(error)), None)
            raise
        if isinstance(rest.error, self.temporary_errors):
            raise rest.error
        if rest.reason == "ended":
            await self.answer()
        await self._end(rest, verification)

    async def _work(self) -> Rest:
        working, occupied, state = self._working, self._occupied, self.state
        passed = 0
        try:
            while True:
                if stop := await self._messages.receive():
                    return _describe_stopped(stop)
                match decide(state, occupied, self.config.max_iterations):
                    case Pass(event):
                        await self._emit(event)
                        passed += 1
                        if passed % _PASSES_BETWEEN_PAUSES == 0:
                            await asyncio.sleep(0)
                    case VisitNode() as visit:
                        task = asyncio.create_task(self._visit(visit))
                        working[visit.branch.number] = task
                        occupied.add(visit.branch.number)
                    case Stop(limit, node) if not working:
                        return self._rest_at_limit(limit, node) if limit else Rest(reason="ended")
                    case None if not working:
                        return _combine_rests([*self._resting.values()])
                    case _:  # visits in progress are billed: let them end
                        if rest := await self._await_visits():
                            return rest
        finally:
            for task in working.values():
                task.cancel()
            await finish(asyncio.gather(*working.values(), return_exceptions=True))

    async def _await_visits(self) -> Rest | None:
        """Wait for visits to end and continue there; return why the flow cannot continue."""
        patience = POLL_SECONDS if self._resting else None
        done, _ = await asyncio.wait(
            self._working.values(), return_when=asyncio.FIRST_COMPLETED, timeout=patience
        )
        await self._resume_answered()
        failed: Rest | None = None
        for number in [number for number, task in self._working.items() if task in done]:
            result = self._working.pop(number).result()
            if isinstance(result, NodeFinishedEvent):
                self._occupied.discard(number)
                await self._emit(result)
            elif result.reason == "failed":
                failed = failed or result
            else:
                self._resting[number] = result  # other branches continue
        return failed

    async def _resume_answered(self) -> None:
        """Continue branches whose waiting visits were answered."""
        for number, rest in tuple(self._resting.items()):
            if rest.reason == "waiting" and await self.performer.is_answered(number):
                del self._resting[number]
                self._occupied.discard(number)

    async def _visit(self, visit: VisitNode) -> NodeFinishedEvent | Rest:
        """Visit a node; return where the flow continues, or why it cannot."""
        try:
            return await self.performer.perform(visit, self._emit)
        except ConverseError as error:
            return Rest(reason="failed", node=visit.node.id, detail=str(error), error=error)

    async def _verify(self) -> GoalVerification:
        state, performer = self.state, self.performer
        end = state.flow.ends[0]
        visit = VisitNode(Branch(0, end, state.visits[end]), state.flow.nodes[end])
        outcome = FlowOutcome(
            response=state.final or "",
            category=state.category,
            transitions=len(state.path),
            responses=state.responses,
            variables=performer.variables,
        )
        numbers = itertools.count()

        async def judge(question: str, schema: JsonObject) -> JsonValue:
            ask = performer.produce_judge(visit, f"condition/{next(numbers)}", self._emit)
            return await ask(question, schema)

        return await verify(
            performer.check.task.goal,
            outcome,
            require_all=self.config.require_all_conditions,
            predicates=performer.predicates,
            judge=judge,
            rules=performer.check.task.categories,
        )

    def _rest_at_limit(self, limit: str, node: str = "") -> Rest:
        error = produce_limit_error(limit, self.config)
        return Rest(reason="limit", limit=limit, node=node, detail=str(error), error=error)

    async def _end(self, rest: Rest, verification: GoalVerification | None) -> None:
        event = FlowEndedEvent(
            run_id=self.context.run_id,
            **attrs.asdict(rest, recurse=False),
            goal_met=None if verification is None else verification.is_met,
            verdicts=tuple(map(_export_verdict, verification.verdicts)) if verification else (),
            **attrs.asdict(self.performer.visitor.budget.open, recurse=False),
        )
        await self._emit(event, durable=True)

    async def _emit(self, event: FlowEvent, *, durable: bool = False) -> None:
        self.state.apply(event)
        if self.config.debug_mode:
            log_event(event, self.state.flow)
        await self.context.emit(event, durable=durable)


def _describe_stopped(stop: StopRequestedEvent) -> Rest:
    return Rest(reason="cancelled", detail=describe_stop(stop))


def _combine_rests(resting: Sequence[Rest]) -> Rest:
    """Return why no branch of a flow can continue: a limit, or all that it waits for."""
    reached = [rest for rest in resting if rest.reason == "limit"]
    if reached or len(resting) == 1:
        return (reached or resting)[0]
    detail = " ".join(f"{rest.node}: {rest.detail}" for rest in resting)
    return Rest(reason="waiting", detail=detail)


def _export_verdict(verdict: Verdict) -> JsonObject:
    condition = verdict.condition
    return {
        "description": condition.description,
        "evaluation_type": condition.evaluation_type.value,
        "is_met": verdict.is_met,
        "confidence": verdict.confidence,
        "evidence": verdict.evidence,
    }
