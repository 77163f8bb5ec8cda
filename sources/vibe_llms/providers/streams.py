"""The stream of a response: from a vendor's event source to consumers and reactors.

One loop for all vendors. It opens the source when the stream is first used, lets the assembler
complete each event, and notifies the reactors. However the stream ends, the consumer gets a final
event and the source is closed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from vibe_llms.events.stream import (
    ContentDeltaEvent,
    LossEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError, Stage, StreamTruncatedError
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import Translation
from vibe_llms.providers.simple_responses import SimpleResponseSource

if TYPE_CHECKING:  # a stream without reactors imports none of their events
    from vibe_llms.events.conversation import ConversationEvent, Ending
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.providers.answer_events import AnswerEventDispatcher


class EventSource(Protocol):
    """The source of a stream's events, which combines a transport, its framing and a decoder.

    ``receive`` returns the events of one read (at least one event), and ``None`` at the end. It is
    never called again after ``None`` or an error. ``receive`` may be cancelled while it waits; then
    ``close`` follows. ``close`` releases everything at once, in any state, and is called exactly
    once. A source may have an attribute ``is_spent``; once it is true, ``close`` is not called. If
    possible, connect in the first ``receive``, so that what happens before (such as a retry) can be
    reported as an event.
    """

    async def receive(self) -> Sequence[StreamEvent] | None: ...

    async def close(self) -> None: ...


def _always() -> bool:
    return True


def detach(source: object, when: Callable[[], bool] = _always) -> None:
    """Let the vendor continue a response in the background after its source is closed.

    Args:
        when: Called when the source is closed: whether the vendor should continue.
    """
    method = getattr(source, "detach", None)
    if method is not None:
        method(when)


class ResponseStream(Closing):
    """An ``AsyncStream`` over an event source.

    Args:
        request: The request.
        assembler: A new assembler for this response.
        open_source: Translates and sends the request; called once, when the stream is first used.
            Also returns the losses of the translation.
        reactors: Receive all events.
        limits: ``reactor_queue_events`` applies.
        streaming: Whether the answer was requested as a stream; for the reactors.
        dispatcher: Used instead of ``reactors`` if the start was already reported.
        started: The time of the start, by ``time.perf_counter``; by default the first use.
    """

    def __init__(
        self,
        *,
        request: Request,
        assembler: Assembler,
        open_source: Callable[[], Awaitable[Translation[EventSource]]],
        reactors: ConversationReactors | None = None,
        limits: Limits | None = None,
        streaming: bool = True,
        dispatcher: AnswerEventDispatcher | None = None,
        started: float | None = None,
    ) -> None:
        self._request = request
        self._assembler = assembler
        self._open_source = open_source
        self._reactors = reactors
        self._limits = limits
        self._streaming = streaming
        self._source: EventSource | None = None
        self._dispatcher = dispatcher
        self._events: AsyncIterator[StreamEvent] | None = None
        self._started = started or 0.0
        self._first_seconds: float | None = None
        self._response: Response | None = None
        self._error: ConverseError | None = None
        self._reader: asyncio.Task[object] | None = None
        self._cancellations: int | None = None  # of the reader, before `close` cancelled it
        self._cleaning: asyncio.Future[None] | None = None

    @property
    def canisters(self) -> tuple[AnyCanister, ...]:
        """The canisters received so far, marked as interrupted until the response is complete."""
        if self._response is not None:
            return self._response.canisters
        return self._assembler.produce_canisters()

    @property
    def text(self) -> AsyncIterator[str]:
        """The text of the answer as it arrives, without reasoning and tool calls."""
        from vibe_llms.providers.answer_texts import iterate_text

        return iterate_text(self)

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        if self._events is None:
            self._events = self._iterate()
        return self._events

    async def response(self) -> Response:
        """Receive the remaining events and return the response.

        Raises:
            ConverseError: The response failed, or the stream was closed early. The error's
                ``arrived`` are the canisters received so far.
        """
        async for _ in self:
            pass
        if self._response is not None:
            return self._response
        if self._error is not None:
            raise self._error
        error = ConverseError(
            detail="The stream was closed before its response was complete.",
            remedy="The received part is in its canisters.",
            stage=Stage.EXECUTE,
        )
        error.keep_arrived(self.canisters)
        raise error

    async def receive_complete(self) -> Response:
        """Receive everything and return the response; only if no other task uses the stream.

        Raises:
            ConverseError: The response failed; its ``arrived`` are the canisters received so far.
        """
        while await self.receive() is not None:  # in the end, this closes the stream
            pass
        assert self._response is not None  # no other task could close it
        return self._response

    def adopt_request(self, request: Request) -> None:
        """Set the request of the response, if it differs from that at the start."""
        self._request = request

    def detach(self, when: Callable[[], bool] = _always) -> None:
        """Let the vendor continue a response in the background after the stream is closed.

        Without this, closing the stream cancels the response. Call it after the first event.

        Args:
            when: Called when the stream is closed: whether the vendor should continue.
        """
        if self._source is not None:
            detach(self._source, when)

    async def close(self) -> None:
        """Stop the response, even if another task reads it. May be called again."""
        reader = self._reader
        # A task that closes the stream while it iterates must not cancel itself.
        must_cancel = reader is not None and reader is not asyncio.current_task()
        if reader is not None and must_cancel and self._cleaning is None:
            self._cancellations = reader.cancelling()
            reader.cancel()
        await self._end("interrupted")

    async def _iterate(self) -> AsyncIterator[StreamEvent]:
        try:
            while (batch := await self.receive()) is not None:
                for event in batch:
                    yield event
        finally:
            await self.close()

    async def receive(self) -> list[StreamEvent] | None:
        """Return the events of one read, completed; ``None`` at the end.

        For callers that forward events in batches instead of iterating. After the batch that ends
        with a failure, the next call raises its error.
        """
        if self._error is not None:
            raise self._error
        if self._cleaning is not None:
            return None
        self._reader = asyncio.current_task()
        try:
            if self._source is None:
                batch = await self._open()
            else:
                received = await self._source.receive()
                # Closed during the wait: do not report events that arrived later.
                batch = None if self._cleaning is not None else self._process(received)
            # Slow reactors pause the stream; otherwise their queue would grow without limit.
            if self._dispatcher is not None and self._dispatcher.is_full:
                await self._dispatcher.wait_for_room()
            if self._response is not None:
                # End before the last events are returned, as the caller may never read again.
                await self._end("completed")
            return batch
        except asyncio.CancelledError:
            await self._end("interrupted")
            if self._was_stopped():
                return None
            raise
        except Exception as error:
            return [await self._fail(ensure_ours(error))]
        except BaseException:
            await self._end("interrupted")
            raise
        finally:
            self._reader = None

    def _was_stopped(self) -> bool:
        """Return whether ``close``, in another task, cancelled the reader."""
        if self._reader is None or self._cancellations is None:
            return False
        # Undo the cancellation by the stream, unless the reader was also cancelled otherwise.
        return self._reader.uncancel() <= self._cancellations

    async def _open(self) -> list[StreamEvent] | None:
        self._started = self._started or time.perf_counter()
        if self._reactors is not None:
            from vibe_llms.providers.answer_events import AnswerEventDispatcher

            self._dispatcher = AnswerEventDispatcher(
                self._reactors, self._request.conversation_id, self._limits
            )
            self._dispatcher.dispatch_start(
                provider=self._assembler.provider,
                model=self._assembler.model,
                streaming=self._streaming,
            )
        opened = await self._open_source()
        if self._cleaning is not None:  # closed before there was a source to close
            await opened.value.close()
            return None
        self._source = opened.value
        if isinstance(opened.value, SimpleResponseSource):
            return self._process_simple(opened.value, opened.losses)
        return [self._process_event(LossEvent(loss=loss)) for loss in opened.losses]

    def _process_simple(
        self, answer: SimpleResponseSource, losses: Sequence[Loss]
    ) -> list[StreamEvent]:
        """Process a complete simple answer, which needs no assembler."""
        seconds = time.perf_counter() - self._started
        self._response = answer.produce_response(self._request, losses, seconds)
        events = answer.list_events(self._response, losses)
        if self._dispatcher is not None:
            self._dispatcher.dispatch_text(events, self._response.canisters[0].timestamp)
        return events

    def _process(self, received: Sequence[StreamEvent] | None) -> list[StreamEvent]:
        if received is None:
            raise produce_truncation()
        feed_delta = self._assembler.feed_delta
        dispatcher = self._dispatcher
        if dispatcher is not None:
            dispatcher.moment = access_now()
        listener = dispatcher if dispatcher is not None and dispatcher.wants_progress else None
        completed: list[StreamEvent] = []
        for event in received:
            # Fast path for pieces of text: faster than `isinstance` and `_process_event`.
            if event.__class__ is ContentDeltaEvent:
                event = feed_delta(event)
                if self._first_seconds is None:
                    self._first_seconds = time.perf_counter() - self._started
                if listener is not None and event.channel != "signature":
                    listener.dispatch_progress(event)
                completed.append(event)
            else:
                completed.append(self._process_event(event))
        return completed

    def _process_event(self, event: StreamEvent) -> StreamEvent:
        """Let the assembler complete an event, and notify the reactors."""
        event = self._assembler.feed(event)
        if isinstance(event, ResponseFinishedEvent):
            event = self._complete(event)
        if self._dispatcher is not None:
            self._dispatcher.dispatch_update(event)
        return event

    def _complete(self, event: ResponseFinishedEvent) -> ResponseFinishedEvent:
        self._response = self._assembler.produce_response(
            self._request,
            duration_seconds=time.perf_counter() - self._started,
            first_seconds=self._first_seconds,
        )
        return ResponseFinishedEvent(
            stop_reason=event.stop_reason,
            native_stop_reason=event.native_stop_reason,
            native=event.native,
            response=self._response,
        )

    async def _fail(self, error: ConverseError) -> ResponseFailedEvent:
        # Even if the response was complete, an error makes it a failed response.
        self._response = None
        assembler = self._assembler
        canisters = assembler.produce_canisters()
        error.keep_arrived(canisters, sent=assembler.attempts, missed=assembler.missed)
        self._error = error
        await self._end("failed")
        return ResponseFailedEvent(error=error, canisters=canisters)

    async def _end(self, outcome: Ending) -> None:
        """Close the source and let the reactors finish.

        Clean up only once, but all callers wait for the clean-up.
        """
        if self._cleaning is None:
            # If all events arrived before the stream was closed or cancelled, the response is
            # complete.
            outcome = "completed" if self._response is not None else outcome
            if self._has_ended_at_once(outcome):
                return
            if self._cleaning is None:
                # A separate task, so that cancelling the callers does not cancel the clean-up.
                self._cleaning = asyncio.ensure_future(self._clean(outcome))
        if self._dispatcher is not None and self._dispatcher.runs_in(asyncio.current_task()):
            return  # called by a reactor, for which the clean-up itself waits
        # A cancelled caller also waits for the clean-up, which has its own time limits.
        await finish(self._cleaning)

    def _has_ended_at_once(self, outcome: Ending) -> bool:
        """End without a task if there is nothing to wait for; return whether that was possible."""
        dispatcher = self._dispatcher
        if not getattr(self._source, "is_spent", False):
            return False
        if dispatcher is not None and not dispatcher.is_idle:
            return False
        self._cleaning = asyncio.get_running_loop().create_future()
        self._cleaning.set_result(None)
        if dispatcher is not None:
            rest = dispatcher.dispatch_all(self._produce_last_events(outcome))
            if rest or not dispatcher.is_idle:
                self._cleaning = asyncio.ensure_future(dispatcher.finish(*rest))
                return False
        return True

    async def _clean(self, outcome: Ending) -> None:
        try:
            if self._source is not None:
                await close_quietly(self._source, self._assembler.origin.provider)
        finally:
            if self._dispatcher is not None:
                await self._dispatcher.finish(*self._produce_last_events(outcome))

    def _produce_last_events(self, outcome: Ending) -> list[ConversationEvent]:
        assert self._dispatcher is not None
        return self._dispatcher.list_last(
            outcome, self.canisters, response=self._response, error=self._error
        )


async def close_quietly(source: EventSource, provider: str) -> None:
    """Close a source, and log errors."""
    try:
        await source.close()
    except Exception:
        # The answer, or the error that ended it, matters more than an error while closing.
        logging.getLogger("vibe_llms.providers").warning(
            "A stream of %s could not be closed.", provider, exc_info=True
        )


def produce_truncation() -> StreamTruncatedError:
    """Make the error of a source that ends before the response does."""
    return StreamTruncatedError(
        detail="The stream ended before its end marker.",
        remedy="The received part is kept. Send the request again.",
    )


def ensure_ours(error: Exception) -> ConverseError:
    """Convert a foreign error, which must come from a bug in a provider, to a ``ConverseError``."""
    if isinstance(error, ConverseError):
        return error
    text = " ".join(str(error).split())
    ours = ConverseError(
        detail=f"The provider failed: {type(error).__name__}: {text}".rstrip(": ") + ".",
        remedy="This is a bug of the provider; report it to its author.",
        stage=Stage.DECODE,
    )
    ours.__cause__ = error
    return ours
