"""One run of a task: check the task, connect the tools, and drive the flow."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.events.bus import EventBus
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowEvent,
    FlowStartedEvent,
    LogEvent,
    NodeFinishedEvent,
    VisitEvent,
)
from vibe_llms.events.runs import RunRequestedEvent, RunResumedEvent
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    Finding,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.flows.bounds import bound_flow, check_budget
from vibe_llms.flows.budgets import Budget, Spending, read_spending
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.checks import FlowBound, Surroundings, TaskCheck
from vibe_llms.flows.driving import FlowDriver
from vibe_llms.flows.machine import VisitNode
from vibe_llms.flows.model_checks import (
    check_files,
    check_models,
    check_requests,
    check_tools,
)
from vibe_llms.flows.predicates import Predicates, survey_predicates
from vibe_llms.flows.records import find_record, measure_run
from vibe_llms.flows.registry_contents import RegistryContents, survey_private_hosts
from vibe_llms.flows.resources import FlowListener, TaskResources
from vibe_llms.flows.results import AdapterResult, produce_result, refuse
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.task_models import access_model
from vibe_llms.flows.task_reading import TaskReading, examine_task
from vibe_llms.flows.tasks import Task
from vibe_llms.flows.text_sizes import Provision
from vibe_llms.flows.tool_checks import Tools
from vibe_llms.flows.unknown_names import find_unknown_names
from vibe_llms.flows.visit_execution import VisitPerformer
from vibe_llms.flows.visiting import Visitor, VisitOutcome, begin_conversation
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.invocables.pages.getting import PageBounds
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.runs.journals import ConversationJournal
from vibe_llms.runs.opening import ClaimedRun, open_run


@define(eq=False)
class TaskRun:
    """One run of a task.

    Attributes:
        resources: Application, tools and store of the run.
        reading: The task.
        conversation: Conversation of the run.
        variables: Variables in addition to those of the task.
        before: Visits of another run, which this one continues.
        config: Limits of the run.
        listener: Receives events of visits, and events within visits.
        budget: Budget of the run; part of another run's budget if it is a subflow.
        claimed: The run, if its log was already claimed.
        temporary_errors: Errors that do not end the run: the log has no end, and the run can be
            resumed later.
    """

    resources: TaskResources
    reading: TaskReading
    conversation: Conversation
    variables: Mapping[str, JsonValue]
    before: Sequence[NodeFinishedEvent] = attrs.field(default=(), kw_only=True)
    config: AdapterConfig = attrs.field(kw_only=True)
    listener: FlowListener | None = attrs.field(default=None, kw_only=True)
    budget: Budget = attrs.field(kw_only=True)
    claimed: ClaimedRun | None = attrs.field(default=None, kw_only=True)
    temporary_errors: tuple[type[ConverseError], ...] = attrs.field(default=(), kw_only=True)

    @budget.default
    def _produce_budget(self) -> Budget:
        return Budget(self.config)

    async def check(self) -> TaskCheck:
        """Find all mistakes in the task; its tools are connected for that."""
        reading, predicates = await self._survey()
        surroundings = Surroundings(predicates=predicates)
        try:
            async with self._connect(reading.task) as registry:
                surroundings = attrs.evolve(surroundings, tools=_survey_tools(registry))
        except UnknownNameError:
            pass  # already a finding
        except ConverseError as error:
            failure = Finding(place=reading.document.place, message=str(error))
            reading = attrs.evolve(reading, errors=(*reading.errors, failure))
        check = await asyncio.to_thread(check_task, reading, surroundings)
        check = await self._check_requests(check)
        application = self.resources.application
        check = await check_models(check, application, self.config.model)
        check = await check_tools(check, self._connect)
        has_tools = bool(self.resources.tools)
        check = await asyncio.to_thread(check_files, check, has_tools=has_tools)
        if check.errors:
            return check
        # Uses only known data about the model: sends no request and loads nothing.
        address = application.resolve_address(self.config.model or check.task.resource_llm.address)
        attributes = application.catalogue.access_attributes(address)
        bound = await self._bound(check, surroundings.tools or {}, attributes)
        return attrs.evolve(check, bound=bound)

    async def perform(self) -> AdapterResult:
        """Run the task, or the rest of it; if the task has a mistake, nothing is sent."""
        application = self.resources.application
        reading, predicates = await self._survey()
        surroundings = Surroundings(variables=self.variables, predicates=predicates)
        # In a thread: it reads the files of subflows.
        check = await asyncio.to_thread(check_task, reading, surroundings)
        try:
            check.access_flow()  # before connecting to anything
            encode_document(self.variables)  # otherwise a prompt or the log would fail later
            async with self._connect(check.task) as registry:
                surroundings = attrs.evolve(surroundings, tools=_survey_tools(registry))
                # Check again with the connected tools.
                check = await asyncio.to_thread(check_task, reading, surroundings)
                check = await self._check_requests(check)
                check.access_flow()
                llm = check.task.resource_llm
                async with access_model(application, llm, self.config.model) as model:
                    visitor = Visitor(
                        model=model,
                        registry=registry,
                        store=self.resources.store,
                        approver=self.resources.approver,
                        limits=application.configuration.limits,
                        flow_id=self.conversation.id,
                        budget=self.budget,
                        waits=bool(self.temporary_errors),
                    )
                    await self._ensure_budgets(check, visitor)
                    return await self._drive(check, visitor, predicates)
        except ConfigurationError as error:
            return refuse(error.findings, check.warnings)
        except ConverseError as error:
            return refuse((), check.warnings, error)

    async def _check_requests(self, check: TaskCheck) -> TaskCheck:
        """Add findings about requests that the models of the tasks would refuse."""
        application, has_tools = self.resources.application, bool(self.resources.tools)
        model = self.config.model
        return await asyncio.to_thread(
            check_requests, check, application, model, has_tools=has_tools
        )

    async def _survey(self) -> tuple[TaskReading, Predicates]:
        """Return the task with findings about unknown names, and the predicates of plugins."""
        application = self.resources.application
        unknown = find_unknown_names(
            self.reading, application.configuration, uses_own_model=self.config.model is None
        )
        reading = attrs.evolve(self.reading, errors=(*self.reading.errors, *unknown))
        predicates = await asyncio.to_thread(survey_predicates, application.plugins)
        return reading, {**predicates, **self.resources.predicates}

    async def _bound(
        self, check: TaskCheck, tools: Tools, attributes: ModelAttributes
    ) -> FlowBound:
        """Compute the maximum requests, tokens and cost of a run.

        Args:
            tools: Available tools, by name.
            attributes: Attributes of the model.
        """
        application, model = self.resources.application, self.config.model
        provision = Provision(
            max_iterations=self.config.max_iterations,
            attributes=attributes,
            model=None if model is None else str(application.resolve_address(model)),
            tools=tools,
            variables=self.variables,
            limits=application.configuration.limits,
        )
        return await asyncio.to_thread(bound_flow, check, provision)

    async def _ensure_budgets(self, check: TaskCheck, visitor: Visitor) -> None:
        """Raise ConfigurationError if the run could exceed its budgets."""
        config = self.config
        if config.max_requests is config.max_tokens is config.max_cost_cents is None:
            return
        if not config.ensure_budgets:
            return
        descriptor = (await visitor.model.access()).descriptor
        tools = _survey_tools(visitor.registry)
        bound = await self._bound(check, tools, descriptor.attributes)
        if findings := check_budget(bound, config, self.reading):
            raise ConfigurationError(findings=tuple(findings))

    async def _drive(
        self,
        check: TaskCheck,
        visitor: Visitor,
        predicates: Predicates,
    ) -> AdapterResult:
        conversation = self.conversation
        bus = None if self.listener is None else EventBus[FlowEvent | VisitEvent]()
        if bus is not None and self.listener is not None:
            bus.subscribe(self.listener)
        opening = open_run(
            conversation,
            visitor.store,
            run_id=conversation.id,
            listener=cast("Any", bus),
            claimed=self.claimed,
            waits=bool(self.temporary_errors),
        )
        async with opening as (context, journal):
            state = FlowState.fold(check.access_flow(), context.survey())
            await self._restore_budget(state, context.survey())
            performer = VisitPerformer(
                check=check,
                state=state,
                visitor=visitor,
                run_subflow=functools.partial(self._run_subflow, check),
                config=self.config,
                variables={**check.task.variables, **self.variables},
                contents=RegistryContents(
                    registry=check.task.resource_registry,
                    folder=check.task.folder,
                    bounds=PageBounds(
                        schemes=("https",),
                        private_hosts=survey_private_hosts(
                            self.resources.application.configuration
                        ),
                    ),
                ),
                predicates=predicates,
                listener=bus,
            )
            driver = FlowDriver(
                state=state,
                context=context,
                performer=performer,
                config=self.config,
                answer=functools.partial(_answer, state, conversation, journal),
                temporary_errors=self.temporary_errors,
            )
            failure: ConverseError | None = None
            try:
                if state.ending is None or state.ending.reason != "ended":
                    await driver.drive(self._begin(), self.before)
            except ConverseError as error:  # of the store: the responses so far were paid for
                if state.ending is None and not state.path:
                    raise  # the run has not started
                failure = error
        return produce_result(conversation.id, state, check.warnings, failure)

    async def _restore_budget(self, state: FlowState, events: Sequence[LogEvent]) -> None:
        """Set the usage in the budget from the log: that of finished and of interrupted visits.

        A new request of the run resets its limits: earlier usage does not count.
        """
        finished, ending = Spending(), Spending()
        for event in events:
            if isinstance(event, (RunRequestedEvent, RunResumedEvent)):
                finished, self.budget.excluded = Spending(), ending
            elif isinstance(event, FlowEndedEvent):
                ending = read_spending(event)
            elif isinstance(event, NodeFinishedEvent):
                finished += read_spending(event)
        self.budget.settled = sum(map(read_spending, self.before), finished)
        if (store := self.resources.store) is None:
            return
        for conversations in state.open_conversations.values():  # of each branch
            for identity in conversations.values():
                self.budget.note(identity, await asyncio.to_thread(measure_run, store, identity))

    async def _run_subflow(
        self,
        check: TaskCheck,
        visit: VisitNode,
        identity: str,
        variables: Mapping[str, JsonValue],
        listener: FlowListener,
    ) -> VisitOutcome:
        """Run the task of a subflow node as a separate run, or resume that run."""
        record = await asyncio.to_thread(find_record, self.resources.store, identity)
        if record is None:
            place = check.subflows[visit.node.id].task.place
            reading = await asyncio.to_thread(examine_task, place, strict=self.reading.strict)
        else:  # its visits belong to the task as it was; the file may have changed
            reading, variables = record.reading, record.started.variables
        conversation = begin_conversation(reading.task, identity, self.conversation.id)
        if self.resources.store is not None:
            with suppress(UnknownConversationError):
                conversation = await asyncio.to_thread(
                    Conversation.restore, self.resources.store, identity
                )
        part = TaskRun(
            self.resources,
            reading,
            conversation,
            variables,
            config=self.config,
            listener=listener,
            budget=self.budget.begin_subflow(identity),
        )
        result = await part.perform()
        errors = " ".join(result.errors)
        return VisitOutcome(
            response=result.final_response if result.success else None,
            failure="" if result.success else errors,
            waits=errors if result.reason == "waiting" else "",
            limit=result.limit,
            error=result.error,
        )

    @asynccontextmanager
    async def _connect(self, task: Task) -> AsyncIterator[Registry]:
        """Connect the tools of the task."""
        application = self.resources.application
        ensembles = [*self.resources.tools, *await application.produce_ensembles(task.ensembles)]
        if task.mcp:
            ensembles += self.resources.share(await application.produce_mcp_ensembles(task.mcp))
        guard = await application.access_argument_guard()
        async with Registry(ensembles, guard=guard) as registry:
            yield registry

    def _begin(self) -> FlowStartedEvent:
        return FlowStartedEvent(
            run_id=self.conversation.id,
            task=self.reading.document.tree,
            place=self.reading.task.place,
            variables=self.variables,
            settings=self.config.export(),
        )


def _survey_tools(registry: Registry) -> Tools:
    return {each.invoker.name: each.invoker for each in registry.survey()}


async def _answer(
    state: FlowState, conversation: Conversation, journal: ConversationJournal
) -> None:
    """Add the flow's last response to the flow's conversation, unless it is already there."""
    if state.final and isinstance(conversation.last_message, UserCanister):
        await journal.append([AssistantCanister(state.final)])
