"""The default transport: HTTP/1.1 by aiohttp, over connections that are kept alive."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from vibe_llms.exceptions import ConverseError, RequestError, Stage
from vibe_llms.limits import Limits
from vibe_llms.secrets import Secret
from vibe_llms.wire import connections, failures
from vibe_llms.wire.bodies import check_request, read_body, refuse_redirection, refuse_response
from vibe_llms.wire.exchanges import Timeouts, WireRequest
from vibe_llms.wire.proxies import Proxies

if TYPE_CHECKING:
    from collections.abc import Mapping

    import aiohttp
    import yarl

_IDEMPOTENT_BY_NATURE = frozenset({"POST", "PATCH"})
"""Methods which aiohttp never repeats on its own."""


_PIECE_BYTES = 262_144
"""Up to this size a body goes out in one write, beyond it piece by piece."""


class DirectTransport:
    """Sends requests by aiohttp; one session, and so one set of connections, for each event loop.

    Connections are kept alive and as many are opened as are wanted at once. Cookies are not
    kept, redirections not followed, and a request is never sent twice.

    Args:
        limits: What request and response bodies may hold.
        timeouts: For requests that bring none of their own.
        proxy: An HTTP or HTTPS proxy for everything, with user and password where it wants them.
        certificate_authorities: A file or folder of certificates (PEM) that are trusted besides
            those of the system.
        client_certificate: The certificate (PEM) by which we prove who we are (mutual TLS).
        client_key: Its key, where it is not in the same file.
        trust_environment: Whether ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY``
            hold, where no proxy is given.

    Raises:
        ConfigurationError: The proxy is none we can speak to, or a certificate does not load.
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
        self._tls = connections.produce_tls_context(
            certificate_authorities, client_certificate, client_key
        )
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}

    async def send(self, request: WireRequest) -> DirectExchange:
        """Sends a request; see :class:`Transport`."""
        address = check_request(request, self._limits)
        timeouts = self._timeouts if request.timeouts is None else request.timeouts
        watch = failures.Watch(address, timeouts, asyncio.get_running_loop().time())
        failure: ConverseError | None = None
        try:
            response = await self._perform(request, timeouts, address)
        except Exception as error:
            failure = failures.translate(error, watch, Stage.SEND)
        if failure is not None:  # raised here, so that no foreign text hangs on it as its context
            raise failure.with_traceback(None)  # below, variables hold what headers say
        exchange = DirectExchange(response, watch, self._limits.response_bytes)
        if 300 <= response.status < 400:
            await exchange.close()
            location = exchange.headers.get("location", "")
            raise refuse_redirection(address, response.status, location)
        return exchange

    async def _perform(
        self, request: WireRequest, timeouts: Timeouts, address: str
    ) -> aiohttp.ClientResponse:
        session = self._access_session()
        repeats = request.method.upper() not in _IDEMPOTENT_BY_NATURE
        slot: list[asyncio.Transport] = []
        connections.SLOT.set(slot)
        try:
            async with asyncio.timeout(_add(timeouts.connect_seconds, timeouts.first_byte_seconds)):
                return await session.request(
                    request.method,
                    _parse(request.url),
                    data=_wrap(request.body),
                    headers=_reveal(request.headers),
                    allow_redirects=False,
                    proxy=self._proxies.access(request.url, address),
                    timeout=connections.produce_timeout(timeouts),
                    middlewares=(connections.refuse_repetition,) if repeats else (),
                )
        except BaseException:
            for transport in slot:
                transport.abort()  # closing would wait until what was written has gone out
            raise

    def _access_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            self._forget_dead_loops()
            session = self._sessions[loop] = connections.produce_session(self._tls)
        return session

    def _forget_dead_loops(self) -> None:
        """Lets go of the connections of loops that have ended: a session holds on to its loop."""
        for loop in list(self._sessions):
            if loop.is_closed() and (session := self._sessions.pop(loop, None)) is not None:
                session.detach()

    async def close(self) -> None:
        """Closes the connections of all event loops that still run."""
        here = asyncio.get_running_loop()
        for loop, session in list(self._sessions.items()):
            self._sessions.pop(loop, None)  # whoever sends meanwhile has a new one
            if loop is here:
                await session.close()
            elif loop.is_running():
                future = asyncio.run_coroutine_threadsafe(session.close(), loop)
                await asyncio.wrap_future(future)
            else:
                session.detach()


class DirectExchange:
    """An answer that aiohttp receives; see :class:`Exchange`."""

    __slots__ = (
        "_content",
        "_failure",
        "_is_closed",
        "_limit",
        "_loop",
        "_response",
        "_timer",
        "_waiting_since",
        "_watch",
        "headers",
        "status",
    )

    def __init__(self, response: aiohttp.ClientResponse, watch: failures.Watch, limit: int) -> None:
        self._response = response
        self._content = response.content
        self._watch = watch
        self._limit = limit
        self._failure: ConverseError | None = None
        self._is_closed = False
        self.status: int = response.status
        self.headers: Mapping[str, str] = {
            name.lower(): value for name, value in response.headers.items()
        }
        connection = response.connection
        if connection is not None and connection.protocol is not None:
            # From here on, the time between chunks counts; by a watch of our own, as aiohttp makes
            # a timer for each chunk.
            connection.protocol.read_timeout = None
            connection.protocol.start_timeout()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting_since: float | None = None

    async def receive(self) -> bytes:
        """Returns whatever has come of the body; see :class:`Exchange`."""
        content = self._content
        if not content.is_eof():
            self._waiting_since = self._loop.time()
            if self._timer is None:
                self._watch_stalls()
        try:
            data = await content.readany()
        except asyncio.CancelledError:
            self._abort()
            raise
        except Exception as error:
            data = self._rescue(error)
        self._waiting_since = None
        if content.total_bytes > self._limit:
            self._abort()
            raise refuse_response(self._limit)
        if content.is_eof():
            self._stop_timer()
        if not data and self._failure is not None:
            raise self._failure
        return data

    def _watch_stalls(self) -> None:
        """Ends the waiting for a chunk that does not come; looks at it no oftener than needed."""
        self._timer = None
        patience = self._watch.timeouts.between_chunks_seconds
        if patience is None or self._waiting_since is None:
            return
        due = self._waiting_since + patience
        if self._loop.time() < due:
            self._timer = self._loop.call_at(due, self._watch_stalls)
            return
        import aiohttp

        self._content.set_exception(aiohttp.SocketTimeoutError())

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _rescue(self, error: Exception) -> bytes:
        """Returns what had come before the connection broke, and keeps why it did for later."""
        if self._is_closed:
            self._failure = failures.produce_closed_error(self._watch.address)
            return b""
        if self._failure is not None:
            return b""
        self._failure = failures.translate(error, self._watch, Stage.FRAME)
        self._content.set_exception(cast(Any, None))  # with one set, nothing can be read
        data = b""
        with suppress(TimeoutError):  # nothing is given out once the total time is over
            data = self._content.read_nowait()
        self._abort()
        return data

    async def read(self, limit: int | None = None) -> bytes:
        """Returns the whole body; see :class:`Exchange`."""
        return await read_body(self, limit)

    @property
    def is_spent(self) -> bool:
        """Whether the body was read to its end, which has freed the connection."""
        return self._content.at_eof() and self._content.exception() is None

    async def close(self) -> None:
        """Leaves the answer; see :class:`Exchange`."""
        if not self._is_closed:
            self._is_closed = True
            self._abort()

    def _abort(self) -> None:
        self._stop_timer()
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()  # closing would wait until what was written has gone out
        self._response.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _add(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first + second


def _wrap(body: bytes) -> bytes | io.BytesIO | None:
    """Returns a body as aiohttp wants it: in one piece only where it is small."""
    if not body:
        return None
    return body if len(body) <= _PIECE_BYTES else io.BytesIO(body)


def _reveal(headers: Mapping[str, str | Secret]) -> dict[str, str]:
    revealed = {}
    for name, value in headers.items():
        text = value.reveal() if isinstance(value, Secret) else value
        if "\n" in text or "\r" in text or "\0" in text:
            raise RequestError(
                detail=f"The header {name!r} holds the end of a line, which no header may.",
                remedy="Look whether a key was read with the end of its line.",
                path=f"headers.{name}",
                stage=Stage.SEND,
            )
        revealed[name] = text
    return revealed


@lru_cache(maxsize=256)
def _parse(url: str) -> yarl.URL:
    import yarl

    return yarl.URL(url, encoded=True)
