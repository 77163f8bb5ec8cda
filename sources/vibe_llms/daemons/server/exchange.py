"""One request and its answer, from the view of an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from vibe_llms.daemons.server.asgi_types import BrokenAnswer, ClientGone, Message, Scope
from vibe_llms.daemons.server.heads import (
    BODILESS,
    LAST_CHUNK,
    compose_head,
    compose_last_chunk,
    compose_whole,
    encode_values,
    split_headers,
)

if TYPE_CHECKING:
    from vibe_llms.daemons.server.links import ConnectionLink
    from vibe_llms.daemons.server.request_heads import Head

_logger = logging.getLogger(__name__)

BUFFER_BYTES: Final = 65_536
"""Reading pauses with this many bytes of a body that the application has not received yet."""

_START: Final = "http.response.start"
_BODY: Final = "http.response.body"
_TRAILERS: Final = "http.response.trailers"


class ServedExchange:
    """Exchange with the application: one request and its answer.

    Args:
        connection: Connection of the request.
        head: Head of the request.
        body: Its body, if all of it has arrived.

    Attributes:
        fields: Headers of the request as texts, by their names in lower case.
        notes: See :class:`.Head`.
        is_received: Whether the request is complete.
        is_begun: Whether a part of the answer was written.
        is_complete: Whether all of the answer was written.
        is_gone: Whether the client disconnected, or must not be answered.
        keeps_alive: Whether another request may follow.
        buffered: Number of bytes of the body that the application has not received.
        task: Task of the application.
    """

    __slots__ = (
        "_connection",
        "_expects_continue",
        "_head",
        "_held",
        "_is_bodiless",
        "_is_chunked",
        "_is_delimited",
        "_is_http11",
        "_is_read",
        "_listener",
        "_pieces",
        "_remaining_bytes",
        "_waiter",
        "buffered",
        "fields",
        "is_begun",
        "is_complete",
        "is_gone",
        "is_received",
        "keeps_alive",
        "notes",
        "task",
    )

    def __init__(self, connection: ConnectionLink, head: Head, body: bytes | None = None) -> None:
        self._connection = connection
        self.fields, self.notes = head.fields, head.notes
        self._expects_continue = head.expects_continue
        self._is_http11 = head.version == "1.1"
        self._is_bodiless = head.method == "HEAD"
        self._pieces: list[bytes] = [body] if body else []
        self._waiter: asyncio.Future[None] | None = None
        self._listener: Callable[[], object] | None = None
        self._is_read = False
        self._head: Message | None = None
        self._held: bytes | None = None
        self.keeps_alive = head.keeps_alive
        self.is_received = body is not None
        self.is_begun = False
        self.is_complete = False
        self.is_gone = False
        self.buffered = len(body) if body else 0
        self.task: asyncio.Task[None] | None = None

    # --- for the connection --------------------------------------------------------------------

    def add_body(self, body: bytes) -> None:
        """Receive a part of the body; discard it if the answer is over."""
        if self.is_complete or self.is_gone:
            return
        if self._expects_continue:  # the client did not wait for 100 Continue
            self._expects_continue = False
            self._connection.start_body_timeout()
        self._pieces.append(body)
        self.buffered += len(body)
        if self._waiter is not None:
            self._wake()

    def finish(self) -> None:
        """Handle the end of the body."""
        self.is_received = True
        if self._waiter is not None:
            self._wake()

    def abandon(self) -> None:
        """End the exchange: the client disconnected, or must not be answered."""
        if self.is_gone or self.is_complete:
            return
        self.is_gone = True
        self._wake()
        listener, self._listener = self._listener, None
        if listener is not None:
            listener()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- for the application ---------------------------------------------------------------------

    async def run(self, scope: Scope) -> None:
        """Run the application, and clean up if it fails."""
        service = self._connection.service
        try:
            await service.application(scope, self.receive, self.send)
            # During a shutdown, applications end answers that would last forever.
            if not (self.is_complete or self.is_gone or service.is_ending):
                _logger.error("The application returned before its answer was complete")
        except BrokenAnswer as error:
            _logger.warning("An answer was cut off: %s", error)
        except Exception as error:
            # A client that disconnected is not an error of the application.
            if not (self.is_gone and isinstance(error, ClientGone)):
                _logger.error("The application failed", exc_info=error)
        finally:
            if self.task is not None:
                service.tasks.discard(self.task)
                self.task = None  # breaks a reference cycle: the task refers to this exchange
            if not (self.is_complete or self.is_gone):
                self._connection.fail(self, 503 if service.is_ending else 500)

    def watch(self, listener: Callable[[], object] | None) -> None:
        """Set a callback for when the client disconnects; ``None`` removes it.

        The callback is called in the event loop, at most once, and not after the answer is
        complete. If the client has already disconnected, the event loop calls it next.
        """
        self._listener = listener
        if listener is not None and self.is_gone:
            self._listener = None
            self._connection.service.loop.call_soon(listener)

    async def receive(self) -> Message:
        """Return the next part of the body, or a disconnect message."""
        while True:
            if self.is_gone or self.is_complete:
                return {"type": "http.disconnect"}
            if not self._is_read:
                if self._pieces or self.is_received:
                    return self._pop_body()
                if self._expects_continue:
                    self._expects_continue = False
                    self._connection.send_continue()
            if self._waiter is not None:
                raise RuntimeError("two tasks wait for one request")
            self._waiter = self._connection.service.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def _pop_body(self) -> Message:
        """Return the received part of the body, as a message."""
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.buffered = 0
        self._is_read = self.is_received
        if self._connection.is_reading_paused:
            self._connection.adjust_reading()
        return {"type": "http.request", "body": body, "more_body": not self._is_read}

    def take_body(self) -> bytes | None:
        """Return the whole body if it has arrived, and none of it was received; else ``None``."""
        pieces = self._pieces
        if not self.is_received or self._is_read or self.is_gone or self.is_complete:
            return None
        if len(pieces) > 1 or self._connection.is_reading_paused:
            return None
        self._is_read = True
        self.buffered = 0
        return pieces.pop() if pieces else b""

    def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Write a whole answer.

        Args:
            headers: Headers of the answer; its length is added.

        Raises:
            ClientGone: The client disconnected.
            RuntimeError: The answer is invalid, or has begun already.
        """
        if self.is_gone:
            raise ClientGone
        if self._head is not None or self.is_complete:
            raise RuntimeError("a whole answer is not allowed at this point")
        connection, head = self._connection, None
        is_usual = self.keeps_alive and self._is_http11 and not self._is_bodiless
        if is_usual and self.is_received and not connection.service.is_ending:
            head = compose_whole(status, headers, connection.service.date, len(body))
        if head is None:
            values = encode_values(headers.values())
            head = self._compose(status, tuple(headers), values, len(body), len(body))
        self.is_begun = True
        connection.transport.write(head if self._is_bodiless else head + body)
        self.is_complete = True
        self._listener = None
        connection.conclude(self)

    async def send(self, message: Message) -> None:
        """Write a part of the application's answer.

        Waits while the client does not read earlier output.

        Raises:
            ClientGone: The client disconnected.
            RuntimeError: The message is invalid, or out of order.
        """
        if self.is_gone:
            raise ClientGone
        kind = message["type"]
        if kind == _BODY and not self.is_complete and self._held is None:
            body = message.get("body", b"")
            has_more = message.get("more_body", False)
            if not has_more and self._head is not None and self._head.get("trailers"):
                self._hold_until_trailers(body)
                return
            if not self.is_begun:
                data = self._begin(len(body), has_more) + self._frame(body, has_more)
                self.is_begun = True
            elif self._is_chunked and body and has_more:
                data = b"%x\r\n%b\r\n" % (len(body), body)
            else:
                data = self._frame(body, has_more)
            if data:
                self._connection.transport.write(data)
            if not has_more:
                self._complete()
            elif self._connection.is_writing_paused:
                await self._connection.wait_until_writable(self)
        elif kind == _TRAILERS and self._held is not None:
            if not message.get("more_trailers", False):
                self._connection.transport.write(self._held + self._end(message.get("headers", ())))
                self._complete()
        elif kind == _START and self._head is None:
            self._head = message  # ASGI: nothing is sent before the first part of the body
        else:
            raise RuntimeError(f"{kind} is not allowed at this point of an answer")

    def _complete(self) -> None:
        self.is_complete = True
        self._listener = None
        if self._waiter is not None:
            self._wake()
        self._connection.conclude(self)

    def _hold_until_trailers(self, body: bytes) -> None:
        """Hold the last part of the body until its trailers are known."""
        head = b"" if self.is_begun else self._begin(len(body), True)
        self.is_begun = True
        self._held = head + self._frame(body, True)

    def _end(self, trailers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Return the end of a chunked body, with its trailers; other bodies need no end."""
        if not self._is_chunked:
            return b""
        try:
            return compose_last_chunk(trailers)
        except ValueError as error:
            raise RuntimeError(f"Invalid trailers: {error}") from error

    def _begin(self, size: int, has_more: bool) -> bytes:
        """Return the head of the answer."""
        message = self._head
        if message is None:
            raise RuntimeError(f"{_START} must come before {_BODY}")
        names, values = split_headers(message.get("headers", ()))
        return self._compose(message["status"], names, values, None, None if has_more else size)

    def _compose(
        self,
        status: int,
        names: tuple[str | bytes, ...],
        values: tuple[bytes, ...],
        length: int | None,
        size: int | None,
    ) -> bytes:
        """Return the head of the answer, and decide about its framing.

        Args:
            length: Length of the body that the application gives, beside its headers.
            size: Length of the body if it is complete.
        """
        self._is_chunked = False
        self._is_delimited = True
        self._remaining_bytes: int | None = None
        service = self._connection.service
        try:
            head, named_length, closes = compose_head(status, names, values, service.date)
        except ValueError as error:
            raise RuntimeError(f"Invalid head of an answer: {error}") from error
        # If the request is not completely read, the connection cannot be used for another one.
        self.keeps_alive = (
            self.keeps_alive and not closes and self.is_received and not service.is_ending
        )
        framing = b""
        length = named_length if length is None else length
        has_length = length is not None
        if length is None:
            length = size
        if status in BODILESS:
            self._is_bodiless = True
        elif length is not None:
            if not self._is_bodiless:
                self._remaining_bytes = length
            # The answer to HEAD has only a length that the application gave.
            if has_length or not self._is_bodiless:
                framing = b"content-length: %d\r\n" % length
        elif self._is_http11:
            self._is_chunked = not self._is_bodiless
            framing = b"transfer-encoding: chunked\r\n"
        else:  # in HTTP/1.0, the end of the connection is the end of the body
            self._is_delimited = self.keeps_alive = False
        if not self.keeps_alive:
            framing += b"connection: close\r\n"
        elif not self._is_http11:
            framing += b"connection: keep-alive\r\n"
        return b"%b%b\r\n" % (head, framing)

    def _frame(self, body: bytes, has_more: bool) -> bytes:
        """Return a part of the body in its encoding on the wire."""
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            return data if has_more else data + LAST_CHUNK
        if self._is_bodiless:
            return b""
        if self._remaining_bytes is not None:
            self._remaining_bytes -= len(body)
            if self._remaining_bytes < 0 or (self._remaining_bytes and not has_more):
                raise RuntimeError("The length of the body differs from content-length")
        return body

    @property
    def is_delimited(self) -> bool:
        """True if the client can detect that an answer is truncated."""
        return self._is_delimited
