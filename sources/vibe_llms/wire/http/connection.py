"""Client connection: writes a request and waits for the response, with timeouts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Final, cast

from vibe_llms.wire.http.faults import ClosedByUs, NotHttp, TimedOut
from vibe_llms.wire.http.receive_buffer import reading
from vibe_llms.wire.http.response_parser import AnswerReader

_BUFFER_BYTES: Final = 131_072
"""Limit of buffered bytes; above it, reading pauses until the caller takes them."""

_MAX_JOINED_BYTES: Final = 32_768
"""Bodies up to this size are written together with the head."""

_PIECE_BYTES: Final = 262_144
"""Size of the pieces in which a longer body is sent."""


class HttpConnection(asyncio.BufferedProtocol):
    """Connection for one request and its response at a time.

    The owner calls :meth:`send`, then :meth:`wait_until_ready`, then :meth:`read_buffered` and
    :meth:`wait` until :attr:`is_over`. The connection can be used again if it :attr:`is_free`. Only
    one task may wait at a time.

    Args:
        address: Scheme, host and port.
        on_lost: Callback for the end of the connection.

    Attributes:
        answer: Parser of the response.
        fault: Why the response ended early: one of ``faults``, or a plain ConnectionError. Bytes
            that arrived before can still be read.
        is_lost: Whether the connection is closed.
    """

    __slots__ = (
        "_buffered",
        "_due",
        "_is_in_use",
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
        self._is_in_use = False
        self._is_paused = False
        self._buffered = 0
        self.address = address
        self.answer = AnswerReader()
        self.fault: Exception | None = None
        self.is_lost = False

    # Methods for the owner

    def send(
        self, head: bytes, body: bytes = b"", *, is_bodiless: bool = False, deadline: float = inf
    ) -> None:
        """Start sending a request.

        Args:
            is_bodiless: Whether the response has no body, regardless of its headers.
            deadline: Deadline of the whole exchange, by the clock of the event loop.
        """
        self.answer.begin(is_bodiless=is_bodiless)
        self._is_in_use = True
        self._total_due = deadline
        transport = self._transport
        if transport is None or self.is_lost or transport.is_closing():
            self.fault = ConnectionError()
        elif len(body) <= _MAX_JOINED_BYTES:
            transport.write(head + body)
        else:
            transport.write(head)
            self._unsent = memoryview(body)
            self._send_piece()

    def _send_piece(self) -> None:
        """Send a piece of the body; other tasks run before the next one."""
        unsent, transport = self._unsent, self._transport
        if unsent is None or transport is None or self._is_writing_paused:
            return
        self._unsent = unsent[_PIECE_BYTES:] if len(unsent) > _PIECE_BYTES else None
        transport.write(unsent[:_PIECE_BYTES])
        if self._unsent is not None and not self._is_writing_paused:
            self._loop.call_soon(self._send_piece)

    async def wait(self, seconds: float | None, phase: str) -> None:
        """Wait for bytes or a fault.

        Args:
            seconds: Timeout, after which the fault is :class:`TimedOut`.
            phase: Name of the timeout.
        """
        due = inf if seconds is None else self._loop.time() + seconds
        waiter = self._create_waiter(due, phase)
        try:
            await waiter
        finally:
            self._forget_waiter()

    def expect_head(self, due: float, phase: str) -> asyncio.Future[None] | None:
        """Return a future for more of the response's head; ``None`` once the head has arrived.

        Raises:
            Exception: The fault, if the head will not arrive.
        """
        if self._waiter is not None and self._waiter.done():
            self._forget_waiter()
        if self.answer.is_ready:
            return None
        if self.fault is not None:
            raise self.fault
        return self._create_waiter(due, phase)

    async def wait_until_ready(self, seconds: float | None, phase: str) -> None:
        """Wait for the headers of the response; raise the fault if they do not arrive."""
        due = inf if seconds is None else self._loop.time() + seconds
        while (waiter := self.expect_head(due, phase)) is not None:
            await waiter

    def _create_waiter(self, due: float, phase: str) -> asyncio.Future[None]:
        """Return a future for the next bytes or fault. The caller removes it afterwards."""
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

    def read_buffered(self) -> bytes:
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
        # Some servers respond before they have read the whole request; then the unsent rest would
        # be taken for the next request.
        is_done = answer.is_complete and answer.keeps_alive and self._unsent is None
        return is_done and not self.is_closing

    def keep_idle(self, seconds: float) -> None:
        """Keep the connection idle for another request; close it after a timeout."""
        self._is_in_use = False
        self._total_due = inf
        due = self._due = self._loop.time() + seconds
        if due < self._timer_due:
            self._set_timer()

    def abort(self) -> None:
        """Close the connection at once, even in the middle of an exchange."""
        self._fail(ClosedByUs())

    # Timeouts

    def _set_timer(self) -> None:
        """Schedule a check of the next deadline, unless an earlier check is scheduled already."""
        due = min(self._due, self._total_due)
        if due < self._timer_due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_due = due
            self._timer = self._loop.call_at(due, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer, self._timer_due = None, inf
        now = self._loop.time()
        if now < min(self._due, self._total_due):
            self._set_timer()
        else:
            self._fail(TimedOut("total" if now >= self._total_due else self._phase))

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection."""
        self._transport = cast(asyncio.Transport, transport)

    def switch_transport(self, transport: asyncio.BaseTransport) -> None:
        """Continue on another transport: TLS in the tunnel of a proxy."""
        self._transport = cast(asyncio.Transport, transport)
        self.answer = AnswerReader()  # discard bytes from before TLS

    @property
    def transport(self) -> asyncio.Transport:
        """The transport of an open connection."""
        assert self._transport is not None
        return self._transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return reading.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle received bytes."""
        answer = self.answer
        if not self._is_in_use:
            self._fail(NotHttp())  # no request was sent
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
        if self._is_in_use and not self.is_over:
            # None if the end of the connection completes the response.
            self.fault = self.answer.end()
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
        self._send_piece()

    def _fail(self, fault: Exception) -> None:
        # A complete response stays complete.
        if not self.is_over:
            self.fault = fault
        if self._transport is not None:
            self._transport.abort()  # close() would wait for the write buffer
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer, self._timer_due = None, inf
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
