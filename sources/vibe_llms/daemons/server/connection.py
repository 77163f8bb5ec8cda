"""Connection of a client: requests and their answers in order, with limits and timeouts."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Coroutine
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast

from vibe_llms.daemons.server.asgi_types import ClientGone, Scope
from vibe_llms.daemons.server.exchange import BUFFER_BYTES, ServedExchange
from vibe_llms.daemons.server.heads import CONTINUE, compose_refusal
from vibe_llms.daemons.server.peers import Peer, describe_peer
from vibe_llms.daemons.server.request_heads import Head
from vibe_llms.daemons.server.requests import RequestReader
from vibe_llms.daemons.server.scopes import compose_scope
from vibe_llms.daemons.server.service import ServedApplication
from vibe_llms.daemons.server.upgrades import MALFORMED_UPGRADE, Upgrade, begin_upgrade
from vibe_llms.wire.http.receive_buffer import reading

if TYPE_CHECKING:
    from vibe_llms.daemons.server.websocket import WebSocket

_logger = logging.getLogger(__name__)

_WAITING_REQUESTS: Final = 64
"""Maximum of queued requests per connection. The connection is closed after the last one."""

_PAUSE_ABOVE: Final = 8
"""Number of queued requests above which reading pauses."""

_REMEMBER_SECONDS: Final = 10.0
"""Seconds for which an idle connection remembers its last head, which takes half of its memory."""

LINGER_SECONDS: Final = 2.0
_LINGER_BYTES: Final = 67_108_864
"""Limits for discarding input after the last response (a lingering close); with TLS, the client has
this time to send its close notification, too.

Closing at once, with unread input, would destroy the last response before the client reads it.
"""

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""Value of ``SO_LINGER`` with which closing resets the connection."""


class IncomingConnection(asyncio.BufferedProtocol):
    """Connection that reads requests, runs the application for each in order, and times them out.

    :class:`.ServedApplication` calls :meth:`check_timeouts` at intervals.

    Args:
        service: Shared state of all connections of a server.
        connected: Socket of the connection; the event loop owns it once the connection begins.
        is_surplus: Whether the connection exceeds the limit, so that it gets only an error.

    Attributes:
        transport: Transport of the event loop.
        is_reading_paused: Whether no more input is read, as much is buffered.
        is_writing_paused: Whether the client does not read sent data.
    """

    __slots__ = (
        "_answer_due",
        "_body_seconds",
        "_buffer",
        "_current",
        "_discardable_bytes",
        "_ignores_input",
        "_incoming",
        "_input_due",
        "_is_surplus",
        "_last_response",
        "_output_due",
        "_peer",
        "_queue",
        "_reader",
        "_since",
        "_socket",
        "_upgrade",
        "_websocket",
        "_write_waiters",
        "is_reading_paused",
        "is_writing_paused",
        "service",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(
        self, service: ServedApplication, connected: socket.socket, *, is_surplus: bool = False
    ) -> None:
        self.service = service
        self._socket = connected
        self._reader = RequestReader(self, service.settings.header_bytes)
        self._peer: Peer
        self._upgrade: Upgrade
        self._is_surplus = is_surplus
        self._current: ServedExchange | None = None
        self._incoming: ServedExchange | None = None
        # Not a deque: an empty one uses as much memory as the rest of an idle connection.
        self._queue: list[tuple[ServedExchange, Scope]] = []
        self._write_waiters: list[asyncio.Future[None]] = []
        self._websocket: WebSocket | None = None
        self._last_response = b""
        self._discardable_bytes = _LINGER_BYTES
        self._ignores_input = False
        self.is_reading_paused = False
        self._body_seconds = 0.0  # remaining time for a body while reading is paused
        self._input_due = inf
        self._answer_due = inf
        self._output_due = inf
        self._since = service.loop.time()
        self.is_writing_paused = False

    # --- callbacks of the event loop -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Handle a new connection, after the TLS handshake."""
        self._buffer = reading.buffer  # slow to find, and a server's loop never changes its thread
        self.transport = cast(asyncio.Transport, transport)
        self._peer = describe_peer(self.transport)
        self.service.connections.add(self)
        self.service.handshaking.discard(self._socket)
        if self._is_surplus:
            self._refuse(503)
        elif self.service.is_ending:
            self.shut()
        else:
            self._input_due = self.service.loop.time() + self.service.settings.head_seconds

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer to read into."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Handle received bytes."""
        data = bytes(self._buffer[:nbytes])
        if self._ignores_input:
            self._discardable_bytes -= nbytes
            if self._discardable_bytes < 0:
                self.transport.abort()
            return
        if self._websocket is not None:
            self._websocket.feed(data)
            return
        reader = self._reader
        is_first = reader.is_between and self._current is None
        outcome = reader.feed(data)
        if isinstance(outcome, bytes):
            self._start_websocket(outcome)
        elif outcome:
            self._refuse(outcome)
        elif is_first and not reader.is_between and self._incoming is None:
            self._input_due = self.service.loop.time() + self.service.settings.head_seconds

    def eof_received(self) -> None:
        """Handle the end of input: the client disconnected."""
        if self._current is not None or self._websocket is not None:
            # Closing would wait until the client has read everything, which it never will.
            self._abandon()
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Handle the loss of the connection."""
        self.service.forget(self)
        self._ignores_input = True
        self._abandon()
        # Reference cycles would keep thousands of connections until the next garbage collection.
        self._reader.close()
        self._current = self._incoming = self._websocket = None

    def _abandon(self) -> None:
        exchanges = [*(exchange for exchange, _ in self._queue), self._current]
        self._queue.clear()
        for exchange in exchanges:
            if exchange is not None:
                exchange.abandon()
        if self._websocket is not None:
            self._websocket.abandon()
        self._release()

    def pause_writing(self) -> None:
        """Handle a client that does not read sent data."""
        self.is_writing_paused = True
        self._output_due = self.service.loop.time() + self.service.settings.idle_seconds

    def resume_writing(self) -> None:
        """Handle a client that reads again."""
        self.is_writing_paused, self._output_due = False, inf
        self._release()

    def _release(self) -> None:
        """Wake tasks that wait until the client reads."""
        waiters, self._write_waiters = self._write_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- callbacks of the reader ---------------------------------------------------------------

    def receive(self, head: Head, body: bytes) -> None:
        """Receive a whole request."""
        if self._ignores_input:
            return
        exchange = ServedExchange(self, head, body)
        self._input_due = inf
        self._schedule(exchange, head)
        if not exchange.keeps_alive:
            self._ignores_input = True

    def begin(self, head: Head) -> None:
        """Receive the head of a request."""
        if self._ignores_input:
            return
        if head.is_upgrade:
            is_busy = self._current is not None
            self._upgrade = MALFORMED_UPGRADE if is_busy else begin_upgrade(self, head, self._peer)
            return
        exchange = ServedExchange(self, head)
        self._incoming = exchange
        if head.expects_continue:  # its timeout starts with the response 100
            self._input_due = self._body_seconds = inf
        else:
            self.start_body_timeout()
        self._schedule(exchange, head)

    def _schedule(self, exchange: ServedExchange, head: Head) -> None:
        """Start an exchange, once the earlier ones are over."""
        scope = compose_scope(head, self._peer, self.service.lifespan.state, exchange.watch)
        if self._current is None:
            self._start(exchange, scope)
            return
        self._queue.append((exchange, scope))
        if len(self._queue) > _PAUSE_ABOVE:
            self.set_reading_paused(True)
        if len(self._queue) >= _WAITING_REQUESTS:
            exchange.keeps_alive = False

    def add_body(self, body: bytes) -> None:
        """Receive a part of a body."""
        exchange = self._incoming
        if exchange is not None:
            exchange.add_body(body)
            if exchange.buffered > BUFFER_BYTES:
                self.adjust_reading()

    def finish(self) -> None:
        """Handle the end of a request."""
        exchange, self._incoming = self._incoming, None
        self._input_due = inf
        if exchange is None:
            return
        exchange.finish()
        if not exchange.keeps_alive:
            self._ignores_input = True

    def _start_websocket(self, received_bytes: bytes) -> None:
        websocket, scope, status = self._upgrade
        if websocket is None:
            self._refuse(status)
            return
        self._websocket = websocket
        websocket.task = self._begin_task(websocket.run(scope))
        self.service.tasks.add(websocket.task)
        if received_bytes:
            websocket.feed(received_bytes)

    def _start(self, exchange: ServedExchange, scope: Scope) -> None:
        service = self.service
        self._current = exchange
        self._answer_due = service.loop.time() + service.settings.total_seconds
        exchange.task = self._begin_task(exchange.run(scope))
        service.tasks.add(exchange.task)

    def _begin_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # Not with loop.create_task: an eager task factory would run it in the middle of reading,
        # before there is a reference to it. With a name, as asyncio would count and format one.
        context = self.service.context.copy()  # the current one may be that of the last request
        return asyncio.Task(coroutine, loop=self.service.loop, name="request", context=context)

    # --- for exchanges ---------------------------------------------------------------------------

    def send_continue(self) -> None:
        """Send ``100 Continue``, so that the client sends the body."""
        self.transport.write(CONTINUE)
        self.start_body_timeout()

    def start_body_timeout(self) -> None:
        """Start the timeout of a body; it is suspended while reading is paused."""
        self._body_seconds = self.service.settings.body_seconds
        if self.is_reading_paused:
            self._input_due = inf
        else:
            self._input_due = self.service.loop.time() + self._body_seconds

    def adjust_reading(self) -> None:
        """Pause or resume reading, depending on buffered data."""
        incoming = self._incoming
        is_full = incoming is not None and incoming.buffered > BUFFER_BYTES
        must_pause = is_full or len(self._queue) > _PAUSE_ABOVE
        if must_pause != self.is_reading_paused:
            self.set_reading_paused(must_pause)

    def set_reading_paused(self, must_pause: bool) -> None:
        """Pause or resume reading."""
        incoming = self._incoming
        if must_pause == self.is_reading_paused or self.transport.is_closing():
            return
        self.is_reading_paused = must_pause
        now = self.service.loop.time()
        if must_pause:
            self.transport.pause_reading()
            self._body_seconds = self._input_due - now  # its timeout continues when reading resumes
            self._input_due = inf
        else:
            self.transport.resume_reading()
            if incoming is not None:
                self._input_due = now + self._body_seconds

    @property
    def is_between(self) -> bool:
        """True if no part of a further request has been received."""
        return self._reader.is_between

    @property
    def waiting_since(self) -> float | None:
        """Time since which the client is idle; ``None`` during an answer, or while it is closed."""
        is_busy = self._current is not None or self._websocket is not None or self._ignores_input
        return None if is_busy else self._since

    @property
    def buffered(self) -> int:
        """Number of buffered bytes of requests."""
        exchanges = [self._current, *(exchange for exchange, _ in self._queue)]
        return sum(exchange.buffered for exchange in exchanges if exchange is not None)

    async def wait_until_writable(self, exchange: ServedExchange | WebSocket) -> None:
        """Wait while the client does not read sent data. Raises ClientGone."""
        waiter = self.service.loop.create_future()
        self._write_waiters.append(waiter)
        await waiter
        if exchange.is_gone:
            raise ClientGone

    def conclude(self, exchange: ServedExchange) -> None:
        """Handle the end of an answer: start the next request, or close the connection."""
        self._current, self._answer_due = None, inf
        if self.transport.is_closing():
            return
        if not exchange.keeps_alive:
            if exchange.is_received and not self._queue:
                self.shut()
            else:
                self._linger()
        elif self._queue:
            self._start(*self._queue.pop(0))
            self.adjust_reading()
        elif self._last_response:
            self.send_last(self._last_response)
        elif self.service.is_ending:
            self.shut()
        else:
            settings = self.service.settings
            self._since = self.service.loop.time()
            is_between = self._reader.is_between
            seconds = settings.idle_seconds if is_between else settings.head_seconds
            self._input_due = self._since + seconds
            if self.is_reading_paused:
                self.adjust_reading()

    def fail(self, exchange: ServedExchange, status: int) -> None:
        """End an answer that has failed, before or after its start."""
        if exchange.is_begun:
            self._cut(exchange)
        else:
            exchange.abandon()
            self._current = None
            self.send_last(compose_refusal(status, self.service.date))

    def _cut(self, exchange: ServedExchange) -> None:
        """Truncate an answer visibly: send the written part, without the end."""
        exchange.abandon()
        self._current = None
        if exchange.is_delimited:
            self._linger()
        else:  # the end of the connection would be the end of the answer
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self.transport.abort()

    # --- end of the connection -------------------------------------------------------------------

    def _refuse(self, status: int) -> None:
        """Refuse invalid input; earlier requests are answered first."""
        broken, self._incoming = self._incoming, None
        self._ignores_input = True
        self._input_due = inf
        if broken is not None and broken is self._current:
            self.fail(broken, status)
            return
        if broken is not None:
            self._queue.pop()
            broken.abandon()
        response = compose_refusal(status, self.service.date)
        if self._current is None:
            self.send_last(response)
        else:
            self._last_response = response

    def send_last(self, response: bytes) -> None:
        """Write the last response, and close the connection."""
        if not self.transport.is_closing():
            self.transport.write(response)
            self._linger()

    def _linger(self) -> None:
        """Close once the client has had time to read the last response.

        Further input is discarded until then: closing with unread input would destroy the last
        response.
        """
        self._ignores_input = True
        self._incoming = None
        for exchange, _ in self._queue:
            exchange.abandon()
        self._queue.clear()
        self._release()
        self._answer_due = inf
        transport = self.transport
        if transport.is_closing():
            return
        self._input_due = self.service.loop.time() + LINGER_SECONDS
        if self.is_reading_paused:
            self.is_reading_paused = False
            transport.resume_reading()
        if transport.can_write_eof():
            transport.write_eof()

    def shut(self) -> None:
        """Close as soon as the client has read everything, or after a timeout."""
        self._ignores_input = True
        self._input_due = inf
        self._output_due = self.service.loop.time() + self.service.settings.idle_seconds
        self.transport.close()

    def check_timeouts(self, now: float) -> None:
        """End an exchange or the connection if a timeout has passed."""
        if self._current is None and now > self._since + _REMEMBER_SECONDS:
            self._reader.forget_head()
        if now > self._output_due:
            self.transport.abort()
        elif self._websocket is not None and not self._ignores_input:
            self._websocket.check_timeouts(now)
        elif now > self._answer_due:
            self._end_overdue()
        elif now > self._input_due:
            if self._ignores_input or (self._reader.is_between and self._current is None):
                self.shut()
            else:
                self._refuse(408)

    def _end_overdue(self) -> None:
        exchange = self._current
        assert exchange is not None
        _logger.warning("Answering a request exceeded total_seconds")
        self.fail(exchange, 503)
        if exchange.task is not None:
            exchange.task.cancel()

    def end(self, *, at_once: bool) -> None:
        """Handle the shutdown of the server."""
        if at_once:
            self._abandon()
            self.transport.abort()
        elif self._websocket is not None:
            self._websocket.end()
        elif self._current is None and not self._ignores_input:
            self.shut()
