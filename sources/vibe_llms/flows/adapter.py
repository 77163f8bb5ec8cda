"""Run tasks: from a task file, or its content as plain data, to the result.

``UniversalAdapter`` is for asynchronous code; ``execute_task`` does the same in one call.
``run_task`` is for synchronous code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack, cast

import attrs

from vibe_llms.application import Application
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import ConfigurationError, ConverseError, Finding, StoreError
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.predicates import PredicatesArgument, gather_predicates
from vibe_llms.flows.records import FlowRecord, read_record, transfer_visits
from vibe_llms.flows.resources import FlowListener, ShareFunction, TaskResources
from vibe_llms.flows.results import AdapterResult, refuse
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.task_reading import TaskReading, TaskSource, examine_task
from vibe_llms.flows.task_runs import TaskRun
from vibe_llms.flows.visiting import begin_conversation
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.portal import access_portal
from vibe_llms.instruments.engines import Tool
from vibe_llms.invocables.approvals import Approver
from vibe_llms.invocables.ensembles import gather_ensembles
from vibe_llms.runs.opening import ClaimedRun


class AdapterSettings(TypedDict, total=False):
    """Arguments of an adapter other than its config; see :class:`UniversalAdapter`."""

    tools: Iterable[Tool] | Tool
    application: Application | None
    store: ConversationStore | None
    approver: Approver | None
    listener: FlowListener | None
    predicates: PredicatesArgument


class UniversalAdapter:
    """Runner of tasks.

    ::

        adapter = UniversalAdapter(AdapterConfig(max_iterations=100))
        result = await adapter.execute("task.json", {"topic": "tides"})
        print(result.final_response if result.success else result.errors)

    Args:
        config: Limits of each run, and how strictly tasks are checked.
        tools: Tools that models and tool nodes may invoke in addition to those of the task.
        application: Source of models and tools; by default, this process's configuration.
        store: Store of runs, node by node, so that they can be resumed; ``None`` to store nothing.
        approver: Decides about invocations that need approval; without one, such a run waits.
        listener: Receives events of visits, and events within visits.
        predicates: Functions that tasks may use as predicates, in addition to those of plugins:
            under their own names, or as ``{"name": function}``. A predicate takes the response and,
            optionally, the :class:`~vibe_llms.plugins.specification.flows.PredicateContext`.
        share: Replaces the ensembles of a task, for example so that its MCP servers use pooled
            connections.
    """

    def __init__(
        self,
        config: AdapterConfig | None = None,
        *,
        tools: Iterable[Tool] | Tool = (),
        application: Application | None = None,
        store: ConversationStore | None = None,
        approver: Approver | None = None,
        listener: FlowListener | None = None,
        predicates: PredicatesArgument = (),
        share: ShareFunction = list,
    ) -> None:
        self.config = AdapterConfig() if config is None else _ensure_config(config)
        self.listener = listener
        self.resources = TaskResources(
            given_application=application,
            tools=gather_ensembles(tools),
            store=store,
            approver=approver,
            predicates=gather_predicates(predicates),
            share=share,
        )

    @property
    def application(self) -> Application:
        """Application that provides models and tools."""
        return self.resources.application

    async def check(self, task: TaskSource) -> TaskCheck:
        """Find all mistakes in a task, as before each run; no model is asked.

        Its tools are connected for the check, but not invoked.

        Raises:
            ConfigurationError: The input is not a readable task.
        """
        strict = self.config.strict_validation
        reading = await asyncio.to_thread(examine_task, task, strict=strict)
        run = TaskRun(
            self.resources, reading, begin_conversation(reading.task), {}, config=self.config
        )
        return await run.check()

    async def execute(
        self,
        task: TaskSource,
        variables: Mapping[str, JsonValue] | None = None,
        *,
        run_id: str | None = None,
        conversation: Conversation | None = None,
        claimed: ClaimedRun | None = None,
        temporary_errors: tuple[type[ConverseError], ...] = (),
    ) -> AdapterResult:
        """Run a task until it ends, or stops for another reason.

        Mistakes in the task and failures of the run are in the ``errors`` of the result. If the
        task has a mistake, nothing is sent.

        Args:
            task: The path of a file, or the same as plain data.
            variables: Values for ``{{name}}`` in prompts, in addition to those in the task.
            run_id: Id of the run and of its conversation; by default a new id.
            conversation: Alternative to ``run_id``: existing conversation of a run whose flow has
                not started.
            claimed: The same run, if its log was already claimed.
            temporary_errors: Such errors do not end the run: the result contains the error, and the
                run can be resumed.
        """
        strict = self.config.strict_validation
        try:
            reading = await asyncio.to_thread(examine_task, task, strict=strict)
        except ConfigurationError as error:
            return refuse(error.findings)
        if conversation is None:
            conversation = begin_conversation(reading.task, run_id)
        run_variables = dict(variables or {})
        run = TaskRun(
            self.resources,
            reading,
            conversation,
            run_variables,
            config=self.config,
            listener=self.listener,
            claimed=claimed,
            temporary_errors=temporary_errors,
        )
        return await run.perform()

    async def resume(
        self,
        run_id: str,
        *,
        claimed: ClaimedRun | None = None,
        temporary_errors: tuple[type[ConverseError], ...] = (),
    ) -> AdapterResult:
        """Resume a run that stopped before its end; return the result of an ended run again.

        The run keeps the task with which it started, and its limits, except limits that this
        adapter's config changes.

        Args:
            claimed, temporary_errors: See :meth:`execute`.

        Raises:
            UnknownConversationError: The run does not exist.
            StoreError: It is not a run of a task, or the adapter has no store. If the run is
                already active, the result contains that as an error.
        """
        store = self._access_store()
        record = await asyncio.to_thread(read_record, store, run_id)
        if claimed is None:
            conversation = await asyncio.to_thread(Conversation.restore, store, run_id)
        else:
            conversation = claimed.conversation
        reading, config = self._compose_config(record)
        run_variables = record.started.variables
        run = TaskRun(
            self.resources,
            reading,
            conversation,
            run_variables,
            config=config,
            listener=self.listener,
            claimed=claimed,
            temporary_errors=temporary_errors,
        )
        return await run.perform()

    async def fork(
        self,
        run_id: str,
        node: str,
        *,
        visit: int = 1,
        variables: Mapping[str, JsonValue] | None = None,
        task: TaskSource | None = None,
    ) -> AdapterResult:
        """Repeat a run from a node on: earlier visits are kept, later ones may differ.

        The run keeps its limits, except limits that this adapter's config changes.

        Args:
            node: Id of the node.
            visit: Number of the node's visit from which the run is repeated, from 1.
            variables: Replacements for variables of the run, by name.
            task: Replacement for the run's task; its diagram must be the same up to that node.

        Raises:
            UnknownConversationError: The run does not exist.
            RequestError: The run has not reached that visit, or the task differs before it.
            StoreError: The adapter has no store.
        """
        record = await asyncio.to_thread(read_record, self._access_store(), run_id)
        reading, config = self._compose_config(record)
        if task is not None:
            reading = await asyncio.to_thread(
                examine_task, task, strict=self.config.strict_validation
            )
        run_variables = {**record.started.variables, **(variables or {})}
        before, conversation = record.cut(node, visit), begin_conversation(reading.task)
        other = (await asyncio.to_thread(check_task, reading)).flow
        if task is not None and other is not None:  # without a flow, the run reports the mistakes
            before = transfer_visits(before, node, record.flow, other)
        run = TaskRun(
            self.resources,
            reading,
            conversation,
            run_variables,
            before=before,
            config=config,
            listener=self.listener,
        )
        return await run.perform()

    def _compose_config(self, record: FlowRecord) -> tuple[TaskReading, AdapterConfig]:
        """Return the task of a resumed run, with its findings, and the limits of the run."""
        known = {field.name for field in attrs.fields(AdapterConfig)}
        settings = {name: value for name, value in record.settings.items() if name in known}
        warnings = (
            Finding(place=record.run_id, message=f"Unknown variable {name}.")
            for name in record.settings.keys() - known
        )
        reading = attrs.evolve(record.reading, warnings=(*record.reading.warnings, *warnings))
        return reading, AdapterConfig(**cast("Any", {**settings, **self.config.export()}))

    def _access_store(self) -> ConversationStore:
        if self.resources.store is None:
            raise StoreError(
                detail="The adapter has no store, so it cannot resume runs.",
                remedy="Pass one: UniversalAdapter(store=DirectoryStore(folder)).",
            )
        return self.resources.store


def _ensure_config(config: object) -> AdapterConfig:
    """Raise TypeError if the argument is not a config, such as variables in its place."""
    if isinstance(config, AdapterConfig):
        return config
    kind = type(config).__name__
    raise TypeError(f"The config must be an AdapterConfig, not {kind}; pass variables by name.")


async def execute_task(
    task: TaskSource,
    config: AdapterConfig | None = None,
    *,
    variables: Mapping[str, JsonValue] | None = None,
    **settings: Unpack[AdapterSettings],
) -> AdapterResult:
    """Run a task; see :meth:`UniversalAdapter.execute`."""
    return await UniversalAdapter(config, **settings).execute(task, variables)


def run_task(
    task: TaskSource,
    config: AdapterConfig | None = None,
    *,
    variables: Mapping[str, JsonValue] | None = None,
    **settings: Unpack[AdapterSettings],
) -> AdapterResult:
    """Run a task from synchronous code; works anywhere, even while an event loop runs."""
    return access_portal().call(lambda: execute_task(task, config, variables=variables, **settings))
