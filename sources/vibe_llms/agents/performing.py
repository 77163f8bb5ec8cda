"""Performing what an order asks for, by an engine or as a flow: once, until it comes to rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

import attrs

from vibe_llms.agents.orders import Order, read_order
from vibe_llms.agents.outcomes import PASSING
from vibe_llms.agents.parking import VENDOR, ParkingDesk, refuse_strange
from vibe_llms.application import Application
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.contexts import RunEvent
from vibe_llms.events.flow import FlowEvent, FlowStartedEvent, VisitEvent
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.flows.adapter import Share, UniversalAdapter
from vibe_llms.flows.budgets import BUDGETS
from vibe_llms.flows.results import AdapterResult
from vibe_llms.flows.settings import AdapterConfig
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.engines import Engine, Tool
from vibe_llms.invocables.ensembles import Ensemble, gather_ensembles
from vibe_llms.invocables.pools import EnsemblePool
from vibe_llms.runs.opening import BegunRun
from vibe_llms.runs.spending import measure_spent

HOLDING_SECONDS: Final = 60.0

HostedEvent = RunEvent | FlowEvent | VisitEvent


@define(eq=False)
class Connections:
    """Keeps what stands behind models open from one run to the next, for a while."""

    application: Application
    _holder: object = attrs.field(factory=object)
    _since: float = float("-inf")

    async def hold(self, model: str) -> None:
        """Accesses a model, which stays; what was known of it long ago is found out anew.

        Raises:
            ConverseError: There is no such model, or it cannot be accessed.
        """
        now = asyncio.get_running_loop().time()
        if now > self._since + HOLDING_SECONDS:
            self._since = now
            await self.drop()
        await self.application.access_model(model, holder=self._holder)

    async def drop(self) -> None:
        """Lets go of all, but for what somebody uses."""
        holder, self._holder = self._holder, object()
        await self.application.release(holder)


@frozen(kw_only=True, eq=False)
class OrderPerformer:
    """Performs orders.

    Attributes:
        store: Where their conversations and logs are.
        application: Where models are found.
        limits: Of each run, but for those that its order says.
        produce_tools: Makes ensembles of their names; by default those that are configured.
        listener: Hears of everything, with the id of its run.
        desk: Has requests answered by vendors' batches, where an order says so.
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
    desk: ParkingDesk = attrs.field(init=False)

    @connections.default
    def _produce_connections(self) -> Connections:
        return Connections(self.application)

    @desk.default
    def _produce_desk(self) -> ParkingDesk:
        return ParkingDesk(self.store, self.application)

    async def perform(self, begun: BegunRun) -> None:
        """Goes on with a run that somebody has asked for until it comes to rest.

        Raises:
            TransportError, StreamTruncatedError, EnsembleError: What it needs cannot be reached;
                it can be tried again.
            ConverseError: It cannot be begun; its log does not say so yet.
            StoreError: Another one performs it, or something cannot be written.
            CancelledError: It was cancelled; the log says how far it was.
        """
        events = (each.event for each in begun.events)
        wanted = [each for each in events if isinstance(each, RunRequestedEvent)][-1]
        order, conversation = read_order(wanted.order), begun.conversation
        if not begun.is_new:
            said = {canister.id for canister in conversation.canisters}
            lacking = [each for each in wanted.canisters if each.id not in said]
            conversation.add_canisters(lacking)
        share = self._share_for(wanted.subject)
        tools = share(gather_ensembles(await self._access_tools(order.ensembles)))
        try:
            await self._go_on(order, begun, tools, share)
        except PASSING:
            await self.connections.drop()  # what is known of its models may be of before
            raise

    def _share_for(self, subject: str) -> Share:
        """Return the function that connects ensembles through the pool, if there is one."""
        pool = self.pool
        return list if pool is None else lambda ensembles: pool.share(ensembles, subject)

    async def _go_on(
        self, order: Order, begun: BegunRun, tools: Sequence[Ensemble], share: Share
    ) -> None:
        conversation, log = begun.conversation, begun.events
        if order.task is not None:
            await self._perform_flow(order, begun, tools, share)
            return
        parking = None
        if order.channel == VENDOR:
            refuse_strange(log, self.desk.name)
            parking = await self.desk.access(order.model)
        engine = Engine(
            order.model,
            tools,
            limits=order.bound(self.limits),
            store=self.store,
            listener=self._listen(conversation.id),
            application=self.application,
            parking=parking,
        )
        await self.connections.hold(order.model)
        async with engine:
            run = engine.prepare(
                conversation,
                spent=measure_spent(log),
                passing=PASSING,
                begun=begun,
            )
            await run.perform()

    async def _perform_flow(
        self, order: Order, begun: BegunRun, tools: Sequence[Ensemble], share: Share
    ) -> None:
        conversation, log = begun.conversation, begun.events
        adapter = UniversalAdapter(
            self._bound_flow(order, log),
            tools=tools,
            application=self.application,
            store=self.store,
            listener=self._listen(conversation.id),
            share=share,
        )
        if any(isinstance(each.event, FlowStartedEvent) for each in log):
            result = await adapter.resume(conversation.id, begun=begun, passing=PASSING)
        else:
            result = await adapter.execute(
                order.task or {},
                order.variables,
                conversation=conversation,
                begun=begun,
                passing=PASSING,
            )
        _raise_refusal(result)

    def _bound_flow(self, order: Order, log: Sequence[LoggedEvent]) -> AdapterConfig:
        """Returns what bounds a flow as a whole: time, and what its order says; it stops there."""
        left = order.bound(self.limits).run_seconds - measure_spent(log).seconds
        budgets = {name: order.limits.get(limit) for name, limit in BUDGETS.items()}
        return AdapterConfig(
            strict_validation=False,
            ensure_budgets=False,
            model=order.model or None,
            timeout_ms=max(1, int(left * 1000)),
            **cast("Any", budgets),
        )

    async def _access_tools(self, names: Sequence[str]) -> Sequence[Tool]:
        produce = self.produce_tools or self.application.produce_ensembles
        return await produce(names) if names else ()

    def _listen(self, run_id: str) -> Callable[[HostedEvent], object] | None:
        listener = self.listener
        return None if listener is None else lambda event: listener(run_id, event)


def _raise_refusal(result: AdapterResult) -> None:
    """Raises what a flow was not begun for, or failed of and can be tried again."""
    error = result.error
    if error is not None and (result.reason == "refused" or isinstance(error, PASSING)):
        raise error
