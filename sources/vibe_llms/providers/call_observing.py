"""Calls whose listeners receive their events: one wrapper for models of all genera."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from vibe_llms.events.bus import EventBus
from vibe_llms.events.calls import (
    CallEvent,
    CallFailedEvent,
    CallFinishedEvent,
    CallListener,
    CallPieceEvent,
    CallRetriedEvent,
    CallStartedEvent,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.call_results import CallResult
from vibe_llms.models.genera import Genus
from vibe_llms.providers.interfaces import CallModel
from vibe_llms.providers.live_streams import open_live
from vibe_llms.providers.piece_streams import Piece, PieceStream, open_stream
from vibe_llms.providers.wrapped_calls import WrappedCallModel

In = TypeVar("In")
Out = TypeVar("Out", bound=CallResult)

_numbers: Final = itertools.count(1)


def observe_calls(
    model: CallModel[In, Out], genus: Genus, listeners: Sequence[CallListener]
) -> CallModel[In, Out]:
    """Return the model, or one with the same results whose calls the listeners observe.

    Args:
        genus: Genus of the model, unless its descriptor names another: an embedder may rank.
        listeners: Called in place, in the task of the call; they must not block.
    """
    return ObservedModel(model, genus, listeners) if listeners else model


class ObservedModel(WrappedCallModel[In, Out]):
    """A model of any genus, whose listeners receive the events of its calls.

    If a listener raises, one warning names it; the call is not affected.

    Args:
        model, genus, listeners: See :func:`observe_calls`.
    """

    def __init__(
        self, model: CallModel[In, Out], genus: Genus, listeners: Sequence[CallListener]
    ) -> None:
        super().__init__(model)
        known = model.descriptor.attributes.genus
        # Many models have no data, and then are conversers.
        self._genus = genus if known is Genus.CONVERSER else known
        self._bus: EventBus[CallEvent] = EventBus()
        for listener in listeners:
            self._bus.subscribe(listener)

    async def call(self, request: In) -> Out:
        """Return the result of a call. Raises ConverseError."""
        observation = self._begin(request)
        try:
            with observation.following_retries():
                result = await self._model.call(request)
        except BaseException as error:
            observation.fail(error)
            raise
        observation.finish(result)
        return result

    def stream(self, request: In) -> PieceStream[Out]:
        """Make a call, and return the pieces of the result as they arrive."""
        return PieceStream(self._follow(request, lambda: open_stream(self._model, request)))

    def stream_live(self, request: Any, pieces: AsyncIterable[Piece]) -> PieceStream[Out]:
        """Make a call whose input is still arriving."""
        return PieceStream(self._follow(request, lambda: open_live(self._model, request, pieces)))

    async def _follow(
        self, request: In, begin: Callable[[], PieceStream[Out]]
    ) -> AsyncIterator[Piece | Out]:
        observation = self._begin(request, is_streamed=True)
        try:
            async with begin() as stream:
                with observation.following_retries():  # there are none after the first piece
                    first = await anext(stream, None)
                if first is not None:
                    observation.note_first_piece()
                    yield first
                    async for piece in stream:
                        yield piece
                result: Out = await stream.result()
        except BaseException as error:
            observation.fail(error)
            raise
        observation.finish(result)
        yield result

    def _begin(self, request: In, *, is_streamed: bool = False) -> _Observation:
        descriptor = self.descriptor
        started = CallStartedEvent(
            call_id=next(_numbers),
            genus=self._genus,
            provider=descriptor.provider,
            model=descriptor.name,
            request=request,
            is_streamed=is_streamed,
        )
        self._bus.publish(started)
        return _Observation(self._bus, started.call_id)


class _Observation:
    """Publishes the events of a call that has started."""

    def __init__(self, bus: EventBus[CallEvent], call_id: int) -> None:
        self._bus = bus
        self._id = call_id
        self._started = time.perf_counter()

    @contextmanager
    def following_retries(self) -> Iterator[None]:
        """Publish the retries in this task."""
        token = _observation.set(self)
        try:
            yield
        finally:
            _observation.reset(token)

    def note_retry(self, attempt: int, seconds: float, error: ConverseError) -> None:
        self._bus.publish(
            CallRetriedEvent(call_id=self._id, attempt=attempt, after_seconds=seconds, error=error)
        )

    def note_first_piece(self) -> None:
        self._bus.publish(CallPieceEvent(call_id=self._id, seconds=self._measure()))

    def finish(self, result: CallResult) -> None:
        seconds = self._measure()
        self._bus.publish(CallFinishedEvent(call_id=self._id, result=result, seconds=seconds))

    def fail(self, error: BaseException) -> None:
        shown = error if isinstance(error, Exception) else None  # else it was cancelled
        seconds = self._measure()
        self._bus.publish(CallFailedEvent(call_id=self._id, error=shown, seconds=seconds))

    def _measure(self) -> float:
        return time.perf_counter() - self._started


_observation: ContextVar[_Observation | None] = ContextVar(
    "vibe_llms_call_observation", default=None
)


def report_retry(attempt: int, seconds: float, error: ConverseError) -> None:
    """Inform the listeners of the current call about a retry.

    Args:
        attempt: Number of the next attempt.
        seconds: Seconds until then.
        error: Error of the previous attempt.
    """
    observation = _observation.get()
    if observation is not None:
        observation.note_retry(attempt, seconds, error)
