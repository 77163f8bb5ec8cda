"""The default transport: HTTP/1.1 over a pool of connections."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire import failures
from vibe_llms.wire.exchanges import Timeouts, WireRequest
from vibe_llms.wire.http import faults, heads
from vibe_llms.wire.http.codings import choose_decompressor
from vibe_llms.wire.http.connection import HttpConnection
from vibe_llms.wire.http.dialing import dial
from vibe_llms.wire.http.pools import Pool
from vibe_llms.wire.http.tls import produce_tls_context
from vibe_llms.wire.proxies import Proxies
from vibe_llms.wire.size_limits import BoundedExchange, check_request, ensure_final, refuse_response

if TYPE_CHECKING:
    from vibe_llms.wire.sockets import Socket


class DirectTransport:
    """HTTP client with a pool of keep-alive connections for each event loop.

    The number of connections is not limited. Cookies are dropped, redirects are errors, and a
    request is never sent twice.

    Args:
        limits: Size limits of bodies.
        timeouts: Timeouts of requests that have none of their own.
        proxy: HTTP or HTTPS proxy for all requests, with user and password if it needs them.
        certificate_authorities: File or folder with certificates (PEM) to trust, in addition to
            those of the system.
        client_certificate: Client certificate (PEM) for mutual TLS.
        client_key: Key of the certificate, if it is in another file.
        trust_environment: Whether ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``
            apply if ``proxy`` is not given.

    Raises:
        ConfigurationError: The kind of proxy is not supported, or a certificate is invalid.
    """

    def __init__(
        self,
        *,
        limits: Limits,
        timeouts: Timeouts | None = None,
        proxy: str | Secret | None = None,
        certificate_authorities: Path | None = None,
        client_certificate: Path | None = None,
        client_key: Path | None = None,
        trust_environment: bool = True,
    ) -> None:
        self._limits = limits
        self._timeouts = Timeouts() if timeouts is None else timeouts
        self._proxies = Proxies(proxy, trust_environment=trust_environment)
        self._tls = produce_tls_context(certificate_authorities, client_certificate, client_key)
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    async def send(self, request: WireRequest) -> DirectExchange:
        """Send a request; see :class:`Transport`."""
        address = check_request(request, self._limits)
        timeouts = self._timeouts if request.timeouts is None else request.timeouts
        pool = self._pools.get(asyncio.get_running_loop()) or self._produce_pool()
        facts = failures.ExchangeFacts(address, timeouts, pool.loop.time())
        failure: ConverseError | None = None
        try:
            head, target, proxy = self._compose(request, address)
            connection = pool.take_idle(address) or await self._connect(pool, facts, target, proxy)
            try:
                total, first = timeouts.total_seconds, timeouts.first_byte_seconds
                deadline = inf if total is None else facts.started + total
                is_bodiless = head.startswith(b"HEAD ")
                connection.send(head, request.body, is_bodiless=is_bodiless, deadline=deadline)
                due = inf if first is None else pool.loop.time() + first
                # In a loop here, as a coroutine of its own would take longer than the wait.
                while (waiter := connection.expect_head(due, "first-byte")) is not None:
                    await waiter
            except BaseException:
                connection.abort()
                raise
            exchange = DirectExchange(connection, pool, facts, self._limits.response_bytes)
        except Exception as error:
            failure = failures.translate(error, facts, Stage.SEND)
            # Its frames refer to the request, and the connection may keep it.
            error.__traceback__ = None
        # Raised outside of the handler, so that the original error is not its context. Without a
        # traceback, as local variables in its frames contain headers.
        if failure is not None:
            raise failure.with_traceback(None)
        return exchange if exchange.status < 300 else await ensure_final(exchange, address)

    async def open_socket(self, request: WireRequest) -> Socket:
        """Open a WebSocket, once. Its connection belongs to the caller, not to the pool.

        Raises:
            SocketRefusal: The server answered with an HTTP status.
            TransportError: The server is unreachable.
            DependencyError: The package websockets is not installed.
        """
        from vibe_llms.wire.sockets import open_socket

        address = check_request(request, self._limits)
        timeouts = self._timeouts if request.timeouts is None else request.timeouts
        facts = failures.ExchangeFacts(address, timeouts, asyncio.get_running_loop().time())
        return await open_socket(
            request,
            facts,
            tls=self._tls,
            proxy=self._proxies.access(request.url, address),
            message_bytes=self._limits.event_bytes,
        )

    def _compose(
        self, request: WireRequest, address: str
    ) -> tuple[bytes, heads.RequestTarget, heads.RequestTarget | None]:
        """Return the head of a request, its target, and its proxy, if any."""
        target = heads.parse_target(request.url)
        proxy_url = self._proxies.access(request.url, address)
        proxy = None if proxy_url is None else heads.parse_target(proxy_url)
        # In a tunnel, the request is the same as without a proxy.
        proxy_in_head = None if target.is_secure else proxy
        method, size = request.method.upper(), len(request.body)
        head = heads.compose_head(method, target, request.headers, size, proxy=proxy_in_head)
        return head, target, proxy

    async def _connect(
        self,
        pool: Pool,
        facts: failures.ExchangeFacts,
        target: heads.RequestTarget,
        proxy: heads.RequestTarget | None,
    ) -> HttpConnection:
        connect, total = facts.timeouts.connect_seconds, facts.timeouts.total_seconds
        end = min(pool.loop.time() + _or_infinity(connect), facts.started + _or_infinity(total))
        connection = pool.produce(facts.address)
        try:
            async with asyncio.timeout_at(None if end == inf else end):
                resolve = pool.names.resolve
                await dial(connection, target, resolve=resolve, proxy=proxy, tls=self._tls)
        except TimeoutError as error:
            is_total = pool.loop.time() >= facts.started + _or_infinity(total)
            raise faults.TimedOut("total" if is_total else "connect") from error
        finally:
            if connection.is_closing:
                pool.remove(connection)
        return connection

    def _produce_pool(self) -> Pool:
        """Make the pool of the current event loop."""
        self._drop_dead_pools()
        loop = asyncio.get_running_loop()
        pool = self._pools[loop] = Pool(loop)
        return pool

    def _drop_dead_pools(self) -> None:
        """Drop the pools of closed event loops, which would otherwise stay in memory."""
        for loop in list(self._pools):
            if loop.is_closed():
                self._pools.pop(loop, None)

    async def close(self) -> None:
        """Close the connections of all event loops that are still running."""
        here = asyncio.get_running_loop()
        for loop, pool in list(self._pools.items()):
            self._pools.pop(loop, None)  # later requests use a new pool
            if loop is here:
                await pool.close()
            # A connection may only be closed in the thread of its loop.
            elif loop.is_running():
                await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(pool.close(), loop))


class DirectExchange(BoundedExchange):
    """Response on a pooled connection; see :class:`Exchange`."""

    __slots__ = (
        "_connection",
        "_decompressor",
        "_facts",
        "_failure",
        "_pool",
    )

    def __init__(
        self, connection: HttpConnection, pool: Pool, facts: failures.ExchangeFacts, limit: int
    ) -> None:
        self._connection: HttpConnection | None = None  # set last, when nothing can raise
        self._pool = pool
        self._facts = facts
        self._failure: ConverseError | None = None
        answer = connection.answer
        super().__init__(answer.status, answer.headers, limit)
        coding = answer.headers.get("content-encoding")
        try:
            self._decompressor = None if coding is None else choose_decompressor(coding)
        except faults.UnknownCoding:
            connection.abort()
            raise
        self._connection = connection

    async def receive(self) -> bytes:
        """Return the next bytes of the body; see :class:`Exchange`."""
        while True:
            connection = self._connection
            if connection is None:
                if self._failure is not None:
                    raise self._failure
                return b""
            if not (connection.answer.pieces or connection.is_over or self._has_compressed):
                try:
                    await connection.wait(
                        self._facts.timeouts.between_chunks_seconds, "between-chunks"
                    )
                except BaseException:
                    self._abort()
                    raise
            data = self._read(connection)
            if not (connection.answer.pieces or self._has_compressed) and connection.is_over:
                self._end(connection)
            if data:
                return data

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body; see :class:`Exchange`."""
        connection = self._connection
        if (
            connection is not None
            and connection.answer.is_complete
            and self._decompressor is None
            and limit is None
        ):  # as small answers, which need no wait
            data = self._read(connection)
            self._end(connection)
            return data
        return await super().read(limit)

    @property
    def _has_compressed(self) -> bool:
        return self._decompressor is not None and self._decompressor.has_more

    def _read(self, connection: HttpConnection) -> bytes:
        """Return buffered bytes of the body, decompressed; enforce the size limit."""
        decompressor = self._decompressor
        if decompressor is None:
            data = connection.read_buffered()
        else:
            if not decompressor.has_more:
                decompressor.feed(connection.read_buffered())
            try:
                data = decompressor.read()
            except faults.BodyBroken as error:
                self._fail(failures.translate(error, self._facts, Stage.FRAME))
                return b""
        if self._exceeds(data):
            self._abort()
            raise refuse_response(self._limit)
        return data

    def _end(self, connection: HttpConnection) -> None:
        """Return the connection to the pool after the whole response."""
        fault = connection.fault
        if fault is None and self._decompressor is not None:
            fault = self._decompressor.find_fault()
        if fault is not None:
            self._fail(failures.translate(fault, self._facts, Stage.FRAME))
        elif self._connection is not None:
            self._connection = None
            self._pool.release(connection)

    def _fail(self, failure: ConverseError) -> None:
        if self._failure is None:
            self._failure = failure
        self._abort()

    @property
    def is_spent(self) -> bool:
        """True once the body was read to its end, after which the connection is released."""
        return self._connection is None and self._failure is None

    async def close(self) -> None:
        """Close the response; see :class:`Exchange`."""
        if self._connection is not None:
            self._failure = failures.produce_closed_error(self._facts.address)
            self._abort()

    def _abort(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if self._failure is None:
                self._failure = failures.produce_closed_error(self._facts.address)
            connection.abort()

    def __del__(self) -> None:
        connection = self._connection
        if connection is not None:
            with suppress(RuntimeError):  # the event loop is closed
                # The garbage collector may run in another thread.
                self._pool.loop.call_soon_threadsafe(connection.abort)


def _or_infinity(seconds: float | None) -> float:
    return inf if seconds is None else seconds
