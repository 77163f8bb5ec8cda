"""The server: receives requests, keeps them for the test, and passes them to the protocols."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import TYPE_CHECKING, Self

import attrs

from vibe_llms.foundation.optional_packages import needing
from vibe_llms.testing.simulator.answering import answer
from vibe_llms.testing.simulator.faults import read_conditions
from vibe_llms.testing.simulator.routes import find_route
from vibe_llms.testing.simulator.scripts import Part, ScriptedAnswer
from vibe_llms.testing.simulator.states import ReceivedRequest, SimulatorState

if TYPE_CHECKING:
    from aiohttp import web


PREFIX = "/simulate/"
BODY_BYTES = 256 * 1024 * 1024


class Simulator:
    """Vendors on loopback: a real HTTP server that speaks every supported protocol.

    It is an asynchronous context manager; :class:`SynchronousSimulator` is the same in a thread.

    Args:
        simulate: Faults and quirks of each request, in the format of ``x-simulate``:
            ``"deepseek,slow=5"``. Requests may add their own by that header, or by a base URL from
            :meth:`access_url`.
        host: The address to listen at.
        port: The port, 0 for any that is free.
        context_tokens: Maximum length of a prompt, in tokens of four bytes.

    Raises:
        ValueError: A fault or quirk is unknown.
    """

    def __init__(
        self,
        simulate: str = "",
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        context_tokens: int = 200_000,
    ) -> None:
        self._state = SimulatorState(
            conditions=read_conditions(simulate), context_tokens=context_tokens
        )
        self._host = host
        self._port = port
        self._runner: web.AppRunner | None = None
        self.requests: list[ReceivedRequest] = []

    @property
    def url(self) -> str:
        """Address of the server, without a slash at the end."""
        return f"http://{self._host}:{self._port}"

    def access_url(self, simulate: str) -> str:
        """Return the base URL of a vendor with these faults and quirks, for clients without
        headers."""
        read_conditions(simulate)
        return f"{self.url}{PREFIX}{simulate}"

    def enqueue(self, *parts: Part | ScriptedAnswer, simulate: str = "") -> None:
        """Set the answer to the next request.

        Args:
            parts: Each ScriptedAnswer answers one request; all other parts together are one further
                answer.
            simulate: Faults and quirks for these answers alone.
        """
        read_conditions(simulate)
        loose = tuple(part for part in parts if not isinstance(part, ScriptedAnswer))
        turns = [part for part in parts if isinstance(part, ScriptedAnswer)]
        if loose:
            turns.append(ScriptedAnswer(parts=loose))
        for turn in turns:
            self._state.turns.append(attrs.evolve(turn, simulate=simulate) if simulate else turn)

    def switch(self, simulate: str) -> None:
        """Replace the faults and quirks of each request, and reset their counts."""
        self._state.conditions = read_conditions(simulate)
        self._state.refusal_counts.clear()
        self._state.redirect_counts.clear()

    def let_pass(self, seconds: int) -> None:
        """Put the vendors' clocks forward, so that prefixes in their prompt caches expire."""
        self._state.passed_seconds += seconds

    async def __aenter__(self) -> Self:
        with needing("testing", "aiohttp", "The simulator"):
            from aiohttp import web

        # The limit of aiohttp itself is a megabyte.
        application = web.Application(client_max_size=BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            application,
            handle_signals=False,
            access_log=None,
            # Otherwise aiohttp keeps a handler running after its client has disconnected.
            handler_cancellation=True,
            shutdown_timeout=0.05,  # stalled streams would delay each test
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]  # for 0, the system has chosen a free port
        return self

    async def __aexit__(self, *details: object) -> None:
        if self._runner is None:
            return
        await asyncio.sleep(0)  # an accepted socket becomes a connection
        server = self._runner.server
        transports = [each.transport for each in server.connections] if server else []
        await self._runner.cleanup()
        for transport in transports:
            if transport is not None:
                transport.abort()
        for _ in range(4):  # the event loop needs some iterations to close them
            await asyncio.sleep(0)

    async def _handle(self, http_request: web.Request) -> web.StreamResponse:
        received = ReceivedRequest(
            method=http_request.method,
            path=http_request.path,
            query=dict(http_request.query),
            headers={name.lower(): value for name, value in http_request.headers.items()},
            data=await http_request.read(),
            target=http_request.raw_path,
        )
        try:
            received.body = json.loads(received.data) if received.data else None
        except (ValueError, RecursionError):
            received.body = None
        self.requests.append(received)
        try:
            response = await self._answer(http_request, received)
            received.answered = True
            return response
        except (asyncio.CancelledError, ConnectionError):
            received.disconnected_at = time.monotonic()
            raise

    async def _answer(
        self, http_request: web.Request, received: ReceivedRequest
    ) -> web.StreamResponse:
        from aiohttp import web

        path, simulate = received.path, received.headers.get("x-simulate", "")
        if path.startswith(PREFIX):
            names, slash, rest = path[len(PREFIX) :].partition("/")
            path, simulate = slash + rest, f"{names},{simulate}"
        try:
            own_conditions = read_conditions(simulate)
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        route = find_route(received.method, path, received.headers)
        if route is None:
            return web.json_response({"error": {"message": f"Not found: {path}"}}, status=404)
        has_conditions = own_conditions.values or self._state.conditions.values
        # A path without a version belongs to Perplexity, the only vendor with such a path.
        if path == "/chat/completions" and not has_conditions:
            own_conditions = read_conditions("perplexity")
        return await answer(
            http_request, received, route, path, own_conditions, simulate, self._state
        )


class SynchronousSimulator(Simulator):
    """A simulator as a synchronous context manager, for tests without an event loop."""

    _loop: asyncio.AbstractEventLoop | None = None
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="simulator", daemon=True
        )
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.__aenter__(), self._loop).result()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *details: object) -> None:
        assert self._loop is not None
        try:
            asyncio.run_coroutine_threadsafe(self.__aexit__(), self._loop).result()
        finally:
            self._stop()

    def _stop(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
