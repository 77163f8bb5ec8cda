"""The driver of flows: performs what the machine decides, until it decides to stop."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, cast

import attrs

from vibe_llms.engine.contexts import RunContext
from vibe_llms.events.codec import decode_event, encode_event
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowEvent,
    FlowReason,
    FlowStartedEvent,
    LogEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
    VisitEvent,
)
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.flows.categorizing import Category, categorize
from vibe_llms.flows.checking import TaskCheck
from vibe_llms.flows.contents import RegistryContents, survey_contents
from vibe_llms.flows.graphs import Exits, FlowNode, NodeKind
from vibe_llms.flows.interpolation import Template, TemplateScope, render_template
from vibe_llms.flows.invoking import render_arguments
from vibe_llms.flows.judging import Judge
from vibe_llms.flows.machine import ENGAGED, Pass, Stop, Visit, choose, decide, escape, find_round
from vibe_llms.flows.predicates import Predicates
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import Branch, FlowState
from vibe_llms.flows.subflows import INPUT
from vibe_llms.flows.tasks import CONTENT
from vibe_llms.flows.verifying import FlowOutcome, GoalVerification, Verdict, verify
from vibe_llms.flows.visiting import Listener, Spending, Visitor, VisitOutcome
from vibe_llms.messages.identities import produce_identity
from vibe_llms.plain import JsonObject, JsonValue
from vibe_llms.plugins.specification.flows import PredicateContext
from vibe_llms.values import define, frozen

VISIT: Final = "flow.visit"
_BREATH: Final = 64
"""After so many nodes that do nothing, others in the event loop have their turn."""

_logger = logging.getLogger("vibe_llms.flows")


class RunSubflow(Protocol):
    """Runs another task as a part of this one."""

    async def __call__(
        self,
        visit: Visit,
        conversation_id: str,
        variables: Mapping[str, JsonValue],
        listener: Listener,
    ) -> VisitOutcome:
        """Runs the task that a node names, in a conversation of its own."""


@frozen(kw_only=True)
class _Rest:
    """Why a flow comes to rest before its end."""

    reason: FlowReason
    node: str = ""
    limit: str = ""
    detail: str = ""
    error: ConverseError | None = None


@define(kw_only=True, eq=False)
class FlowDriver:
    """One run of a flow; it serves once.

    Attributes:
        check: The task, looked at and found right.
        state: Where the run stands; goes on.
        context: Where visits are performed, and the log.
        visitor: Performs what visits do.
        run_subflow: Runs what subflow nodes name.
        config: What bounds the run.
        variables: For ``{{name}}``.
        contents: Of the registry's entries, as far as prompts put them in.
        predicates: Of the plugins.
        tell: Hears of what happens within visits.
        spending: Of visits that were not finished, and of looking at the goal.
    """

    check: TaskCheck
    state: FlowState
    context: RunContext
    visitor: Visitor
    run_subflow: RunSubflow
    config: AdapterConfig
    variables: Mapping[str, JsonValue]
    contents: RegistryContents
    predicates: Predicates
    tell: Callable[[VisitEvent], object] | None = None
    spending: Spending = Spending()
    _working: dict[int, asyncio.Task[NodeFinishedEvent | _Rest]] = attrs.field(factory=dict)
    _held: set[int] = attrs.field(factory=set)
    _waiting: list[_Rest] = attrs.field(factory=list)

    async def drive(
        self, started: FlowStartedEvent, before: Sequence[FlowEvent] = ()
    ) -> FlowEndedEvent:
        """Goes on until the flow has ended, or comes to rest for another reason.

        Args:
            started: What the run begins with.
            before: Visits of another run, from which this one goes on.

        Raises:
            CancelledError: It was cancelled; the log says how far it was.
        """
        self.context.register({VISIT: self._perform})
        for event in (started, *before):
            await self._emit(event)
        verification: GoalVerification | None = None
        try:
            async with asyncio.timeout(self.config.timeout_ms / 1000) as clock:
                rest = await self._work()
                if rest.reason == "ended":
                    verification = await self._verify()
        except TimeoutError:
            if not clock.expired():
                raise
            detail = f"The limit timeout_ms = {self.config.timeout_ms} was reached."
            rest = _Rest(reason="limit", limit="timeout_ms", detail=detail)
        except ConverseError as error:
            rest = _Rest(reason="failed", detail=str(error), error=error)
        except asyncio.CancelledError:
            await self._rest(_Rest(reason="cancelled"), None)
            raise
        return await self._rest(rest, verification)

    async def _work(self) -> _Rest:
        working, held, state = self._working, self._held, self.state
        passed = 0
        try:
            while True:
                match decide(state, held, self.config.max_iterations):
                    case Pass(event):
                        await self._emit(event)
                        passed += 1
                        if passed % _BREATH == 0:
                            await asyncio.sleep(0)
                    case Visit() as visit:
                        if rest := self._find_spent(visit):
                            return rest
                        task = asyncio.create_task(self._visit(visit))
                        working[visit.branch.number] = task
                        held.add(visit.branch.number)
                    case Stop() as stop:
                        return self._explain(stop)
                    case None if working:
                        if rest := await self._await_visits():
                            return rest
                    case None:
                        return self._waiting[0]
        finally:
            for task in working.values():
                task.cancel()
            await asyncio.gather(*working.values(), return_exceptions=True)

    async def _await_visits(self) -> _Rest | None:
        """Goes on where the first visits have ended; returns why the flow cannot."""
        done, _ = await asyncio.wait(self._working.values(), return_when=asyncio.FIRST_COMPLETED)
        for number in [number for number, task in self._working.items() if task in done]:
            result = self._working.pop(number).result()
            if isinstance(result, NodeFinishedEvent):
                self._held.discard(number)
                await self._emit(result)
            elif result.reason == "waiting":
                self._waiting.append(result)  # others go on as far as they can
            else:
                return result
        return None

    async def _visit(self, visit: Visit) -> NodeFinishedEvent | _Rest:
        node = visit.node
        if node.kind not in ENGAGED:
            return await self._conclude(visit, VisitOutcome())
        arguments: JsonObject = {
            "branch": visit.branch.number,
            "node": node.id,
            "visit": visit.number,
            "conversation_id": await self._begin(visit, ""),
        }
        try:
            receipt = await self.context.step(VISIT, arguments, key=f"{node.id}/{visit.number}")
        except ConverseError as error:
            return _Rest(reason="failed", node=node.id, detail=str(error), error=error)
        if "waits" in receipt:
            return _Rest(reason="waiting", node=node.id, detail=str(receipt["waits"]))
        if "limit" in receipt:
            limit, detail = str(receipt["limit"]), str(receipt["detail"])
            return _Rest(reason="limit", node=node.id, limit=limit, detail=detail)
        event = decode_event(str(receipt["event"]))
        assert isinstance(event, NodeFinishedEvent)
        return event

    async def _perform(self, arguments: JsonObject) -> JsonObject:
        """Performs a visit, as a step; says which way the flow goes on from there."""
        branch = self.state.branches[cast("int", arguments["branch"])]
        node = self.check.access_flow().nodes[str(arguments["node"])]
        visit = Visit(branch, node)
        outcome = await self._engage(visit, str(arguments["conversation_id"]))
        if outcome.waits:
            return {"waits": outcome.waits}
        result = await self._conclude(visit, outcome)
        if isinstance(result, NodeFinishedEvent):
            return {"event": encode_event(result).decode()}
        if result.limit:
            return {"limit": result.limit, "detail": result.detail}
        raise result.error or ConverseError(detail=result.detail, stage=Stage.EXECUTE)

    async def _engage(self, visit: Visit, identity: str) -> VisitOutcome:
        node, branch, visitor = visit.node, visit.branch, self.visitor
        listener = self._listen(visit)
        try:
            scope = await self._compose_scope(visit)
            if node.kind is NodeKind.TOOL:
                invocation = self.check.invocations[node.id]
                arguments = render_arguments(invocation, scope)
                return await visitor.invoke(identity, invocation.tool, arguments, listener)
            if node.kind is NodeKind.SUBFLOW:
                given = {**self.variables, INPUT: branch.response}
                return await self.run_subflow(visit, identity, given, listener)
            index = cast("int", node.prompt)
            said, instructions = render_template(self.check.templates[index], scope), ""
            if self.check.task.prompts[index].role == "system":
                said, instructions = branch.response or self.check.task.goal.description, said
            return await visitor.ask(identity, said, instructions, listener)
        except ConverseError as error:
            return VisitOutcome(failure=str(error), error=error)

    async def _conclude(self, visit: Visit, outcome: VisitOutcome) -> NodeFinishedEvent | _Rest:
        """Finds out where the flow goes on after a visit; or why it cannot."""
        node, exits = visit.node, self.state.flow.exits[visit.node.id]
        spending, category = outcome.spending, None
        detail, error = outcome.failure, outcome.error
        if outcome.failure or (outcome.limit and exits.limit):
            edges = escape(exits, is_limit=bool(outcome.limit))
            detail = detail or f"The limit {outcome.limit} was reached."
        elif exits.choices:
            said = visit.branch.response if outcome.response is None else outcome.response
            try:
                category, cost = await self._categorize(visit, said, exits)
            except ConverseError as caught:
                edges, detail, error = escape(exits, is_limit=False), str(caught), caught
            else:
                spending += cost
                edges = choose(exits, category.name)
                if not edges:
                    edges = escape(exits, is_limit=False)
                    detail = f"{category.evidence} {node.id} has no edge for that."
        else:
            edges = exits.onward
        if not edges:
            self.spending += spending
            reason: FlowReason = "limit" if outcome.limit else "failed"
            return _Rest(
                reason=reason, node=node.id, limit=outcome.limit, detail=detail, error=error
            )
        return NodeFinishedEvent(
            node=node.id,
            visit=visit.number,
            branch=visit.branch.number,
            edges=edges,
            response=outcome.response,
            category=category.name if category else "",
            confidence=category.confidence if category else 1.0,
            evidence=category.evidence if category else "",
            detail=detail,
            **attrs.asdict(spending, recurse=False),
        )

    async def _categorize(self, visit: Visit, said: str, exits: Exits) -> tuple[Category, Spending]:
        spent: list[Spending] = []
        category = await categorize(
            said,
            tuple(dict.fromkeys(edge.label for edge in exits.choices)),
            self.check.task.categories,
            predicates=self.predicates,
            judge=self._produce_judge(visit, "category", spent),
            context=self._compose_context(),
        )
        return category, sum(spent, Spending())

    async def _verify(self) -> GoalVerification:
        state, spent = self.state, list[Spending]()
        end = state.flow.ends[0]
        visit = Visit(Branch(0, end, state.visits[end]), state.flow.nodes[end])
        outcome = FlowOutcome(
            response=state.final or "",
            category=state.category,
            transitions=len(state.path),
            responses=state.responses,
            variables=self.variables,
        )
        numbers = itertools.count()

        async def judge(question: str, schema: JsonObject) -> JsonValue:
            ask = self._produce_judge(visit, f"condition/{next(numbers)}", spent)
            return await ask(question, schema)

        try:
            return await verify(
                self.check.task.goal,
                outcome,
                require_all=self.config.require_all_conditions,
                predicates=self.predicates,
                judge=judge,
                rules=self.check.task.categories,
            )
        finally:
            self.spending = sum(spent, self.spending)

    def _produce_judge(self, visit: Visit, purpose: str, spent: list[Spending]) -> Judge:
        """Makes what asks the model in a conversation of its own, which is taken up again."""

        async def judge(question: str, schema: JsonObject) -> JsonValue:
            identity = await self._begin(visit, purpose)
            listener = self._listen(visit)
            value, cost = await self.visitor.judge(identity, question, schema, listener)
            spent.append(cost)
            return value

        return judge

    async def _begin(self, visit: Visit, purpose: str) -> str:
        """Returns the conversation of a visit, which is written down before anything is sent."""
        known = self.state.begun.get((visit.branch.number, purpose))
        if known is not None:
            return known
        event = NodeStartedEvent(
            node=visit.node.id,
            visit=visit.number,
            branch=visit.branch.number,
            conversation_id=produce_identity(),
            purpose=purpose,
        )
        # What an invocation did must be found again also when the power fails.
        await self._emit(event, durable=True)
        return event.conversation_id

    def _listen(self, visit: Visit) -> Listener:
        def hear(event: LogEvent | StreamEvent) -> None:
            if self.tell is not None:
                self.tell(
                    VisitEvent(
                        node=visit.node.id,
                        visit=visit.number,
                        branch=visit.branch.number,
                        event=event,
                    )
                )

        return hear

    async def _compose_scope(self, visit: Visit) -> TemplateScope:
        state, task = self.state, self.check.task
        wanted = survey_contents(self._survey_templates(visit.node))
        contents = await self.contents.acquire(wanted)
        registry = {
            entry.name: {**entry.survey_fields(), CONTENT: contents.get(entry.name, "")}
            for entry in task.resource_registry.entries
        }
        return TemplateScope(
            variables=self.variables,
            registry=registry,
            # What was not said yet is empty: the check has warned of it.
            responses={**dict.fromkeys(state.flow.nodes, ""), **state.responses},
            loop=find_round(visit.branch, state, self.config.max_iterations),
        )

    def _survey_templates(self, node: FlowNode) -> Sequence[Template]:
        """Returns the templates that a visit of a node renders."""
        if node.prompt is not None:
            return [self.check.templates[node.prompt]]
        invocation = self.check.invocations.get(node.id)
        values = () if invocation is None else invocation.arguments.values()
        return [value for value in values if isinstance(value, Template)]

    def _compose_context(self) -> PredicateContext:
        return PredicateContext(variables=self.variables, responses=self.state.responses)

    def _find_spent(self, visit: Visit) -> _Rest | None:
        """Tells which budget is used up before a visit that may cost something."""
        config, state = self.config, self.state
        for limit, used in (
            ("max_requests", state.requests),
            ("max_tokens", state.tokens),
            ("max_cost_cents", state.cost_cents or 0.0),
        ):
            budget = getattr(config, limit)
            if budget is not None and used >= budget and visit.node.kind in ENGAGED:
                return self._explain(Stop(limit=limit, node=visit.node.id))
        return None

    def _explain(self, stop: Stop) -> _Rest:
        if not stop.limit:
            return _Rest(reason="ended")
        detail = (
            f"The limit {stop.limit} = {getattr(self.config, stop.limit)} was reached before "
            f"{stop.node}. Resume the run with a higher one to go on."
        )
        return _Rest(reason="limit", limit=stop.limit, node=stop.node, detail=detail)

    async def _rest(self, rest: _Rest, verification: GoalVerification | None) -> FlowEndedEvent:
        event = FlowEndedEvent(
            run_id=self.context.run_id,
            **attrs.asdict(rest, recurse=False),
            goal_met=None if verification is None else verification.is_met,
            verdicts=tuple(map(_export_verdict, verification.verdicts)) if verification else (),
            **attrs.asdict(self.spending, recurse=False),
        )
        await self._emit(event, durable=True)
        return event

    async def _emit(self, event: FlowEvent, *, durable: bool = False) -> None:
        self.state.apply(event)
        if self.config.debug_mode:
            _logger.debug("%s", event)
        await self.context.emit(event, durable=durable)


def _export_verdict(verdict: Verdict) -> JsonObject:
    condition = verdict.condition
    return {
        "description": condition.description,
        "evaluation_type": condition.evaluation_type.value,
        "is_met": verdict.is_met,
        "confidence": verdict.confidence,
        "evidence": verdict.evidence,
    }
