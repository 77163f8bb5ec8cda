"""Fast path for callers that want a complete response instead of a stream.

For a small call, a stream's machinery (a generator, an assembler, a clean-up that several callers
may await) costs as much as the answer itself, and a simple answer does not even need events.
Reactors receive all events of such an answer at once. Errors, the canisters received before an
error, and the closing of the source are handled as in
:class:`vibe_llms.providers.streams.ResponseStream`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from vibe_llms.events.stream import ContentDeltaEvent, LossEvent
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import Translation
from vibe_llms.providers.simple_responses import SimpleResponseSource
from vibe_llms.providers.streams import (
    EventSource,
    ResponseStream,
    close_quietly,
    ensure_ours,
    produce_truncation,
)

if TYPE_CHECKING:
    from vibe_llms.events.conversation import ConversationEvent
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.providers.answer_events import AnswerEventDispatcher
    from vibe_llms.providers.sending import SendingModel

_Native = TypeVar("_Native")


async def receive_complete(
    model: SendingModel[_Native], request: Request, *, streaming: bool
) -> Response:
    """Send a request that fits the window unchanged, and receive the whole answer.

    Raises:
        ConverseError: The response failed; its ``arrived`` are the canisters received so far.
    """
    source: EventSource | None = None
    assembler: Assembler | None = None  # not needed for simple answers
    started = time.perf_counter()
    try:
        translation = await model.translate_without_blocking(request, streaming=streaming)
        losses = translation.losses
        source = await model.send(translation.value, request, streaming=streaming)
        if isinstance(source, SimpleResponseSource):
            return source.produce_response(request, losses, time.perf_counter() - started)
        assembler = model.produce_assembler()
        for loss in losses:
            assembler.feed(LossEvent(loss=loss))
        return await _receive(source, request, assembler, started)
    except Exception as error:
        ours = ensure_ours(error)
        if assembler is not None:
            # `missed` counts the attempts that did not reach the vendor.
            ours.keep_arrived(
                assembler.produce_canisters(), sent=assembler.attempts, missed=assembler.missed
            )
        raise ours  # noqa: B904  # it is the same error, or has its cause already
    finally:
        if source is not None and not getattr(source, "is_spent", False):
            # Finish closing, even if the caller is cancelled.
            await finish(close_quietly(source, model.descriptor.provider))


async def receive_with_reactors(
    model: SendingModel[_Native],
    request: Request,
    reactors: ConversationReactors,
    *,
    streaming: bool,
) -> Response:
    """Receive a response like :func:`receive_complete`, and notify reactors.

    Raises:
        ConverseError: The response failed; its ``arrived`` are the canisters received so far.
    """
    from vibe_llms.providers.answer_events import AnswerEventDispatcher  # imports all events

    dispatcher = AnswerEventDispatcher(reactors, request.conversation_id, model.limits)
    descriptor = model.descriptor
    started = time.perf_counter()
    try:
        dispatcher.dispatch_start(
            provider=descriptor.provider, model=descriptor.name, streaming=streaming
        )
        translation = await model.translate_without_blocking(request, streaming=streaming)
        losses = translation.losses
        source = await model.send(translation.value, request, streaming=streaming)
        if isinstance(source, SimpleResponseSource):
            response = source.produce_response(request, losses, time.perf_counter() - started)
    except BaseException as error:
        # A stream handles errors and, below, answers that need an assembler.
        stream = _resume(model, request, dispatcher, partial(_fail, error), started)
        return await stream.receive_complete()
    if not isinstance(source, SimpleResponseSource):
        open_source = partial(_return, Translation(source, losses))
        return await _resume(model, request, dispatcher, open_source, started).receive_complete()
    try:
        arrived = response.canisters[0].timestamp
        dispatcher.dispatch_text(source.list_events(response, losses), arrived)
    finally:  # also if a reactor raises SystemExit
        last_events = dispatcher.list_last("completed", response.canisters, response=response)
        undispatched = dispatcher.dispatch_all(last_events)
        if undispatched or not dispatcher.is_idle:
            await _dispatch_late(dispatcher, undispatched)
    return response


def _resume(
    model: SendingModel[_Native],
    request: Request,
    dispatcher: AnswerEventDispatcher,
    open_source: Callable[[], Awaitable[Translation[EventSource]]],
    started: float,
) -> ResponseStream:
    """Make the stream of an answer whose start was already reported to the reactors.

    Args:
        open_source: Returns or raises the result of sending the request.
        started: The time when it was sent, by ``time.perf_counter``.
    """
    return ResponseStream(
        request=request,
        assembler=model.produce_assembler(),
        open_source=open_source,
        limits=model.limits,
        dispatcher=dispatcher,
        started=started,
    )


async def _dispatch_late(
    dispatcher: AnswerEventDispatcher, events: Sequence[ConversationEvent]
) -> None:
    """Report the last events while asynchronous reactors are still running."""
    try:
        if dispatcher.is_full:
            await dispatcher.wait_for_room()
    finally:
        await finish(dispatcher.finish(*events))


async def _return(opened: Translation[EventSource]) -> Translation[EventSource]:
    return opened


async def _fail(error: BaseException) -> Translation[EventSource]:
    raise error


async def read_whole(
    source: EventSource, request: Request, assembler: Assembler, losses: Iterable[Loss]
) -> Response:
    """Receive the answer of a source.

    Args:
        losses: Losses of the request.

    Raises:
        ConverseError: The response failed.
    """
    try:
        for loss in losses:
            assembler.feed(LossEvent(loss=loss))
        return await _receive(source, request, assembler, time.perf_counter())
    except Exception as error:
        raise ensure_ours(error)  # noqa: B904  # it is the same error, or has its cause already
    finally:
        await source.close()


async def _receive(
    source: EventSource, request: Request, assembler: Assembler, started: float
) -> Response:
    first_seconds: float | None = None
    while not assembler.is_complete:
        events = await source.receive()
        if events is None:
            raise produce_truncation()
        for event in events:
            if event.__class__ is not ContentDeltaEvent:
                assembler.feed(event)
                continue
            if first_seconds is None:
                first_seconds = time.perf_counter() - started
            assembler.feed_delta(event)
    return assembler.produce_response(
        request, duration_seconds=time.perf_counter() - started, first_seconds=first_seconds
    )
