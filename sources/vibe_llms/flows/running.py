"""One run of a task: it is looked at, what it needs is opened, and its flow is driven."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs

from vibe_llms.application import Application
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.events.bus import EventBus
from vibe_llms.events.flow import FlowEvent, FlowStartedEvent, VisitEvent
from vibe_llms.exceptions import ConfigurationError, ConverseError, UnknownConversationError
from vibe_llms.flows.checking import Surroundings, TaskCheck, check_task
from vibe_llms.flows.contents import RegistryContents, survey_private_hosts
from vibe_llms.flows.driving import FlowDriver
from vibe_llms.flows.machine import Visit
from vibe_llms.flows.predicates import Predicates, survey_predicates
from vibe_llms.flows.reading import TaskReading, examine_task
from vibe_llms.flows.results import AdapterResult, produce_result, refuse
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.state import FlowState
from vibe_llms.flows.tasks import SCRIPTED, ResourceLlm, Task
from vibe_llms.flows.visiting import TAG, Visitor, VisitOutcome
from vibe_llms.instruments.models import Model
from vibe_llms.invocables.pages.getting import PageBounds
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.plain import JsonValue
from vibe_llms.runs.local import open_run
from vibe_llms.values import define

if TYPE_CHECKING:
    from vibe_llms.configuration.classes import Configuration, PluginEntry
    from vibe_llms.flows.adapter import UniversalAdapter

FlowListener: TypeAlias = Callable[[FlowEvent | VisitEvent], object]
"""Hears of each visit of a flow, and of what happens within."""

_KEYS = ("api_key", "api_key_file")


def begin_conversation(task: Task, run_id: str | None = None) -> Conversation:
    """Makes the conversation of a flow: the goal, and in the end what came of it."""
    return Conversation(
        id=run_id,
        canisters=[UserCanister(task.goal.description)],
        metadata=ConversationMetadata(tags=(TAG,)),
    )


@define(eq=False)
class TaskRun:
    """One run of a task.

    Attributes:
        adapter: How it is run.
        reading: The task.
        conversation: Of the run.
        given: Variables, besides those of the task.
        before: Visits of another run from which this one goes on.
        config: Instead of the adapter's.
        listener: Instead of the adapter's.
    """

    adapter: UniversalAdapter
    reading: TaskReading
    conversation: Conversation
    given: Mapping[str, JsonValue]
    before: Sequence[FlowEvent] = attrs.field(default=(), kw_only=True)
    config: AdapterConfig = attrs.field(kw_only=True)
    listener: FlowListener | None = attrs.field(kw_only=True)

    @config.default
    def _take_config(self) -> AdapterConfig:
        return self.adapter.config

    @listener.default
    def _take_listener(self) -> FlowListener | None:
        return self.adapter.listener

    async def perform(self) -> AdapterResult:
        """Runs it, or what is left of it; with a mistake in it nothing is sent."""
        application = self.adapter.application
        predicates = await asyncio.to_thread(survey_predicates, application.plugins)
        known = Surroundings(variables=self.given, predicates=predicates)
        check = check_task(self.reading, known)
        try:
            check.access_flow()  # before anything is connected
            async with self._connect(check.task) as registry:
                tools = {each.invoker.name: each.invoker for each in registry.survey()}
                check = check_task(self.reading, attrs.evolve(known, tools=tools))
                check.access_flow()
                async with access_model(application, check.task.resource_llm) as model:
                    visitor = Visitor(
                        model=model,
                        registry=registry,
                        store=self.adapter.store,
                        approver=self.adapter.approver,
                        limits=application.configuration.limits,
                        flow_id=self.conversation.id,
                    )
                    return await self._drive(check, visitor, predicates)
        except ConfigurationError as error:
            return refuse(error.findings, check.warnings)
        except ConverseError as error:
            return refuse((), check.warnings, error)

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
        opened = open_run(
            conversation, visitor.store, run_id=conversation.id, listener=cast("Any", bus)
        )
        async with opened as (context, journal):
            state = FlowState.fold(check.access_flow(), context.survey())
            driver = FlowDriver(
                check=check,
                state=state,
                context=context,
                visitor=visitor,
                run_subflow=functools.partial(self._run_subflow, check),
                config=self.config,
                variables={**check.task.variables, **self.given},
                contents=RegistryContents(
                    registry=check.task.resource_registry,
                    folder=check.task.folder,
                    bounds=PageBounds(
                        schemes=("https",),
                        private_hosts=survey_private_hosts(self.adapter.application.configuration),
                    ),
                ),
                predicates=predicates,
                tell=bus,
            )
            if state.ending is None or state.ending.reason != "ended":
                await driver.drive(self._begin(), self.before)
            if state.final and isinstance(conversation.last_message, UserCanister):
                await journal.append([AssistantCanister(state.final)])
        return produce_result(conversation.id, state, check.warnings)

    async def _run_subflow(
        self,
        check: TaskCheck,
        visit: Visit,
        identity: str,
        given: Mapping[str, JsonValue],
        listener: FlowListener,
    ) -> VisitOutcome:
        """Runs the task that a node names, as a run of its own; what was begun goes on."""
        place = check.subflows[visit.node.id].task.place
        reading = await asyncio.to_thread(examine_task, place, strict=self.reading.strict)
        conversation = begin_conversation(reading.task, identity)
        if self.adapter.store is not None:
            with suppress(UnknownConversationError):
                conversation = await asyncio.to_thread(
                    Conversation.restore, self.adapter.store, identity
                )
        part = TaskRun(
            self.adapter, reading, conversation, given, config=self.config, listener=listener
        )
        result = await part.perform()
        said = " ".join(result.errors)
        return VisitOutcome(
            response=result.final_response if result.success else None,
            failure="" if result.success else said,
            waits=said if result.reason == "waiting" else "",
            limit=result.limit,
            error=result.error,
            spending=result.spending,
        )

    @asynccontextmanager
    async def _connect(self, task: Task) -> AsyncIterator[Registry]:
        """Gives what the task may invoke, connected."""
        application = self.adapter.application
        ensembles = [*self.adapter.tools, *await application.produce_ensembles(task.ensembles)]
        if task.mcp:
            ensembles += await application.produce_mcp_ensembles(task.mcp)
        async with Registry(ensembles) as registry:
            yield registry

    def _begin(self) -> FlowStartedEvent:
        return FlowStartedEvent(
            run_id=self.conversation.id,
            task=self.reading.document.tree,
            place=self.reading.task.place,
            variables=self.given,
            settings=self.config.export(),
        )


@asynccontextmanager
async def access_model(application: Application, llm: ResourceLlm) -> AsyncIterator[Model]:
    """Gives the model of a task; with a key of its own where the task names one."""
    own = application
    if llm.api_key_env is not None and not llm.address.startswith(f"{SCRIPTED}:"):
        provider = application.configuration.follow_aliases(llm.provider)
        own = Application(_name_key(application.configuration, provider, llm.api_key_env))
    model = Model(llm.address, application=own, **cast("Any", llm.controls))
    try:
        yield model
    finally:
        await (model.close() if own is application else own.close())


def _name_key(configuration: Configuration, provider: str, variable: str) -> Configuration:
    """Lets a provider take its key from an environment variable, and from nowhere else."""

    def name(entry: PluginEntry) -> PluginEntry:
        if (entry.table, entry.name) != ("providers", provider):
            return entry
        others = {key: entry.settings[key] for key in entry.settings if key not in _KEYS}
        return entry._replace(settings={**others, "api_key_variable": variable})

    return configuration._replace(plugins=tuple(map(name, configuration.plugins)))
