"""Generation: the request, the stored response, and the events about it."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import attrs

from vibe_llms.engine.contexts import Journal, RunContext
from vibe_llms.engine.deferral import DeferralBackend, RequestDeferred
from vibe_llms.engine.limits import Readings
from vibe_llms.engine.machine import Generate
from vibe_llms.engine.patterns import digest_pattern
from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import (
    GenerationAnsweredEvent,
    GenerationDeferredEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationQueuedEvent,
    GenerationStartedEvent,
)
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import ResponseStartedEvent, StreamEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.invocables.deduplicators import trim_stale
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import AnyCanister, Origin
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, RequestFields, Response
from vibe_llms.models.windows import count_omitted
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.providers.streams import detach

EventListener: TypeAlias = Callable[[StreamEvent], Awaitable[object]]
"""Receives an event of a streamed response; the stream continues when it returns."""


@frozen(kw_only=True, eq=False)
class ModelCall:
    """Model of a run, and settings of its requests.

    Attributes:
        model: Model to ask.
        fields: Fields of every request. A choice that requires an invocation does not apply after
            a result; otherwise a run would never end.
        reactors: Receive every response.
        stream: Whether to stream responses.
        price: Returns the cost of a response in US cents; ``None`` if unknown.
        deferral_backend: Backend of deferred requests; ``None`` to ask at once.
        on_event: Called with each event of a streamed response, and awaited.
    """

    model: ConverserModel
    fields: RequestFields = attrs.field(factory=RequestFields)
    reactors: ConversationReactors | None = None
    stream: bool = True
    price: Callable[[Origin], float | None] | None = None
    deferral_backend: DeferralBackend | None = None
    on_event: EventListener | None = None

    @property
    def address(self) -> str:
        """Address of the model."""
        return self.fields.get("model", "")


class Generator:
    """Sends the requests of one run to its model.

    Attributes:
        losses: Losses of translations, each once.
        summaries: Origins of the summaries of old turns that were generated.

    Args:
        readings: Counts usage and cost.
        is_handed_over: Returns whether a cancelled run continues in another process, so that a
            response in the background must not be cancelled.
    """

    _arrived: tuple[AnyCanister, ...]  # of the response in progress

    def __init__(
        self,
        model_call: ModelCall,
        journal: Journal,
        registry: Registry,
        context: RunContext,
        readings: Readings,
        record: Record,
        is_handed_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.losses: dict[Loss, None] = {}
        self.summaries: tuple[Origin, ...] = ()
        self._model_call = model_call
        self._journal = journal
        self._registry = registry
        self._context = context
        self._readings = readings
        self._record = record
        self._is_handed_over = is_handed_over
        self._request: Request | None = None
        self._pattern: dict[str, JsonValue] | None = None
        self._stale = 0  # results left out of the last request
        self._used_tokens = 0  # of the model's context window, as last reported

    async def generate(self, command: Generate, turn: int) -> Response:
        """Ask the model once, and add its response to the conversation.

        Raises:
            ConverseError: There is no complete response; what arrived is in the conversation.
            RequestDeferred: The request was deferred.
        """
        if await self._registry.refresh():
            self._request = None  # the invocables have changed
            self._pattern = None  # and so have the digests
        request = self._compose(command)
        backend = self._model_call.deferral_backend
        if backend is not None:
            answer = self._record.answers.get(request.canisters[-1].id)
            if answer is not None:
                return await self._add_answer(backend, answer, request, turn)
        pattern: dict[str, JsonValue] = {}
        if self._pattern is None:  # recorded once, and after each change
            pattern = {**digest_pattern(self._model_call.fields, self._registry.describe())}
            self._pattern = pattern
        event = GenerationStartedEvent(
            key=request.canisters[-1].id,
            turn=turn,
            model=self._model_call.address,
            pattern=pattern,
        )
        # From here on, the vendor may charge for it: the log must survive a power failure.
        await self._context.emit(event, durable=True)
        if backend is not None:
            deferred = GenerationDeferredEvent(
                key=event.key, turn=turn, model=event.model, backend=backend.name
            )
            await self._context.emit(deferred)
            raise RequestDeferred(request)
        started = time.monotonic()
        self._arrived = ()
        try:
            response = await self._ask(self._resume(request), event)
        except BaseException as error:
            await self._fail(event, error, started)
            raise
        await self._journal.append(response.canisters)
        await self._finish(event, response, started)
        return response

    async def _add_answer(
        self,
        backend: DeferralBackend,
        answer: GenerationAnsweredEvent,
        request: Request,
        turn: int,
    ) -> Response:
        """Add the answer to a deferred request; no model is asked."""
        event = GenerationStartedEvent(key=answer.key, turn=turn, model=self._model_call.address)
        started = time.monotonic() - answer.seconds
        self._arrived = ()
        try:
            response = await backend.read(answer, request)
        except Exception as error:  # a cancelled run keeps the answer
            await self._fail(event, error, started)
            raise
        await self._journal.append(response.canisters)
        await self._finish(event, response, started, tier=backend.tier)
        return response

    def _resume(self, request: Request) -> Request:
        """Return a request that resumes the response that answers it in the background, if any."""
        queued = self._record.queued.get(request.canisters[-1].id)
        if queued is None or queued.model != self._model_call.address:
            return request
        return attrs.evolve(request, resume=queued.response_id)

    async def _ask(self, request: Request, started: GenerationStartedEvent) -> Response:
        model_call = self._model_call
        is_background = bool(request.resume) or asks_in_background(request)
        if not (model_call.stream or is_background):
            return await model_call.model.converse(request, model_call.reactors, stream=False)
        async with model_call.model.stream(request, model_call.reactors) as stream:
            try:
                if self._context.is_followed or model_call.on_event is not None or is_background:
                    async for event in stream:
                        if is_background and isinstance(event, ResponseStartedEvent):
                            detach(stream, self._is_handed_over)
                            await self._record_queued(started, event.response_id or "")
                        self._context.publish(event)
                        if model_call.on_event is not None:
                            await model_call.on_event(event)
                return await stream.response()
            finally:  # also for a response that breaks off, which is billed as well
                self._arrived = stream.canisters

    async def _record_queued(self, started: GenerationStartedEvent, response_id: str) -> None:
        """Record the id of a response in the background before the response is awaited."""
        queued = self._record.queued.get(started.key)
        if not response_id or (queued is not None and queued.response_id == response_id):
            return
        event = GenerationQueuedEvent(
            key=started.key, turn=started.turn, model=started.model, response_id=response_id
        )
        self._record.add(event)
        await self._context.emit(event, durable=True)

    def _compose(self, command: Generate) -> Request:
        """Return the request: the previous one, extended by new canisters, if possible."""
        # Of an extended request, only the new part has to be encoded; the vendor caches the rest.
        previous, canisters = self._request, self._journal.canisters
        is_whole = command.length == len(canisters)
        choice = self._choose_invocation(canisters[command.length - 1])
        if previous is not None and is_whole and previous.invocation_choice == choice:
            length = len(previous.canisters)
            if canisters[length - 1] is previous.canisters[-1]:  # no other canisters in between
                new, continuation = canisters[length:], command.is_continuation
                self._request = previous.extend(new, continuation=continuation)
                return self._trim(self._request)
        self._request = self._produce(tuple(canisters[: command.length]), choice, command)
        return self._trim(self._request)

    def _choose_invocation(self, last: AnyCanister) -> str:
        choice = self._model_call.fields.get("invocation_choice", "auto")
        # A model that must invoke something in each turn would never answer.
        return "auto" if last.role == "result" and choice != "none" else choice

    def _produce(
        self, canisters: tuple[AnyCanister, ...], choice: str, command: Generate
    ) -> Request:
        fields: RequestFields = {**self._model_call.fields, "invocation_choice": choice}
        return Request(
            canisters=canisters,
            invocables=self._registry.describe(),
            continuation=command.is_continuation,
            conversation_id=self._journal.conversation_id,
            **fields,
        )

    def _trim(self, request: Request) -> Request:
        """Omit stale results if the conversation approaches the model's context window."""
        attributes = self._model_call.model.descriptor.attributes
        self._stale = 0
        window = attributes.access_value("context_window_tokens") if self._used_tokens else None
        if not isinstance(window, int):
            return request
        # Omissions are chosen anew each time; the stored request stays complete.
        trimmed = trim_stale(
            request.canisters,
            self._registry.access_deduplicator,
            used_tokens=self._used_tokens,
            window_tokens=window,
        )
        if not trimmed.losses:
            return request
        self._stale = len(trimmed.losses)
        self.losses.update(dict.fromkeys(trimmed.losses))
        return attrs.evolve(request, canisters=trimmed.value)

    async def _fail(
        self, event: GenerationStartedEvent, error: BaseException, started: float
    ) -> None:
        """Store what arrived, marked as interrupted, and record the error."""
        known_error = error if isinstance(error, ConverseError) else None
        response_id = self._find_running(event, error)
        # A response that the vendor may still complete will be received whole.
        arrived = () if response_id else self._arrived
        if not (arrived or response_id) and known_error is not None:
            arrived = known_error.arrived
        if any(canister.content or canister.role == "invocation" for canister in arrived):
            await self._journal.append(arrived)
        else:
            arrived = ()
        seconds = time.monotonic() - started
        failed = GenerationFailedEvent(
            key=event.key,
            turn=event.turn,
            model=event.model,
            error=known_error,
            canisters=tuple(arrived),
            seconds=seconds,
            attempts=1 if known_error is None else known_error.sent,
            response_id=response_id,
        )
        await self._context.emit(failed)

    def _find_running(self, event: GenerationStartedEvent, error: BaseException) -> str:
        """Return the id of the response that the vendor may still complete; empty without one."""
        queued = self._record.queued.get(event.key)
        if isinstance(error, ConverseError):
            response_id = error.response_id
        elif queued is not None and self._is_handed_over():
            response_id = queued.response_id
        else:
            response_id = ""
        if not response_id:
            self._record.queued.pop(event.key, None)
        return response_id

    async def _finish(
        self,
        event: GenerationStartedEvent,
        response: Response,
        started: float,
        *,
        tier: str = "",
    ) -> None:
        origin, price = response.metadata.origin, self._model_call.price
        cents = None if price is None else price(origin)
        self.summaries += response.metadata.summaries
        for summary in response.metadata.summaries:
            self._readings.count(summary.usage, None if price is None else price(summary))
        self._used_tokens = self._readings.count(origin.usage, cents) or self._used_tokens
        self.losses.update(dict.fromkeys(response.losses))
        finished = GenerationFinishedEvent(
            key=event.key,
            turn=event.turn,
            model=f"{origin.provider}:{origin.model}",
            provider=origin.provider,
            canisters=len(response.canisters),
            stop_reason=origin.stop_reason,
            usage=origin.usage,
            cents=cents,
            attempts=response.metadata.attempts,
            tier=tier,
            seconds=time.monotonic() - started,
            omitted=count_omitted(response.losses) + self._stale,
        )
        self._record.queued.pop(event.key, None)
        # The conversation has the response: if a crash loses this event, the next run emits it.
        await self._context.emit(finished, soon=not tier)


def asks_in_background(request: Request) -> bool:
    """Return whether a request lets its vendor answer in the background."""
    if request.controls.get("background"):
        return True
    native = request.native
    if native is None or '"background"' not in native.data:
        return False
    return json.loads(native.data).get("background") is True


def describe_stored(
    event: GenerationStartedEvent,
    turn: Sequence[AnyCanister],
    price: Callable[[Origin], float | None] | None = None,
) -> GenerationFinishedEvent | None:
    """Return the event that is missing because of a crash just after a response was stored.

    Args:
        event: Start of the generation, from the log.
        turn: Stored canisters of the response; without an origin, the result is ``None``.
        price: Returns its cost in US cents.
    """
    origin = next((each.origin for each in turn if each.origin), None)
    if origin is None:
        return None
    return GenerationFinishedEvent(
        key=event.key,
        turn=event.turn,
        model=f"{origin.provider}:{origin.model}",
        provider=origin.provider,
        canisters=len(turn),
        stop_reason=origin.stop_reason,
        usage=origin.usage,
        cents=None if price is None else price(origin),
    )
