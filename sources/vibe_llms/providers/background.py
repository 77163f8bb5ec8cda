"""Source of a response in the background, which outlives connections and processes.

The vendor stores the response and continues it without a connection. So a lost connection is opened
again, and events are read from where they broke off; without a stream, the response is polled. The
request is not sent again once its id is known.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.backgrounds import BackgroundFormat, ResponseState
from vibe_llms.dialects.processors import Decoder
from vibe_llms.events.stream import NativeEvent, ResponseStartedEvent, RetryEvent, StreamEvent
from vibe_llms.exceptions import ConverseError, StreamTruncatedError
from vibe_llms.foundation.clocks import compute_backoff
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.attempts import CONTENT_TYPES, Attempt
from vibe_llms.providers.rates import SettlingSource
from vibe_llms.providers.retries import RetryPolicy
from vibe_llms.providers.sources import WireSource
from vibe_llms.providers.streams import EventSource
from vibe_llms.providers.vendors import VendorClient
from vibe_llms.wire.exchanges import Exchange
from vibe_llms.wire.frames import Framer

_FIRST_POLL_SECONDS: Final = 0.5
_LAST_POLL_SECONDS: Final = 10.0
"""The waits between polls double from the first to the last."""

_CANCELLING_SECONDS: Final = 5.0
"""Maximum time for the request that cancels a response."""

_LOGGER = logging.getLogger("vibe_llms.providers")


class BackgroundDecoder:
    """Decoder that also follows the state of the response; one for all of its connections.

    Attributes:
        state: The id, and the position of the last event.
        is_polled: Whether the vendor has returned the state instead of a stream.
        has_failed: Whether the vendor sent an error or invalid data.
    """

    def __init__(self, decoder: Decoder, background: BackgroundFormat, response_id: str) -> None:
        self._decoder = decoder
        self._background = background
        self.state = ResponseState(id=response_id)
        self.is_polled = False
        self.has_failed = False
        self._has_started = False

    @property
    def is_complete(self) -> bool:
        """True if the vendor has completed the response."""
        return bool(getattr(self._decoder, "is_complete", False))

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        """Return the events of one frame, and follow the state. Raises ConverseError."""
        try:
            events = self._decoder.decode(data, event)
        except ConverseError:
            self.has_failed = True
            raise
        fields = _read_fields(data)
        if fields is not None:
            self._update(self._background.read_event(fields))
        return self._omit_second_start(events)

    def decode_response(self, body: Any) -> list[StreamEvent]:
        """Return the events of a body: of one that is not complete, only the start."""
        fields = _read_fields(body) or {}
        state = self._background.read_body(fields)
        self.is_polled = True
        self._update(state)
        if state.is_over or not state.id:
            try:
                return self._omit_second_start(self._decoder.decode_response(body))
            except ConverseError:
                self.has_failed = True
                raise
        model = fields.get("model")
        started = ResponseStartedEvent(
            response_id=state.id, model=model if isinstance(model, str) and model else None
        )
        return self._omit_second_start([started])

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Raises StreamTruncatedError before the end of the response."""
        if self.is_polled and not self.state.is_over:
            return []  # the next poll continues
        return self._decoder.finish()

    def _update(self, state: ResponseState) -> None:
        last = self.state
        self.state = ResponseState(
            id=last.id or state.id,
            is_over=last.is_over or state.is_over,
            position=state.position or last.position,
        )

    def _omit_second_start(self, events: list[StreamEvent]) -> list[StreamEvent]:
        if self._has_started:
            return [each for each in events if not isinstance(each, ResponseStartedEvent)]
        self._has_started = any(isinstance(each, ResponseStartedEvent) for each in events)
        return events


def _read_fields(data: bytes | Mapping[str, Any]) -> Mapping[str, Any] | None:
    if isinstance(data, Mapping):
        return data
    try:
        fields = msgspec.json.decode(data)
    except UNREADABLE:
        return None
    return fields if isinstance(fields, dict) else None


class _Connection:
    """One connection to the response: the request itself, or a request for its state or events."""

    def __init__(
        self, attempt: Attempt, decoder: BackgroundDecoder, open_exchange: Callable[..., Any]
    ) -> None:
        self._attempt = attempt
        self._decoder = decoder
        self._open_exchange = open_exchange

    def open_exchange(self) -> Awaitable[Exchange]:
        """Send the request of this connection."""
        exchange: Awaitable[Exchange] = self._open_exchange()
        return exchange

    def produce_decoder(self) -> Decoder:
        """Return the decoder of the response, which earlier connections have used, too."""
        return self._decoder

    def produce_framer(self) -> Framer:
        """Make the framer of this connection."""
        return self._attempt.produce_framer()

    def clean(self, error: ConverseError) -> ConverseError:
        """Sanitize an error."""
        return self._attempt.clean(error)

    def scrub(self, event: NativeEvent) -> NativeEvent:
        """Remove secrets from an unknown event of the vendor."""
        return self._attempt.scrub(event)


class BackgroundAttempt(Attempt):
    """One attempt of a request for a response in the background.

    Args:
        background: The requests about the response.
    """

    def __init__(
        self,
        client: VendorClient,
        model: ModelDescriptor,
        native: JsonObject,
        request: Request,
        streaming: bool,
        background: BackgroundFormat,
    ) -> None:
        super().__init__(client, model, native, request, streaming)
        self._background = background

    def produce_source(self) -> EventSource:
        """Return a source that sends the request when it is first read, unless it resumes one."""
        source = BackgroundSource(
            self,
            self._background,
            self._client,
            response_id=self._request.resume,
            streaming=self._streaming,
        )
        return (
            SettlingSource(source, self._ticket) if self._client.limiter.counts_tokens else source
        )

    def repeat(self) -> EventSource:
        """Return a source that sends the request again, as the first response has failed."""
        again = BackgroundAttempt(
            self._client,
            self._model,
            self._native,
            attrs.evolve(self._request, resume=""),
            self._streaming,
            self._background,
        )
        return again.produce_source()


class BackgroundSource:
    """An event source over a response in the background, and over as many connections as needed.

    Closing it before the end cancels the response at the vendor, unless it was detached or failed.

    Args:
        attempt: Sends the request, and makes the decoder.
        background: The requests about the response.
        client: Sends them.
        response_id: The id of a response that answers the request already; empty to send it.
        streaming: Whether to read events as they arrive; otherwise the response is polled.
        draw: Returns the jitter, from 0 to 1.
    """

    def __init__(
        self,
        attempt: Attempt,
        background: BackgroundFormat,
        client: VendorClient,
        *,
        response_id: str = "",
        streaming: bool,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._attempt = attempt
        self._background = background
        self._client = client
        self._policy = RetryPolicy.of(client.vendor.context.limits)
        self._draw = draw
        self._streaming = streaming
        self._decoder = BackgroundDecoder(attempt.produce_decoder(), background, response_id)
        self._source: WireSource | None = None
        self._wait = 0.0
        self._polls = 0
        self._failures = 0  # since the last event or state was received
        self._must_cancel = True
        self._is_detached: Callable[[], bool] = lambda: False
        # An id from an earlier process: the vendor may be unable to stream its events.
        self._may_refuse_stream = bool(response_id) and streaming

    @property
    def is_spent(self) -> bool:
        """True if the response was read completely, so that there is nothing to release."""
        return self._decoder.state.is_over and self._source is not None and self._source.is_spent

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events, at least one; ``None`` at the end. Raises ConverseError."""
        while True:
            if self._wait:
                wait, self._wait = self._wait, 0.0
                await self._client.vendor.context.clock.sleep(wait)
            if self._source is None:
                self._source = self._open()
            try:
                events = await self._source.receive()
            except ConverseError as error:
                retry = await self._handle(error)
                if retry is None:
                    continue
                return [retry]
            self._failures, self._may_refuse_stream = 0, False
            if events:
                return events
            if self._decoder.state.is_over or not self._decoder.state.id:
                return None
            await self._prepare_poll()

    def detach(self, when: Callable[[], bool]) -> None:
        """Let the vendor continue the response after this source is closed.

        Args:
            when: Called when the source is closed: whether the vendor should continue.
        """
        self._is_detached = when

    async def close(self) -> None:
        """Close the connection, and cancel the response unless it has ended or was detached."""
        if self._source is not None:
            await self._source.close()
        state = self._decoder.state
        if not state.id or state.is_over or not self._must_cancel or self._is_detached():
            return
        try:
            async with asyncio.timeout(_CANCELLING_SECONDS):
                await self._client.request_json(
                    "POST", self._background.compose_cancellation(state.id)
                )
        except (ConverseError, TimeoutError) as error:
            _LOGGER.warning(
                "The response %s of %s could not be cancelled, and may be billed: %s",
                state.id,
                self._client.vendor.context.name,
                error,
            )

    def _open(self) -> WireSource:
        """Return a source for the next connection."""
        vendor, state = self._client.vendor, self._decoder.state
        content_type = CONTENT_TYPES[vendor.framing] if self._streaming else "application/json"
        send: Callable[..., Any] = self._attempt.open_exchange
        if state.id:
            path = self._background.compose_retrieval(state.id, self._streaming, state.position)
            model = self._attempt.model_name

            def send() -> Awaitable[Exchange]:
                return self._client.send("GET", path, model=model)

        connection = _Connection(self._attempt, self._decoder, send)
        return WireSource(connection, content_type, vendor.request_id_headers)

    async def _prepare_poll(self) -> None:
        """Close the connection, and wait before the next poll."""
        self._streaming = False
        self._wait = compute_backoff(_FIRST_POLL_SECONDS, self._polls, _LAST_POLL_SECONDS)
        self._polls += 1
        await self._disconnect()

    async def _handle(self, error: ConverseError) -> RetryEvent | None:
        """Prepare to continue after an error.

        Returns:
            The event of the wait; ``None`` to continue at once.

        Raises:
            ConverseError: The error; it has the id of the response if that may be completed yet.
        """
        decoder, is_cut = self._decoder, isinstance(error, StreamTruncatedError)
        if not decoder.state.id:
            self._must_cancel = False
            raise error
        if decoder.has_failed and not is_cut:
            decoder.state = ResponseState(id=decoder.state.id, is_over=True)
            raise error
        decoder.has_failed = False
        if self._may_refuse_stream and not error.is_retryable:
            self._may_refuse_stream = self._streaming = False
            await self._disconnect()
            return None
        self._failures += 1
        wait = self._policy.decide(error, self._failures, self._draw())
        if wait is None:
            self._must_cancel = False
            if error.is_retryable or is_cut:
                error.keep_response(decoder.state.id)
            raise error
        await self._disconnect()
        self._wait = wait
        return RetryEvent(attempt=self._failures + 1, after_seconds=wait, error=error, resumes=True)

    async def _disconnect(self) -> None:
        source, self._source = self._source, None
        if source is not None:
            with suppress(ConverseError):
                await source.close()
