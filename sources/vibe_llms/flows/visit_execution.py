"""Visit of a node: the rendered prompt or call, the category of its response, the next edges."""

from __future__ import annotations

import asyncio
import functools
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, cast

import attrs

from vibe_llms.events.flow import (
    FlowReason,
    LogEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
    VisitEvent,
)
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import (
    ConverseError,
    LimitError,
    Stage,
    StoreError,
    UnknownNameError,
)
from vibe_llms.flows.budgets import BUDGETS
from vibe_llms.flows.categorizing import Category, categorize
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.graphs import WORKING_KINDS, Exits, FlowNode, NodeKind
from vibe_llms.flows.interpolation import Template, TemplateScope, render_template
from vibe_llms.flows.invoking import adapt_arguments, render_arguments
from vibe_llms.flows.judging import Judge
from vibe_llms.flows.machine import VisitNode, choose, escape, find_round
from vibe_llms.flows.predicates import Predicates
from vibe_llms.flows.registry_contents import RegistryContents, survey_contents
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.subflows import INPUT
from vibe_llms.flows.tasks import CONTENT
from vibe_llms.flows.visiting import Listener, Visitor, VisitOutcome
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.identities import produce_identity
from vibe_llms.plugins.specification.flows import PredicateContext
from vibe_llms.runs.surveying import read_summary


class RunSubflow(Protocol):
    """Function that runs another task as part of this one."""

    async def __call__(
        self,
        visit: VisitNode,
        conversation_id: str,
        variables: Mapping[str, JsonValue],
        listener: Listener,
    ) -> VisitOutcome:
        """Run the task of a subflow node, in a conversation of its own."""


class EmitStart(Protocol):
    """Function that records the start of a visit before anything is sent."""

    async def __call__(self, event: NodeStartedEvent, *, durable: bool) -> None:
        """Record the start."""


@frozen(kw_only=True)
class Rest:
    """Reason why a flow is suspended, or fails."""

    reason: FlowReason
    node: str = ""
    limit: str = ""
    detail: str = ""
    error: ConverseError | None = None


@define(kw_only=True, eq=False, slots=False)
class VisitPerformer:
    """Performer of the visits of one run of a flow.

    Attributes:
        check: Validated task.
        state: State of the run.
        visitor: Asks models and invokes tools.
        run_subflow: Runs the tasks of subflow nodes.
        config: Limits of the run.
        variables: Values for ``{{name}}``.
        contents: Contents of registry entries that prompts use.
        predicates: Predicates of plugins.
        listener: Receives events within visits.
    """

    check: TaskCheck
    state: FlowState
    visitor: Visitor
    run_subflow: RunSubflow
    config: AdapterConfig
    variables: Mapping[str, JsonValue]
    contents: RegistryContents
    predicates: Predicates
    listener: Callable[[VisitEvent], object] | None = None

    async def perform(self, visit: VisitNode, emit: EmitStart) -> NodeFinishedEvent | Rest:
        """Perform a visit; return where the flow continues, or why it cannot."""
        outcome = VisitOutcome()
        if visit.node.kind in WORKING_KINDS:
            identity = await self.begin(visit, "", emit)
            outcome = await self._do_work(visit, identity)
            if outcome.waits:
                return Rest(reason="waiting", node=visit.node.id, detail=outcome.waits)
        return await self._conclude(visit, outcome, emit)

    async def _do_work(self, visit: VisitNode, identity: str) -> VisitOutcome:
        node, branch, visitor = visit.node, visit.branch, self.visitor
        listener = self._listen(visit)
        try:
            scope = await self._compose_scope(visit)
            if node.kind is NodeKind.TOOL:
                invocation = self.check.invocations[node.id]
                arguments = render_arguments(invocation, scope)
                with suppress(UnknownNameError):  # the visitor reports it
                    schema = visitor.registry.access(invocation.tool).schema
                    arguments = adapt_arguments(invocation, arguments, schema)
                return await visitor.invoke(identity, invocation.tool, arguments, listener)
            if node.kind is NodeKind.SUBFLOW:
                variables = {**self.variables, INPUT: branch.response}
                return await self.run_subflow(visit, identity, variables, listener)
            index = cast("int", node.prompt)
            message, instructions = render_template(self.check.templates[index], scope), ""
            if self.check.task.prompts[index].role == "system":
                message, instructions = branch.response or self.check.task.goal.description, message
            is_resumed = self.state.suspended_at == node.id
            return await visitor.ask(
                identity, message, instructions, listener, is_resumed=is_resumed
            )
        except ConverseError as error:
            return VisitOutcome(failure=str(error), error=error)

    async def _conclude(
        self, visit: VisitNode, outcome: VisitOutcome, emit: EmitStart
    ) -> NodeFinishedEvent | Rest:
        """Return where the flow continues after a visit, or why it cannot."""
        node, exits = visit.node, self.state.flow.exits[visit.node.id]
        category, edges = None, exits.onward
        detail, limit, error = outcome.failure, outcome.limit, outcome.error
        if limit in BUDGETS:  # another visit would cost more
            edges = ()
        elif outcome.failure or (limit and exits.limit):
            edges = escape(exits, is_limit=bool(limit))
            detail = detail or f"The limit {limit} was reached."
        elif exits.choices:
            message = visit.branch.response if outcome.response is None else outcome.response
            try:
                category = await self._categorize(visit, message, exits, emit)
            except LimitError as caught:
                edges, detail, limit, error = (), str(caught), caught.limit, caught
            except ConverseError as caught:
                edges, detail, error = escape(exits, is_limit=False), str(caught), caught
            else:
                edges = choose(exits, category.name)
                if not edges:
                    edges = escape(exits, is_limit=False)
                    detail = f"{category.evidence} {node.id} has no edge for it."
        if not edges:
            reason: FlowReason = "limit" if limit else "failed"
            if error is None and not limit:
                error = ConverseError(detail=detail, stage=Stage.EXECUTE)
            return Rest(reason=reason, node=node.id, limit=limit, detail=detail, error=error)
        conversations = self.state.open_conversations.get(visit.branch.number, {}).values()
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
            **attrs.asdict(self.visitor.budget.settle(conversations), recurse=False),
        )

    async def _categorize(
        self, visit: VisitNode, message: str, exits: Exits, emit: EmitStart
    ) -> Category:
        return await categorize(
            message,
            tuple(dict.fromkeys(edge.label for edge in exits.choices)),
            self.check.task.categories,
            predicates=self.predicates,
            judge=self.produce_judge(visit, "category", emit),
            context=PredicateContext(variables=self.variables, responses=self.state.responses),
        )

    def produce_judge(self, visit: VisitNode, purpose: str, emit: EmitStart) -> Judge:
        """Return a function that asks the model in a separate, resumable conversation."""

        async def judge(question: str, schema: JsonObject) -> JsonValue:
            identity = await self.begin(visit, purpose, emit)
            return await self.visitor.judge(identity, question, schema, self._listen(visit))

        return judge

    async def begin(self, visit: VisitNode, purpose: str, emit: EmitStart) -> str:
        """Return the conversation of a visit; it is recorded before anything is sent."""
        conversations = self.state.open_conversations.get(visit.branch.number, {}).get(purpose)
        if conversations is not None:
            return conversations
        event = NodeStartedEvent(
            node=visit.node.id,
            visit=visit.number,
            branch=visit.branch.number,
            conversation_id=produce_identity(),
            purpose=purpose,
        )
        # The record of an invocation must survive a power failure.
        await emit(event, durable=True)
        return event.conversation_id

    async def is_answered(self, branch: int) -> bool:
        """Tell whether a waiting visit of a branch has received a message."""
        store = self.visitor.store
        conversations = self.state.open_conversations.get(branch, {}).values()
        if store is None or not store.keeps_logs:
            return False
        for identity in tuple(conversations):
            with suppress(StoreError):  # its conversation is not stored yet
                summary = await asyncio.to_thread(read_summary, store, identity)
                if summary.state == "due":
                    return True
        return False

    def _listen(self, visit: VisitNode) -> Listener:
        def on_event(event: LogEvent | StreamEvent) -> None:
            if self.listener is not None:
                self.listener(
                    VisitEvent(
                        node=visit.node.id,
                        visit=visit.number,
                        branch=visit.branch.number,
                        event=event,
                    )
                )

        return on_event

    async def _compose_scope(self, visit: VisitNode) -> TemplateScope:
        names = survey_contents(self._survey_templates(visit.node))
        contents = await self.contents.acquire(names)
        fields = self._fields
        loaded: dict[str, Mapping[str, str]] = {
            name: {**fields[name], CONTENT: text} for name, text in contents.items()
        }
        return TemplateScope(
            variables=self.variables,
            registry=ChainMap(loaded, fields),
            responses=ChainMap(self.state.responses, self._no_responses),
            loop=find_round(visit.branch, self.state, self.config.max_iterations),
        )

    @functools.cached_property
    def _fields(self) -> dict[str, Mapping[str, str]]:
        """Fields of the registry entries for templates, without their contents."""
        entries = self.check.task.resource_registry.entries
        return {entry.name: {**entry.survey_fields(), CONTENT: ""} for entry in entries}

    @functools.cached_property
    def _no_responses(self) -> dict[str, str]:
        """Empty responses for all nodes; the check has warned about their use."""
        return dict.fromkeys(self.state.flow.nodes, "")

    def _survey_templates(self, node: FlowNode) -> Sequence[Template]:
        """Return the templates that a visit of a node renders."""
        if node.prompt is not None:
            return [self.check.templates[node.prompt]]
        invocation = self.check.invocations.get(node.id)
        values = () if invocation is None else invocation.arguments.values()
        return [value for value in values if isinstance(value, Template)]
