"""Asking the model: what is sent, what is stored of the answer, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import attrs

from vibe_llms.engine.contexts import Journal, RunContext
from vibe_llms.engine.limits import Readings
from vibe_llms.engine.machine import Generate
from vibe_llms.engine.parking import Parked, Parking
from vibe_llms.engine.patterns import digest_pattern
from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import (
    GenerationAnsweredEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationParkedEvent,
    GenerationStartedEvent,
)
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.invocables.deduplicators import trim_stale
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import AnyCanister, Origin
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, RequestFields, Response
from vibe_llms.providers.interfaces import ConverserModel

Hear: TypeAlias = Callable[[StreamEvent], Awaitable[object]]
"""Takes an event of an answer; the answer goes on once it has returned."""


@frozen(kw_only=True, eq=False)
class ModelCall:
    """How a model is asked in every turn of a run.

    Attributes:
        model: Who is asked.
        fields: Of every request. A choice that requires an invocation does not hold after a
            result, or no run would end.
        reactors: Hear of every answer.
        stream: Whether answers are wanted piece by piece.
        price: Returns what an answer cost, in US cents; ``None`` where that is not known.
        parking: Has requests answered later, and not at once; ``None`` for the usual.
        hear: Is given each event of an answer that comes piece by piece, and waited for.
    """

    model: ConverserModel
    fields: RequestFields = attrs.field(factory=RequestFields)
    reactors: ConversationReactors | None = None
    stream: bool = True
    price: Callable[[Origin], float | None] | None = None
    parking: Parking | None = None
    hear: Hear | None = None

    @property
    def address(self) -> str:
        """What the model is called."""
        return self.fields.get("model", "")


class Generator:
    """Performs the generations of one run.

    Attributes:
        losses: What translations changed or left out, each once.
        summaries: Where each summary of the oldest turns came from that was asked for.

    Args:
        readings: What answers use and cost is counted there.
    """

    _arrived: tuple[AnyCanister, ...]  # of the answer that is on its way

    def __init__(
        self,
        asking: ModelCall,
        journal: Journal,
        registry: Registry,
        context: RunContext,
        readings: Readings,
        record: Record,
    ) -> None:
        self.losses: dict[Loss, None] = {}
        self.summaries: tuple[Origin, ...] = ()
        self._asking = asking
        self._journal = journal
        self._registry = registry
        self._context = context
        self._readings = readings
        self._record = record
        self._request: Request | None = None
        self._pattern: dict[str, JsonValue] | None = None
        self._occupied = 0  # of the model's window, in tokens, by the last answer that said so

    async def generate(self, command: Generate, turn: int) -> Response:
        """Asks the model once, and adds what it says to the conversation.

        Raises:
            ConverseError: No answer, or not to its end; what had arrived is in the conversation.
            Parked: It is to be answered later.
        """
        if await self._registry.refresh():
            self._request = None  # it describes invocables that are no more
            self._pattern = None  # so are the digests that were told
        request = self._compose(command)
        parking = self._asking.parking
        if parking is not None and (said := self._record.answers.get(request.canisters[-1].id)):
            return await self._take(parking, said, request, turn)
        pattern: dict[str, JsonValue] = {}
        if self._pattern is None:  # told once, and again when it may have changed
            pattern = {**digest_pattern(self._asking.fields, self._registry.describe())}
            self._pattern = pattern
        event = GenerationStartedEvent(
            key=request.canisters[-1].id,
            turn=turn,
            model=self._asking.address,
            pattern=pattern,
        )
        # From here on it may be billed: that must be known also when the power fails.
        await self._context.emit(event, durable=True)
        if parking is not None:
            parked = GenerationParkedEvent(
                key=event.key, turn=turn, model=event.model, desk=parking.name
            )
            await self._context.emit(parked)
            raise Parked(request)
        started = time.monotonic()
        self._arrived = ()
        try:
            response = await self._ask(request)
        except BaseException as error:
            await self._fail(event, error, started)
            raise
        await self._journal.append(response.canisters)
        await self._finish(event, response, started)
        return response

    async def _take(
        self, parking: Parking, said: GenerationAnsweredEvent, request: Request, turn: int
    ) -> Response:
        """Adds what came of a request that was parked; no model is asked."""
        event = GenerationStartedEvent(key=said.key, turn=turn, model=self._asking.address)
        started = time.monotonic() - said.seconds
        self._arrived = ()
        try:
            response = await parking.read(said, request)
        except Exception as error:  # one that is broken off has its answer still
            await self._fail(event, error, started)
            raise
        await self._journal.append(response.canisters)
        await self._finish(event, response, started, tier=parking.tier)
        return response

    async def _ask(self, request: Request) -> Response:
        asking = self._asking
        if not asking.stream:
            return await asking.model.converse(request, asking.reactors, stream=False)
        async with asking.model.stream(request, asking.reactors) as stream:
            try:
                if self._context.is_followed or asking.hear is not None:
                    async for event in stream:
                        self._context.tell(event)
                        if asking.hear is not None:
                            await asking.hear(event)
                return await stream.response()
            finally:  # also of an answer that breaks off, which was paid for as well
                self._arrived = stream.canisters

    def _compose(self, command: Generate) -> Request:
        """Makes the request: the one before, with what was said since, where that holds."""
        # A request that only grows is encoded, and read by the vendor's cache, from where it grew.
        known, canisters = self._request, self._journal.canisters
        is_whole = command.length == len(canisters)
        choice = self._choose(canisters[command.length - 1])
        if known is not None and is_whole and known.invocation_choice == choice:
            length = len(known.canisters)
            if canisters[length - 1] is known.canisters[-1]:  # others may have come in between
                new, continuation = canisters[length:], command.is_continuation
                self._request = known.extend(new, continuation=continuation)
                return self._trim(self._request)
        self._request = self._produce(tuple(canisters[: command.length]), choice, command)
        return self._trim(self._request)

    def _choose(self, last: AnyCanister) -> str:
        choice = self._asking.fields.get("invocation_choice", "auto")
        # A model that has to invoke something in each turn would never answer.
        return "auto" if last.role == "result" and choice != "none" else choice

    def _produce(
        self, canisters: tuple[AnyCanister, ...], choice: str, command: Generate
    ) -> Request:
        fields: RequestFields = {**self._asking.fields, "invocation_choice": choice}
        return Request(
            canisters=canisters,
            invocables=self._registry.describe(),
            continuation=command.is_continuation,
            conversation_id=self._journal.conversation_id,
            **fields,
        )

    def _trim(self, request: Request) -> Request:
        """Leaves out stale results where the conversation nears the window of the model."""
        attributes = self._asking.model.descriptor.attributes
        window = attributes.access_value("context_window_tokens") if self._occupied else None
        if not isinstance(window, int):
            return request
        # What is left out is chosen anew each time: the request that is kept stays whole.
        trimmed = trim_stale(
            request.canisters,
            self._registry.access_deduplicator,
            used_tokens=self._occupied,
            window_tokens=window,
        )
        if not trimmed.losses:
            return request
        self.losses.update(dict.fromkeys(trimmed.losses))
        return attrs.evolve(request, canisters=trimmed.value)

    async def _fail(
        self, event: GenerationStartedEvent, error: BaseException, started: float
    ) -> None:
        """Keeps what had arrived, marked as interrupted, and tells why there is no more."""
        ours = error if isinstance(error, ConverseError) else None
        arrived = self._arrived or (() if ours is None else ours.arrived)
        if any(canister.content or canister.role == "invocation" for canister in arrived):
            await self._journal.append(arrived)
        else:
            arrived = ()
        seconds = time.monotonic() - started
        failed = GenerationFailedEvent(
            key=event.key,
            turn=event.turn,
            model=event.model,
            error=ours,
            canisters=tuple(arrived),
            seconds=seconds,
            attempts=1 if ours is None else ours.sent,
        )
        await self._context.emit(failed)

    async def _finish(
        self,
        event: GenerationStartedEvent,
        response: Response,
        started: float,
        *,
        tier: str = "",
    ) -> None:
        origin, price = response.metadata.origin, self._asking.price
        cents = None if price is None else price(origin)
        self.summaries += response.metadata.summaries
        for summary in response.metadata.summaries:
            self._readings.count(summary.usage, None if price is None else price(summary))
        self._occupied = self._readings.count(origin.usage, cents) or self._occupied
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
        )
        # The conversation has the answer: what a crash takes of this is told by whoever goes on.
        await self._context.emit(finished, soon=not tier)


def describe_stored(
    event: GenerationStartedEvent,
    turn: Sequence[AnyCanister],
    price: Callable[[Origin], float | None] | None = None,
) -> GenerationFinishedEvent | None:
    """Makes the event that a crash prevented after an answer had been stored.

    Args:
        event: What the log says of its beginning.
        turn: What is stored of it; nothing can be said where that names no origin.
        price: Says what it has cost, in US cents.
    """
    origin = next((found for each in turn if (found := getattr(each, "origin", None))), None)
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
