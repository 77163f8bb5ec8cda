"""Sources of answers over the network: from bytes through frames and the decoder to events."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import attrs

from vibe_llms.dialects.processors import Decoder
from vibe_llms.dialects.simple_responses import SimpleResponse
from vibe_llms.events.stream import NativeEvent, ResponseStartedEvent, StreamEvent
from vibe_llms.exceptions import ConverseError, RequestError, Stage, StreamTruncatedError
from vibe_llms.foundation.json_types import JsonObject, is_encodable
from vibe_llms.wire.exchanges import Exchange
from vibe_llms.wire.frames import Framer
from vibe_llms.wire.selection import (
    JSON,
    AnswerFormat,
    read_kind,
    recognize_format,
    refuse_answer,
    strip_beginning,
)


def _convert_invalid_answer(error: RequestError) -> ConverseError:
    """Convert a validation error of our classes to one about the values in the answer."""
    return ConverseError(detail=f"Invalid answer: {error.detail}", stage=Stage.DECODE)


def _convert_invalid_end(error: ConverseError) -> ConverseError:
    """Convert the error of an invalid last event to that of a truncated stream."""
    if type(error) is not ConverseError or not isinstance(error.__cause__, ValueError):
        return error
    return StreamTruncatedError(
        detail="The stream ended within an event, before its response was complete.",
        remedy="The received part is kept. Send the request again.",
    )


class SourceAttempt(Protocol):
    """The part of :class:`.attempts.Attempt` that a source uses."""

    def open_exchange(self) -> Awaitable[Exchange]:
        """Send the request; the status of its answer is not an error."""

    def produce_decoder(self) -> Decoder:
        """Make the decoder for the answer."""

    def produce_framer(self) -> Framer:
        """Make the framer of a streamed answer."""

    def clean(self, error: ConverseError) -> ConverseError:
        """Sanitize an error; see :func:`vibe_llms.providers.sanitization.clean_error`."""

    def scrub(self, event: NativeEvent) -> NativeEvent:
        """Remove secrets from an unknown event of the vendor."""


class WireSource:
    """An event source over one exchange, which is opened by the first read.

    Args:
        attempt: Sends the request, and makes the decoder and framer.
        content_type: The requested content type: JSON, or that of a stream. An answer of another
            type is read according to that type.
        request_id_headers: Headers with the vendor's id of the request.
    """

    def __init__(
        self, attempt: SourceAttempt, content_type: str, request_id_headers: Sequence[str] = ()
    ) -> None:
        self._attempt = attempt
        self._content_type = content_type
        self._request_id_headers = request_id_headers
        self._decoder: Decoder | None = None
        self._may_be_complete = False
        self._exchange: Exchange | None = None
        self._framer: Framer | None = None
        self._beginning = b""
        self._request_id: str | None = None
        self._error: ConverseError | None = None
        self._ended = False
        self._has_rest = False

    async def receive_simple(
        self, read: Callable[[bytes], SimpleResponse | None], max_bytes: int
    ) -> SimpleResponse | None:
        """Return a complete simple answer (fast path).

        ``None`` means another kind of answer, or an error: then continue with :meth:`receive`.

        Args:
            read: Reads a simple answer, and returns ``None`` for any other.
            max_bytes: Maximum size of an event of a stream.
        """
        try:
            exchange = await self._attempt.open_exchange()
            self._accept(exchange)
            self._beginning = strip_beginning(await exchange.receive())
        except ConverseError as error:
            self._error = error
            return None
        if not exchange.is_spent or len(self._beginning) > max_bytes:
            return None
        return read(self._beginning)

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events, at least one; ``None`` at the end. Raises ConverseError."""
        try:
            if self._error is not None:
                raise self._error
            exchange = self._exchange
            if exchange is None:
                exchange = await self._attempt.open_exchange()
                self._accept(exchange)
            events: list[StreamEvent] = []
            if self._framer is None and not self._ended:
                events += await self._begin(exchange)
            while not events and not self._ended:
                self._read(await exchange.receive(), events)
        except ConverseError as error:
            # Before an answer has arrived, a RequestError is about the request itself.
            if type(error) is RequestError and self._is_vendors_error():
                converted = _convert_invalid_answer(error)
                converted.__cause__ = error  # before sanitizing: the message is the vendor's
                raise self._attempt.clean(converted) from converted.__cause__
            raise self._attempt.clean(error)  # noqa: B904  # it is the same error
        scrub = self._attempt.scrub
        events = [scrub(each) if type(each) is NativeEvent else each for each in events]
        if self._request_id is not None:
            return self._name_request(events)
        return events or None

    @property
    def is_spent(self) -> bool:
        """True if the answer was read completely, so that the connection is released already."""
        return self._ended and self._exchange is not None and self._exchange.is_spent

    @property
    def request_id(self) -> str | None:
        """The vendor's id of the request, until an event has reported it."""
        return self._request_id

    async def close(self) -> None:
        """Close the connection, unless the answer was read to its end.

        If the vendor has completed its response, the end of the stream has usually arrived, too;
        wait a short time for it, so that the connection can be reused.
        """
        if self._exchange is None:
            return
        if self._has_rest:
            with suppress(ConverseError, TimeoutError):
                async with asyncio.timeout(_DRAINING_SECONDS):
                    while await self._exchange.receive():
                        pass
        await self._exchange.close()

    def _is_vendors_error(self) -> bool:
        """Return whether a RequestError is caused by invalid data in the answer."""
        return self._exchange is not None and not getattr(self._decoder, "relays_errors", False)

    def _accept(self, exchange: Exchange) -> None:
        """Store an answer, and the vendor's id of the request."""
        self._exchange = exchange
        headers = exchange.headers
        for name in self._request_id_headers:
            request_id = headers.get(name, "")
            if request_id and is_encodable(request_id):  # ignore bytes that are not text
                self._request_id = request_id
                return

    async def _begin(self, exchange: Exchange) -> list[StreamEvent]:
        """Detect the format of the answer; return its first events, or all of a complete answer."""
        kind, requested, is_over = read_kind(exchange.headers), self._content_type, False
        answer_format = recognize_format(self._beginning, kind, requested)
        while answer_format is AnswerFormat.UNCLEAR:
            data = await exchange.receive()
            is_over = not data
            self._beginning = strip_beginning(self._beginning + data)
            answer_format = recognize_format(self._beginning, kind, requested, is_over=is_over)
        if answer_format is AnswerFormat.FOREIGN:
            expected = dict.fromkeys((JSON, self._content_type))
            raise await refuse_answer(exchange, tuple(expected), self._beginning)
        decoder = self._decoder = self._attempt.produce_decoder()
        self._may_be_complete = hasattr(decoder, "is_complete")  # a content type is optional
        beginning, self._beginning = self._beginning, b""
        events: list[StreamEvent] = []
        if answer_format is AnswerFormat.STREAM:
            self._framer = self._attempt.produce_framer()
            if beginning:
                self._read(beginning, events)
            if is_over:
                self._read(b"", events)
            return events
        body = beginning if is_over else beginning + await exchange.read()
        self._ended = True
        return decoder.decode_response(body)

    def _read(self, data: bytes, events: list[StreamEvent]) -> None:
        """Append the events in some bytes; raise an error only after the events before it."""
        framer, decoder = self._framer, self._decoder
        assert framer is not None
        assert decoder is not None
        is_cut = not data and framer.has_pending
        try:
            for frame in framer.feed(data) if data else framer.finish():
                events += decoder.decode(frame.data, frame.event)
                if self._may_be_complete and decoder.is_complete:  # type: ignore[attr-defined]
                    self._ended, self._has_rest = True, bool(data)
                    events += decoder.finish()
                    return
            if not data:
                self._ended = True
                events += decoder.finish()
        except ConverseError as error:
            self._error = _convert_invalid_end(error) if is_cut else error
            if not events:
                raise self._error from error.__cause__

    def _name_request(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """Add the vendor's id of the request to the event that begins the response."""
        request_id, self._request_id = self._request_id, None
        if request_id is None:
            return events
        for index, event in enumerate(events):
            if isinstance(event, ResponseStartedEvent):
                events[index] = attrs.evolve(event, request_id=request_id)
                return events
        self._request_id = request_id  # for later events
        return events


async def read_problem(exchange: Exchange) -> JsonObject | str:
    """Read the body of an answer with an error status: data if it is JSON, else a text."""
    async with exchange:
        try:
            return decode_problem(await exchange.read(_PROBLEM_BYTES))
        except ConverseError:
            return ""


def decode_problem(body: bytes) -> JsonObject | str:
    """Decode the body of an error: data if it is JSON, else a text."""
    import msgspec

    from vibe_llms.foundation.json_errors import UNREADABLE

    try:
        problem = msgspec.json.decode(body)
    except UNREADABLE:
        return body.decode("utf-8", "replace")
    # As at the end of Gemini's streams, which are lists.
    if isinstance(problem, list) and len(problem) == 1:
        problem = problem[0]
    return problem if isinstance(problem, Mapping) else {"error": problem}


_DRAINING_SECONDS = 0.05
"""Maximum wait for the end of a stream after the end of its response."""

_PROBLEM_BYTES = 1_048_576
"""Maximum bytes of an error that are read: more than any vendor sends."""
