"""Running tasks: from a task file, or the same as plain data, to what came of it.

``UniversalAdapter`` is for asynchronous code, and so is ``execute_task``, the same in one call;
``run_task`` is for synchronous code.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, TypedDict, Unpack, cast

import attrs

from vibe_llms.application import Application, access_application
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import ConfigurationError, ConverseError, Finding, StoreError
from vibe_llms.flows.checking import TaskCheck, check_task
from vibe_llms.flows.predicates import GivenPredicates, gather_predicates
from vibe_llms.flows.reading import TaskReading, Written, examine_task
from vibe_llms.flows.records import FlowRecord, carry_over, read_record
from vibe_llms.flows.results import AdapterResult, refuse
from vibe_llms.flows.running import FlowListener, TaskRun
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.flows.visiting import begin_conversation
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.portal import access_portal
from vibe_llms.instruments.engines import Tool
from vibe_llms.invocables.approvals import Approver
from vibe_llms.invocables.ensembles import Ensemble, gather_ensembles
from vibe_llms.runs.opening import ClaimedRun

Share: TypeAlias = Callable[[Iterable[Ensemble]], list[Ensemble]]
"""Returns ensembles in the place of others."""


class AdapterSettings(TypedDict, total=False):
    """All that an adapter takes besides its config; see :class:`UniversalAdapter`."""

    tools: Iterable[Tool] | Tool
    application: Application | None
    store: ConversationStore | None
    approver: Approver | None
    listener: FlowListener | None
    predicates: GivenPredicates


class UniversalAdapter:
    """Runs tasks.

    ::

        adapter = UniversalAdapter(AdapterConfig(max_iterations=100))
        result = await adapter.execute("task.json", {"topic": "tides"})
        print(result.final_response if result.success else result.errors)

    Args:
        config: What bounds each run, and how strictly tasks are looked at.
        tools: What models may invoke besides what the task names, and tool nodes, too.
        application: Where models and tools are found; by default what this process has configured.
        store: Where runs are kept, node by node, so that they can be resumed; ``None`` for nowhere.
        approver: Is asked about invocations that need it; without one, such a run waits.
        listener: Hears of each visit, and of what happens within.
        predicates: Functions that tasks may name as predicates, besides those of plugins: each by
            its own name, or as ``{"name": function}``. One takes the response, and if it wants to
            the :class:`~vibe_llms.plugins.specification.flows.PredicateContext`.
        share: Has the MCP servers that a task names take their connections from a pool, say.
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
        predicates: GivenPredicates = (),
        share: Share = list,
    ) -> None:
        self.config = AdapterConfig() if config is None else _ensure_config(config)
        self.tools = gather_ensembles(tools)
        self.store = store
        self.approver = approver
        self.listener = listener
        self.predicates = gather_predicates(predicates)
        self.share = share
        self._given_application = application

    @property
    def application(self) -> Application:
        """The application in which models and tools are found."""
        return self._given_application or access_application()

    async def check(self, task: Written) -> TaskCheck:
        """Looks for all that is wrong with a task, as is done before each run; nothing is asked.

        What it may invoke is connected for that, and nothing of it invoked.

        Raises:
            ConfigurationError: There is no task to look at.
        """
        strict = self.config.strict_validation
        reading = await asyncio.to_thread(examine_task, task, strict=strict)
        return await TaskRun(self, reading, begin_conversation(reading.task), {}).look()

    async def execute(
        self,
        task: Written,
        variables: Mapping[str, JsonValue] | None = None,
        *,
        run_id: str | None = None,
        conversation: Conversation | None = None,
        claimed: ClaimedRun | None = None,
        passing: tuple[type[ConverseError], ...] = (),
    ) -> AdapterResult:
        """Runs a task until it has ended, or comes to rest for another reason.

        What is wrong with the task, and whatever it fails of, is in the ``errors`` of the result;
        with a mistake in it nothing is sent.

        Args:
            task: The path of a file, or the same as plain data.
            variables: For ``{{name}}`` in prompts, besides those in the task.
            run_id: What the run is called, and its conversation; a new name by default.
            conversation: Instead: of the run, where one was begun that has not come to its flow.
            claimed: The same run, where its log was claimed for this.
            passing: Errors that do not end the run: the result has them, and it can be resumed.
        """
        strict = self.config.strict_validation
        try:
            reading = await asyncio.to_thread(examine_task, task, strict=strict)
        except ConfigurationError as error:
            return refuse(error.findings)
        if conversation is None:
            conversation = begin_conversation(reading.task, run_id)
        given = dict(variables or {})
        return await TaskRun(
            self, reading, conversation, given, claimed=claimed, passing=passing
        ).perform()

    async def resume(
        self,
        run_id: str,
        *,
        claimed: ClaimedRun | None = None,
        passing: tuple[type[ConverseError], ...] = (),
    ) -> AdapterResult:
        """Goes on with a run that came to rest before its end; one that has ended is told again.

        It goes on with the task as it was when it began, and with its bounds, but for those that
        this adapter's config changes.

        Args:
            claimed, passing: See :meth:`execute`.

        Raises:
            UnknownConversationError: There is no such run.
            StoreError: It is no run of a task, or the adapter has no store. That it is on its way
                is an error of the result.
        """
        store = self._access_store()
        record = await asyncio.to_thread(read_record, store, run_id)
        if claimed is None:
            conversation = await asyncio.to_thread(Conversation.restore, store, run_id)
        else:
            conversation = claimed.conversation
        reading, config = self._compose_config(record)
        given = record.started.variables
        run = TaskRun(
            self, reading, conversation, given, config=config, claimed=claimed, passing=passing
        )
        return await run.perform()

    async def fork(
        self,
        run_id: str,
        node: str,
        *,
        visit: int = 1,
        variables: Mapping[str, JsonValue] | None = None,
        task: Written | None = None,
    ) -> AdapterResult:
        """Runs anew from a node on: what was before it holds, what is from there on may be other.

        Its bounds are those of the run, but for those that this adapter's config changes.

        Args:
            node: The id of the node.
            visit: Which of its visits is the first that is made anew, from 1.
            variables: Instead of those that the run was given, by name.
            task: Instead of the run's own; its diagram has to be the same up to that node.

        Raises:
            UnknownConversationError: There is no such run.
            RequestError: It has not come to that visit, or the task differs before it.
            StoreError: The adapter has no store.
        """
        record = await asyncio.to_thread(read_record, self._access_store(), run_id)
        reading, config = self._compose_config(record)
        if task is not None:
            reading = await asyncio.to_thread(
                examine_task, task, strict=self.config.strict_validation
            )
        given = {**record.started.variables, **(variables or {})}
        before, conversation = record.cut(node, visit), begin_conversation(reading.task)
        other = (await asyncio.to_thread(check_task, reading)).flow
        if task is not None and other is not None:  # without one, the run says what is wrong
            before = carry_over(before, node, record.flow, other)
        return await TaskRun(
            self, reading, conversation, given, before=before, config=config
        ).perform()

    def _compose_config(self, record: FlowRecord) -> tuple[TaskReading, AdapterConfig]:
        """Returns what bounds a run that goes on, and its task, with what is odd about that."""
        known = {field.name for field in attrs.fields(AdapterConfig)}
        kept = {name: value for name, value in record.settings.items() if name in known}
        warnings = (
            Finding(place=record.run_id, message=f"Unknown variable {name}.")
            for name in record.settings.keys() - known
        )
        reading = attrs.evolve(record.reading, warnings=(*record.reading.warnings, *warnings))
        return reading, AdapterConfig(**cast("Any", {**kept, **self.config.export()}))

    def _access_store(self) -> ConversationStore:
        if self.store is None:
            raise StoreError(
                detail="The adapter has no store, so it cannot resume runs.",
                remedy="Pass one: UniversalAdapter(store=DirectoryStore(folder)).",
            )
        return self.store


def _ensure_config(config: object) -> AdapterConfig:
    """Raises TypeError for what is none, such as variables in its place."""
    if isinstance(config, AdapterConfig):
        return config
    kind = type(config).__name__
    raise TypeError(f"The config must be an AdapterConfig, not {kind}; pass variables by name.")


async def execute_task(
    task: Written,
    config: AdapterConfig | None = None,
    *,
    variables: Mapping[str, JsonValue] | None = None,
    **settings: Unpack[AdapterSettings],
) -> AdapterResult:
    """Runs a task; see :meth:`UniversalAdapter.execute`."""
    return await UniversalAdapter(config, **settings).execute(task, variables)


def run_task(
    task: Written,
    config: AdapterConfig | None = None,
    *,
    variables: Mapping[str, JsonValue] | None = None,
    **settings: Unpack[AdapterSettings],
) -> AdapterResult:
    """Runs a task, for synchronous code; it works anywhere, also where an event loop runs."""
    return access_portal().call(lambda: execute_task(task, config, variables=variables, **settings))
