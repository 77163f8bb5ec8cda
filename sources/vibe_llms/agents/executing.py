"""Execution of a queued run, by an engine or as a flow, until it finishes or suspends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

import attrs

from vibe_llms.agents.deferred_requests import VENDOR, DeferredRequests, refuse_deferred_elsewhere
from vibe_llms.agents.outcomes import TEMPORARY_ERRORS
from vibe_llms.agents.run_compaction import RunCompaction
from vibe_llms.agents.run_specs import RunSpec, read_run_spec
from vibe_llms.application import Application
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.contexts import RunEvent
from vibe_llms.events.flow import FlowEvent, FlowStartedEvent, VisitEvent
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.engines import Engine, EngineOptions, Tool
from vibe_llms.invocables.ensemble_pools import EnsemblePool
from vibe_llms.invocables.ensembles import Ensemble, gather_ensembles
from vibe_llms.runs.opening import ClaimedRun
from vibe_llms.runs.spending import measure_usage

if TYPE_CHECKING:
    from vibe_llms.flows.resources import ShareFunction
    from vibe_llms.flows.results import AdapterResult
    from vibe_llms.flows.settings import AdapterConfig
    from vibe_llms.messages.requests import WindowPolicy

HOLDING_SECONDS: Final = 60.0
"""Seconds after which the next run closes the connections and opens them again."""

HostedEvent = RunEvent | FlowEvent | VisitEvent


@define(eq=False)
class Connections:
    """Connections of models, kept open from one run to the next.

    The application closes the client of a provider, with its cached facts about models, when no
    holder needs the client.

    Attributes:
        application: Provides the models.
    """

    application: Application
    _holder: object = attrs.field(factory=object)
    _since: float = float("-inf")

    async def hold(self, model: str) -> None:
        """Access a model and keep it open for the next runs.

        After :data:`HOLDING_SECONDS`, all models are released first, so that cached facts about
        models are read again.

        Raises:
            ConverseError: The model is unknown or inaccessible.
        """
        now = asyncio.get_running_loop().time()
        if now > self._since + HOLDING_SECONDS:
            self._since = now
            await self.drop()
        await self.application.access_model(model, holder=self._holder)

    async def drop(self) -> None:
        """Release all connections that are not in use."""
        holder, self._holder = self._holder, object()
        await self.application.release(holder)


@frozen(kw_only=True, eq=False)
class RunExecutor:
    """Executes runs.

    Attributes:
        store: The store of the runs.
        application: Provides the models.
        limits: Limits of each run; the specification of a run may lower them.
        produce_tools: Produces ensembles by name; by default those that are configured.
        listener: Receives all events, with the id of their run.
        deferred: Requests that are deferred to batches of vendors, for runs that specify it.
        pool: Keeps the ensembles connected from one run to the next; ``None`` to connect them for
            each run.
    """

    store: ConversationStore
    application: Application
    limits: Limits = attrs.field(factory=Limits)
    produce_tools: Callable[[Sequence[str]], Awaitable[Sequence[Tool]]] | None = None
    listener: Callable[[str, HostedEvent], object] | None = None
    pool: EnsemblePool | None = None
    connections: Connections = attrs.field(init=False)
    deferred: DeferredRequests = attrs.field(init=False)

    @connections.default
    def _produce_connections(self) -> Connections:
        return Connections(self.application)

    @deferred.default
    def _produce_deferred(self) -> DeferredRequests:
        return DeferredRequests(self.store, self.application)

    async def execute(self, claimed: ClaimedRun) -> str:
        """Execute a queued run until it finishes or suspends.

        Returns:
            Id of the compacted fork in which it continues; otherwise empty.

        Raises:
            TransportError, StreamTruncatedError, EnsembleError: A service is unreachable; the run
                can be tried again.
            ConverseError: The run cannot start; its log does not record that yet.
            StoreError: The claim was lost, or the store refused a write.
            CancelledError: The execution was cancelled; the log has its state.
        """
        events = [each.event for each in claimed.events]
        requests = [each for each in events if isinstance(each, RunRequestedEvent)]
        request, conversation = requests[-1], claimed.conversation
        spec = read_run_spec(request.spec)
        if not claimed.is_new:
            # Also those of earlier requests whose runs failed before they stored them.
            known_ids = {canister.id for canister in conversation.canisters}
            requested = [canister for each in requests for canister in each.canisters]
            conversation.add_canisters(each for each in requested if each.id not in known_ids)
        share_ensembles = self._produce_share_function(request.subject)
        tools = share_ensembles(gather_ensembles(await self._access_tools(spec.ensembles)))
        try:
            return await self._execute_spec(spec, claimed, tools, share_ensembles)
        except TEMPORARY_ERRORS:
            await self.connections.drop()  # cached facts about its models may be outdated
            raise

    def _produce_share_function(self, subject: str) -> ShareFunction:
        """Return the function that connects ensembles through the pool, if there is one."""
        pool = self.pool
        return list if pool is None else lambda ensembles: pool.share(ensembles, subject)

    async def _execute_spec(
        self,
        spec: RunSpec,
        claimed: ClaimedRun,
        tools: Sequence[Ensemble],
        share_ensembles: ShareFunction,
    ) -> str:
        conversation, log = claimed.conversation, claimed.events
        if spec.task is not None:
            await self._perform_flow(spec, claimed, tools, share_ensembles)
            return ""
        deferral_backend = None
        if spec.channel == VENDOR:
            refuse_deferred_elsewhere(log, self.deferred.name)
            deferral_backend = await self.deferred.access(spec.model)
        limits = spec.bound(self.limits)
        options = EngineOptions(controls=spec.controls, schema=spec.schema)
        if spec.window:
            options["window"] = cast("WindowPolicy", spec.window)
        engine = Engine(
            spec.model,
            tools,
            limits=limits,
            store=self.store,
            listener=self._listen(conversation.id),
            application=self.application,
            deferral_backend=deferral_backend,
            **options,
        )
        await self.connections.hold(spec.model)
        async with engine:
            compaction = RunCompaction(
                engine=engine,
                store=self.store,
                claimed=claimed,
                spec=spec,
                seconds=limits.run_seconds,
                listener=self._listen(conversation.id),
            )
            if (fork := await compaction.perform()) is not None:
                return fork
            run = engine.prepare(
                conversation,
                spent=measure_usage(log),
                temporary_errors=TEMPORARY_ERRORS,
                claimed=claimed,
            )
            await run.perform()
        return ""

    async def _perform_flow(
        self,
        spec: RunSpec,
        claimed: ClaimedRun,
        tools: Sequence[Ensemble],
        share_ensembles: ShareFunction,
    ) -> None:
        # The first flow imports it, in a thread: that takes a quarter of a second.
        await asyncio.to_thread(import_module, "vibe_llms.flows.adapter")
        from vibe_llms.flows.adapter import UniversalAdapter

        conversation, log = claimed.conversation, claimed.events
        adapter = UniversalAdapter(
            self._bound_flow(spec, log),
            tools=tools,
            application=self.application,
            store=self.store,
            listener=self._listen(conversation.id),
            share=share_ensembles,
        )
        if any(isinstance(each.event, FlowStartedEvent) for each in log):
            result = await adapter.resume(
                conversation.id, claimed=claimed, temporary_errors=TEMPORARY_ERRORS
            )
        else:
            result = await adapter.execute(
                spec.task or {},
                spec.variables,
                conversation=conversation,
                claimed=claimed,
                temporary_errors=TEMPORARY_ERRORS,
            )
        _raise_refusal(result)

    def _bound_flow(self, spec: RunSpec, log: Sequence[LoggedEvent]) -> AdapterConfig:
        """Return the limits of a whole flow: the time left and its specification's budgets."""
        from vibe_llms.flows.budgets import BUDGETS
        from vibe_llms.flows.settings import AdapterConfig

        seconds_left = spec.bound(self.limits).run_seconds - measure_usage(log).seconds
        budgets = {name: spec.limits.get(limit) for name, limit in BUDGETS.items()}
        return AdapterConfig(
            strict_validation=False,
            ensure_budgets=False,
            model=spec.model or None,
            timeout_ms=max(1, int(seconds_left * 1000)),
            **cast("Any", budgets),
        )

    async def _access_tools(self, names: Sequence[str]) -> Sequence[Tool]:
        produce = self.produce_tools or self.application.produce_ensembles
        return await produce(names) if names else ()

    def _listen(self, run_id: str) -> Callable[[HostedEvent], object] | None:
        listener = self.listener
        return None if listener is None else lambda event: listener(run_id, event)


def _raise_refusal(result: AdapterResult) -> None:
    """Raise the error of a flow that was refused or failed temporarily."""
    error = result.error
    if error is not None and (result.reason == "refused" or isinstance(error, TEMPORARY_ERRORS)):
        raise error
