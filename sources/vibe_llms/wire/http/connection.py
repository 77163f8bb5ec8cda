"""Client connection: writes a request and waits for the response, with timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, cast

from vibe_llms.wire.http.faults import Left, NotHttp, Overdue
from vibe_llms.wire.http.receive_buffer import reading
from vibe_llms.wire.http.response_parser import AnswerReader

_BUFFER_BYTES: Final = 131_072
"""Limit of buffered bytes; above it, reading pauses until the caller takes them."""

_TOGETHER_BYTES: Final = 32_768
"""Up to this size a body is written together with its head."""

_PIECE_BYTES: Final = 262_144
"""Size of the pieces in which a longer body is sent."""


class HttpConnection(asyncio.BufferedProtocol):
    """Connection for one request and its response at a time.

    The owner calls :meth:`ask`, then :meth:`wait_until_ready`, then :meth:`take` and :meth:`wait`
    until :attr:`is_over`. The connection can be used again if it :attr:`is_free`. Only one task
    at a time may wait.

    Args:
        address: Scheme, host and port.
        on_lost: Callback for the end of the connection.

    Attributes:
        answer: Parser of the response.
        fault: Reason for the early end of the response: one of ``faults``, or a plain
            ConnectionError. Bytes that arrived before can be taken.
        is_lost: The connection is closed.
    """

    __slots__ = (
        "_buffered",
        "_due",
        "_is_asked",
        "_is_paused",
        "_is_writing_paused",
        "_loop",
        "_on_lost",
        "_phase",
        "_timer",
        "_timer_due",
        "_total_due",
        "_transport",
        "_unsent",
        "_waiter",
        "address",
        "answer",
        "fault",
        "is_lost",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        address: str,
        on_lost: Callable[[HttpConnection], None] | None = None,
    ) -> None:
        self._loop = loop
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = inf
        self._total_due = inf
        self._due = inf
        self._phase = ""
        self._waiter: asyncio.Future[None] | None = None
        self._unsent: memoryview | None = None
        self._is_writing_paused = False
        self._is_asked = False
        self._is_paused = False
        self._buffered = 0
        self.address = address
        self.answer = AnswerReader()
        self.fault: Exception | None = None
        self.is_lost = False

    # What its owner does

    def ask(
        self, head: bytes, body: bytes = b"", *, is_bodiless: bool = False, deadline: float = inf
    ) -> None:
        """Start sending a request.

        Args:
            is_bodiless: The response has no body, regardless of its headers.
            deadline: Deadline of the whole exchange, by the clock of the event loop.
        """
        self.answer.begin(is_bodiless=is_bodiless)
        self._is_asked = True
        self._total_due = deadline
        if self._transport is None or self.is_closing:
            self.fault = ConnectionError()
        elif len(body) <= _TOGETHER_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._send_more()

    def _send_more(self) -> None:
        """Send a piece of the body; other tasks run before the next one."""
        unsent, transport = self._unsent, self._transport
        if unsent is None or transport is None or self._is_writing_paused:
            return
        self._unsent = unsent[_PIECE_BYTES:] if len(unsent) > _PIECE_BYTES else None
        transport.write(unsent[:_PIECE_BYTES])
        if self._unsent is not None and not self._is_writing_paused:
            self._loop.call_soon(self._send_more)

    async def wait(self, seconds: float | None, phase: str) -> None:
        """Wait for bytes or a fault.

        Args:
            seconds: Timeout; then the fault is :class:`Overdue`.
            phase: Name of the timeout.
        """
        due = inf if seconds is None else self._loop.time() + seconds
        waiter = self._expect(due, phase)
        try:
            await waiter
        finally:
            self._forget_waiter()

    async def wait_until_ready(self, seconds: float | None, phase: str) -> None:
        """Wait for the headers of the response. Raise the fault if they do not arrive."""
        due = inf if seconds is None else self._loop.time() + seconds
        while not self.answer.is_ready:
            if self.fault is not None:
                raise self.fault
            waiter = self._expect(due, phase)
            try:
                await waiter
            finally:
                self._waiter, self._due = None, inf

    def _expect(self, due: float, phase: str) -> asyncio.Future[None]:
        """Return a future for the next bytes or fault; the caller forgets it afterwards."""
        if self._waiter is not None:
            raise RuntimeError("two tasks wait for one answer")
        self._phase = phase
        self._due = due
        if due < self._timer_due or self._total_due < self._timer_due:
            self._set_timer()
        waiter = self._waiter = self._loop.create_future()
        return waiter

    def _forget_waiter(self) -> None:
        self._waiter = None
        self._due = inf

    @property
    def is_over(self) -> bool:
        """True once the response is complete or has failed."""
        return self.answer.is_complete or self.fault is not None

    def take(self) -> bytes:
        """Return buffered bytes of the body."""
        pieces = self.answer.pieces
        if not pieces:
            return b""
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._buffered = 0
        if self._is_paused:
            self._is_paused = False
            if not self.is_lost:
                self.transport.resume_reading()
        return data

    @property
    def is_closing(self) -> bool:
        """True once the connection is closed or closing."""
        return self.is_lost or self._transport is None or self._transport.is_closing()

    @property
    def is_free(self) -> bool:
        """True if the response is complete and the connection can be used again."""
        answer = self.answer
        # Some servers respond before they have read the request: its rest would begin the next.
        is_done = answer.is_complete and answer.is_kept and self._unsent is None
        return is_done and not self.is_closing

    def rest(self, seconds: float) -> None:
        """Keep the connection idle for another request; close it after a timeout."""
        self._is_asked = False
        self._total_due = inf
        due = self._due = self._loop.time() + seconds
        if due < self._timer_due:
            self._set_timer()

    def leave(self) -> None:
        """Close the connection at once, even in the middle of an exchange."""
        self._fail(Left())

    # Timeouts

    def _set_timer(self) -> None:
        """Schedule a look at the next deadline; one that is too early schedules another."""
        due = min(self._due, self._total_due)
        if due < self._timer_due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_due = due
            self._timer = self._loop.call_at(due, self._look)

    def _look(self) -> None:
        self._timer, self._timer_due = None, inf
        now = self._loop.time()
        if now < min(self._due, self._total_due):
            self._set_timer()
        else:
            self._fail(Overdue("total" if now >= self._total_due else self._phase))

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection."""
        self._transport = cast(asyncio.Transport, transport)

    def begin_anew(self, transport: asyncio.BaseTransport) -> None:
        """Switch to TLS, in the tunnel of a proxy."""
        self._transport = cast(asyncio.Transport, transport)
        self.answer = AnswerReader()  # bytes from before TLS are not a response

    @property
    def transport(self) -> asyncio.Transport:
        """Transport of a connection that was made."""
        assert self._transport is not None
        return self._transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return reading.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle received bytes."""
        answer = self.answer
        if not self._is_asked:
            self._fail(NotHttp())  # unrequested bytes
            return
        fault = answer.feed(reading.buffer[:nbytes])
        if fault is not None:
            self._fail(fault)
            return
        self._buffered += nbytes
        if self._buffered > _BUFFER_BYTES and not self._is_paused and not answer.is_complete:
            self._is_paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Let asyncio close the connection; see :meth:`connection_lost`."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the end of the connection."""
        self.is_lost = True
        self._unsent = None
        if self._is_asked and not self.is_over:
            self.fault = self.answer.end()  # which completes some responses
            if exc is not None:
                self.fault = self.fault or ConnectionError()
                self.fault.__cause__ = exc
        self._end()
        if self._on_lost is not None:
            self._on_lost(self)
            self._on_lost = None

    def pause_writing(self) -> None:
        """Stop writing: the buffer of the transport is full."""
        self._is_writing_paused = True

    def resume_writing(self) -> None:
        """Continue writing."""
        self._is_writing_paused = False
        self._send_more()

    def _fail(self, fault: Exception) -> None:
        # A complete response stays complete.
        if not self.is_over:
            self.fault = fault
        if self._transport is not None:
            self._transport.abort()  # closing would wait for the write buffer
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_due = None, inf
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
