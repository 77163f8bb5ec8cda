"""An engine: a model with tools that runs conversations.

``Engine`` is for asynchronous code; ``SyncEngine`` wraps it for synchronous code.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from copy import copy
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    overload,
)

import attrs

from vibe_llms.application import Application
from vibe_llms.conversations.canister_media import hydrate, needs_content_store
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.contexts import RunEvent
from vibe_llms.engine.deferral import DeferralBackend
from vibe_llms.engine.driver import Driver
from vibe_llms.engine.generating import EventListener, ModelCall
from vibe_llms.engine.limits import Readings
from vibe_llms.events.bus import EventBus
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.reprs import represent
from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like, entering
from vibe_llms.instruments.inputs import PLACEHOLDER, Input, gather_canisters
from vibe_llms.instruments.models import AnyModel, Model, read_model
from vibe_llms.instruments.options import EngineOptions as EngineOptions
from vibe_llms.instruments.options import compose_fields
from vibe_llms.instruments.outcomes import RunOutcome as RunOutcome
from vibe_llms.instruments.outcomes import price_in_cents
from vibe_llms.invocables.approvals import Approval, Approver
from vibe_llms.invocables.ensembles import Ensemble, Tools, gather_ensembles
from vibe_llms.invocables.ensembles import Tool as Tool
from vibe_llms.invocables.registry import LentEnsemble, Registry
from vibe_llms.messages.canisters import Origin, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.runs.opening import ClaimedRun, open_run

if TYPE_CHECKING:
    from vibe_llms.conversations.compaction import CompactionPlan
    from vibe_llms.guards.arguments import ArgumentGuard
    from vibe_llms.instruments.channels.reply_following import ReplyFollowing, SyncReplyFollowing
    from vibe_llms.instruments.parsers.parsers import Parser
    from vibe_llms.providers.summaries import Ask

T = TypeVar("T")
_P = ParamSpec("_P")


class EngineSettings(EngineOptions, total=False):
    """Settings of an engine except its model and tools; see :class:`Engine`."""

    approver: Approver | None
    limits: Limits | None
    store: ConversationStore | None
    reactors: ConversationReactors | None
    listener: Callable[[RunEvent], object] | None
    stream: bool
    application: Application | None


class Run:
    """One run of a conversation; created by :meth:`Engine.prepare`. Single use.

    Attributes:
        conversation: Its current state, also after a cancellation.
        outcome: The result; ``None`` until the run stops.
    """

    def __init__(
        self,
        engine: Engine,
        conversation: Conversation,
        approvals: Sequence[Approval],
        spent: Readings | None = None,
        temporary_errors: tuple[type[ConverseError], ...] = (),
        claimed: ClaimedRun | None = None,
        on_event: EventListener | None = None,
        *,
        waits: bool = False,
    ) -> None:
        self.conversation = conversation.copy()
        self.outcome: RunOutcome | None = None
        self._engine = engine
        self._approvals = approvals
        self._spent, self._temporary_errors, self._claimed = spent, temporary_errors, claimed
        self._on_event = on_event
        self._waits = waits or bool(temporary_errors)

    async def perform(self) -> RunOutcome:
        """Run the conversation until nothing is left to do, or a limit is reached.

        Raises:
            CancelledError: The run was cancelled; ``outcome`` and ``conversation`` hold its
                progress.
        """
        engine, conversation = self._engine, self.conversation
        model_call = attrs.evolve(await engine.produce_model_call(), on_event=self._on_event)
        await engine.load_media(conversation)
        opened = open_run(
            conversation,
            engine.store,
            listener=await engine.join_listeners(),
            claimed=self._claimed,
            waits=self._waits,
        )
        async with engine.access_registry() as registry, opened as (context, journal):
            start = len(conversation)
            driver = Driver(
                model_call,
                registry,
                journal,
                context,
                limits=engine.limits,
                approver=engine.approver,
                answers=self._approvals,
                spent=self._spent,
                temporary_errors=self._temporary_errors,
            )
            try:
                await driver.drive()
            finally:
                # Also after an error or a cancellation: the result so far stays readable.
                if driver.ending is not None:
                    self.outcome = RunOutcome(
                        **attrs.asdict(driver.ending, recurse=False),
                        conversation=conversation,
                        canisters=tuple(conversation.canisters[start:]),
                    )
        assert self.outcome is not None
        return self.outcome


class Engine(Closing):
    """A model with tools: ask the model, execute its calls, and repeat until it answers.

    ::

        engine = Engine("local:smollm2", tools=[weather, stock_price])
        conversation = await engine.run(conversation)

    As an asynchronous context manager, an engine keeps its ensembles connected between runs;
    otherwise each run connects and disconnects them.

    Args:
        client: A model: its address, a :class:`.Model`, or a model of a provider.
        tools: Functions, invokers, server tools and ensembles; or a connected registry, which stays
            connected.
        approver: Decides about calls that need an approval; without one, the run is suspended.
        limits: Limits whose fields ``run_…`` apply to each run; by default as configured.
        store: Saves the conversation at each step; ``None`` to save nothing.
        reactors: Callbacks for every answer.
        listener: Receives every event of a run and of its answers.
        stream: Whether answers are streamed.
        application: The configuration to use; by default that of this process.
        deferral_backend: Defers requests, to be answered later: the run is suspended at each
            of them, as at an approval. Requires a store.
        options: See :class:`EngineOptions`.
    """

    def __init__(
        self,
        client: AnyModel = "",
        tools: Tools | Registry = (),
        *,
        approver: Approver | None = None,
        limits: Limits | None = None,
        store: ConversationStore | None = None,
        reactors: ConversationReactors | None = None,
        listener: Callable[[RunEvent], object] | None = None,
        stream: bool = True,
        application: Application | None = None,
        deferral_backend: DeferralBackend | None = None,
        **options: Unpack[EngineOptions],
    ) -> None:
        self.model = read_model(client, application)
        self._given_registry = tools if isinstance(tools, Registry) else None
        self.ensembles = tools.ensembles if isinstance(tools, Registry) else gather_ensembles(tools)
        self.approver = approver
        self.store = store
        self.listener = listener
        self._limits = limits
        self._reactors = reactors
        self._stream = stream
        self._deferral_backend = deferral_backend
        self._options = options
        self._registry: Registry | None = None

    def __repr__(self) -> str:
        names = tuple(ensemble.name for ensemble in self.ensembles)
        return represent("Engine", (("", self.model), ("tools", names)))

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_registry": None}  # connections belong to a process

    @property
    def limits(self) -> Limits:
        """The limits of each run."""
        if self._limits is None and isinstance(self.model, Model):
            return self.model.application.configuration.limits
        return self._limits or Limits()

    def survey_local_arguments(self) -> list[str]:
        """Return the names of the engine's arguments that cannot be sent to another process."""
        local = {
            "approver": self.approver,
            "store": self.store,
            "reactors": self._reactors,
            "listener": self.listener,
            "deferral_backend": self._deferral_backend,
        }
        return [name for name, value in local.items() if value is not None]

    def prepare(
        self,
        conversation: Input,
        approvals: Sequence[Approval] = (),
        *,
        spent: Readings | None = None,
        temporary_errors: tuple[type[ConverseError], ...] = (),
        claimed: ClaimedRun | None = None,
        on_event: EventListener | None = None,
        waits: bool = False,
    ) -> Run:
        """Create a run of a conversation or of another input.

        Args:
            approvals: Answers to the open requests of an earlier run of it.
            spent: Usage of earlier runs that counts towards the limits of this one.
            temporary_errors: Errors that are raised without ending the run, so that it can be
                resumed.
            claimed: The same conversation, if its log was claimed for this run.
            on_event: Receives each event of the answers; awaited.
            waits: Wait while the disk is full, rather than fail; implied by ``temporary_errors``.
        """
        if not isinstance(conversation, Conversation):
            conversation = Conversation(canisters=gather_canisters(conversation))
        return Run(
            self, conversation, approvals, spent, temporary_errors, claimed, on_event, waits=waits
        )

    async def answer(
        self, conversation: Input, *, approvals: Sequence[Approval] = ()
    ) -> RunOutcome:
        """Run a conversation until it is answered or stops for another reason.

        Raises:
            RequestError: The conversation is empty.
            EnsembleError: Tools could not be connected.
            StoreError: The conversation could not be stored, or another run holds it.
        """
        return await self.prepare(conversation, approvals).perform()

    async def run(self, conversation: Conversation) -> Conversation:
        """Run a copy of a conversation, and return the copy with the answer.

        Raises:
            ConverseError: The run failed, for example because the model was unreachable.
        """
        outcome = await self.answer(conversation)
        if outcome.error is not None:
            raise outcome.error
        return outcome.conversation

    @overload
    def follow(
        self, conversation: Input, kind: Parser[T] | type[T]
    ) -> AbstractAsyncContextManager[ReplyFollowing[T]]: ...
    @overload
    def follow(
        self, conversation: Input, kind: object
    ) -> AbstractAsyncContextManager[ReplyFollowing[Any]]: ...
    def follow(
        self, conversation: Input, kind: Any
    ) -> AbstractAsyncContextManager[ReplyFollowing[Any]]:
        """Run a conversation and stream the partial value of its answer.

        ::

            async with engine.follow("How is the weather in Rome?", Weather) as following:
                async for partial in following:
                    print(partial.degrees)
                weather = await following.value()

        Args:
            kind: The type of the value: a class, a JSON Schema, or a :class:`.Parser`.

        Raises:
            ParseError: No answer is valid.
            ConverseError: No answer.
        """
        from vibe_llms.instruments.channels.continuing import follow_engine

        return follow_engine(self, conversation, kind)

    def vary(self, tools: Iterable[Ensemble], options: EngineOptions) -> Engine:
        """Derive an engine with further tools and other options.

        The new engine shares connected tools, which stay connected.
        """
        derived = copy(self)
        connected = self._given_registry or self._registry
        own_tools = self.ensembles if connected is None else (LentEnsemble(connected),)
        derived.ensembles, derived._given_registry = (*own_tools, *tools), None
        derived._options = {**self._options, **options}
        return derived

    async def produce_model_call(self) -> ModelCall:
        """Return the model of the runs, with the settings of its requests."""
        options, model, reactors = self._options, self.model, self._reactors
        if isinstance(model, Model):
            fields, converser = model.compose_fields(options), await model.access()
            reactors = await model.join_reactors(reactors)
        else:
            fields, converser = compose_fields(options, model=str(model.descriptor)), model
        return ModelCall(
            model=converser,
            fields=fields,
            reactors=reactors,
            stream=self._stream,
            price=price_in_cents if self._deferral_backend is None else self._price_deferred,
            deferral_backend=self._deferral_backend,
        )

    def _price_deferred(self, origin: Origin) -> float | None:
        assert self._deferral_backend is not None
        return price_in_cents(origin, self._deferral_backend.tier)

    async def make_room(self, conversation: Conversation) -> Conversation:
        """Return a compacted fork if ``window`` is ``summarize`` and the model's window is full.

        Otherwise, return the conversation itself. A run never moves to a fork: call this before a
        run, after adding a message.

        Raises:
            ConverseError: The model did not summarize the conversation, which is unchanged.
        """
        planned = await self.plan_compaction(conversation)
        if planned is None:
            return conversation
        plan, ask = planned
        return conversation.fork_compacted(await plan.perform(ask))

    async def plan_compaction(
        self, conversation: Conversation, *, is_needed: bool = False
    ) -> tuple[CompactionPlan, Ask] | None:
        """Return the plan of a compaction, and the function that asks the model for the summary.

        ``None`` if the window is not full, its policy is not ``summarize``, or there is nothing to
        summarize.

        Args:
            is_needed: Compact even if the window is not full, or has another policy.
        """
        from vibe_llms.conversations.compaction import is_full, plan_compaction

        model_call = await self.produce_model_call()
        if not is_needed and model_call.fields.get("window") != "summarize":
            return None
        registry = self._given_registry or self._registry
        request = Request(
            canisters=conversation.canisters,
            invocables=() if registry is None else registry.describe(),
            conversation_id=conversation.id,
            continuation=True,
            **model_call.fields,
        )
        model = model_call.model
        if not (is_needed or is_full(request, model.descriptor.attributes)):
            return None
        plan = plan_compaction(conversation, request, model)
        if plan is None:
            return None
        return plan, partial(model.converse, reactors=model_call.reactors)

    async def produce_template(self) -> Request:
        """Return the request that all runs share, with a placeholder for the question.

        Raises:
            ConverseError: The model or a tool cannot be used.
        """
        model_call = await self.produce_model_call()
        async with self.access_registry() as registry:
            question = [UserCanister(PLACEHOLDER)]
            return Request(canisters=question, invocables=registry.describe(), **model_call.fields)

    async def join_listeners(self) -> Callable[[RunEvent], object] | None:
        """Return the listeners of a run: the engine's own, and those of the application."""
        listeners = [] if self.listener is None else [self.listener]
        if isinstance(self.model, Model):
            listeners += await self.model.application.produce_listeners()
        if len(listeners) < 2:
            return listeners[0] if listeners else None
        bus: EventBus[RunEvent] = EventBus()
        for listener in listeners:
            bus.subscribe(listener)
        return bus

    @asynccontextmanager
    async def access_registry(self) -> AsyncIterator[Registry]:
        """Provide the connected ensembles: the shared ensembles, or new ensembles for one run."""
        registry = self._given_registry or self._registry
        if registry is not None:
            if (guard := await self._access_guard()) is not None:
                registry.adopt_guard(guard)
            yield registry
            return
        async with await self._produce_registry() as registry:
            yield registry

    async def _produce_registry(self) -> Registry:
        return Registry(self.ensembles, guard=await self._access_guard())

    async def _access_guard(self) -> ArgumentGuard | None:
        if not self.ensembles or not isinstance(self.model, Model):
            return None
        return await self.model.application.access_argument_guard()

    async def load_media(self, conversation: Conversation) -> None:
        """Load the bytes of media from the store, so that they can be sent."""
        if not needs_content_store(conversation.canisters):
            return
        store = self.store
        if store is None and isinstance(self.model, Model):
            store = self.model.application.store
        if store is not None:
            loaded = await asyncio.to_thread(hydrate, conversation.canisters, store.contents)
            conversation.replace_loaded(loaded)

    async def close(self) -> None:
        """Disconnect the ensembles and close the model."""
        # Cleared first: a run that starts during the close connects its own ensembles.
        registry, self._registry = self._registry, None
        try:
            if registry is not None:
                await registry.disconnect()
        finally:
            if isinstance(self.model, Model):
                await self.model.close()

    async def __aenter__(self) -> Self:
        if self._given_registry is None:
            registry = await self._produce_registry()
            await registry.connect()
            # Set only now: a run must not get an ensemble that is not connected yet.
            self._registry = registry
        return self


def entering_reply(
    method: Callable[Concatenate[Any, _P], AbstractAsyncContextManager[ReplyFollowing[T]]],
) -> Callable[Concatenate[Any, _P], AbstractContextManager[SyncReplyFollowing[T]]]:
    """Derive a synchronous method from one whose context is a :class:`.ReplyFollowing`."""

    def wrap(following: ReplyFollowing[T]) -> SyncReplyFollowing[T]:
        from vibe_llms.instruments.channels.reply_following import SyncReplyFollowing

        return SyncReplyFollowing(following)

    return entering(method, wrap)


class SyncEngine(SyncFace[Engine]):
    """An engine for synchronous code, with the arguments of :class:`Engine`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(Engine)
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(Engine(*arguments, **settings))

    answer = blocking(Engine.answer)
    follow = entering_reply(Engine.follow)
    run = blocking(Engine.run)
    make_room = blocking(Engine.make_room)
    close = blocking(Engine.close)
