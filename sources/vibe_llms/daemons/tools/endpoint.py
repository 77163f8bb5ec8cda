"""HTTP endpoint of the tools daemon: one path with MCP's streamable HTTP transport.

The first request imports the package ``mcp``, which takes 30 MB and most of a second: the daemon is
ready before that, and stays small while it has no clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from vibe_llms.daemons.arrivals import admit
from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import read_json_body
from vibe_llms.daemons.open_streams import OpenStreams
from vibe_llms.daemons.openapi import ApiOperation
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route, write_plain_error
from vibe_llms.daemons.server.asgi_types import Application
from vibe_llms.daemons.tools.settings import SessionLimits
from vibe_llms.plugins.specification.daemons import Authorizer, Grant

if TYPE_CHECKING:
    from vibe_llms.invocables.mcp.serving.tool_server import ToolServer

OpenServer: TypeAlias = "Callable[[], AbstractAsyncContextManager[ToolServer]]"
"""Opens the server that answers requests; imports the package ``mcp``, in a thread."""

PATH: Final = "/mcp"
FACE: Final = "mcp"
SESSION_HEADER: Final = "mcp-session-id"
_TAG: Final = "tools"
_LISTEN: Final = "subscriptions/listen"
_METHODS: Final = {
    "POST": "Receive an MCP message.",
    "GET": "Stream the server's own messages to a session.",
    "DELETE": "End a session.",
}


class RequestsInTransit:
    """Requests in transit to sessions: a session ends only after it has received its requests.

    The package ``mcp`` answers a notification before it passes it to the session, and starts the
    answer to a request at the same time. If the session ended in between, both would fail after
    their answers.
    """

    def __init__(self) -> None:
        self._open: dict[str, set[asyncio.Future[None]]] = {}

    @contextmanager
    def enter(self, session: str) -> Iterator[Callable[[], None]]:
        """Register a request to a session.

        Yields:
            A function to call when the session has received the request; at the latest, the end of
            the context calls it.
        """
        request: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        requests = self._open.setdefault(session, set())
        requests.add(request)

        def arrive() -> None:
            if not request.done():
                request.set_result(None)
                requests.discard(request)
                if not requests:
                    del self._open[session]

        try:
            yield arrive
        finally:
            arrive()

    async def wait(self, session: str) -> None:
        """Wait until no requests are in transit to a session."""
        while requests := self._open.get(session):
            await asyncio.wait(requests)


class ToolEndpoint:
    """HTTP endpoint of a tool server.

    Args:
        connect: Connects the offered ensembles.
        authorizer: Authorizer of requests; by default all are allowed.
        hosts: Host names of the endpoint; ``None`` for any.
        request_bytes: Maximum size of a request's body.
        has_sessions: Whether clients with an older protocol, which has sessions, get one. That
            needs all of a client's requests to reach this process.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[OpenServer]],
        *,
        authorizer: Authorizer | None,
        hosts: Collection[str] | None,
        request_bytes: int,
        sessions: SessionLimits,
        has_sessions: bool = True,
    ) -> None:
        self._connect = connect
        self._authorizer = authorizer
        self._hosts = hosts
        self._has_sessions, self._sessions = has_sessions, sessions
        self._request_bytes = request_bytes
        self._answer: Application | None = None
        self._server: ToolServer | None = None
        self._streams = OpenStreams(authorizer)
        self._in_transit = RequestsInTransit()
        self._server_task: asyncio.Task[None] | None = None
        self._must_open, self._is_open = asyncio.Event(), asyncio.Event()
        self._must_end = asyncio.Event()

    def produce_routes(self) -> list[Route]:
        """Produce the routes of a service."""
        return [
            Route(
                method=method,
                pattern=PATH,
                handler=self.answer,
                write_error=write_plain_error,
                # A stream that only listens does not count against the limit of requests.
                is_admitted=method != "GET",
                operation=ApiOperation(summary=summary, tag=_TAG),
            )
            for method, summary in _METHODS.items()
        ]

    async def start(self) -> None:
        """Connect the offered ensembles, in a separate task that also accepts sessions.

        Raises:
            ConverseError: An ensemble cannot be connected.
        """
        connected = asyncio.Event()
        self._server_task = asyncio.create_task(self._run(connected))
        await self._wait(connected)

    async def _wait(self, event: asyncio.Event) -> None:
        """Wait for an event that the server task sets; raise the error that ends the task."""
        assert self._server_task is not None
        waiting = asyncio.create_task(event.wait())
        try:
            await asyncio.wait((waiting, self._server_task), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if self._server_task.done():
            await self._server_task

    async def stop(self) -> None:
        """End all sessions with their pending work, and disconnect the ensembles."""
        self._must_end.set()
        self._must_open.set()
        if self._server_task is not None:
            await self._server_task
        if self._authorizer is not None:
            await self._authorizer.close()

    def drain(self) -> None:
        """End streams that only listen; they would last until their clients disconnect."""
        if self._server is not None:
            self._server.listening.close()
        self._streams.drain()

    async def _run(self, connected: asyncio.Event) -> None:
        async with self._connect() as open_server:
            connected.set()
            await self._must_open.wait()
            if self._must_end.is_set():
                return
            async with open_server() as server:
                from vibe_llms.invocables.mcp.serving.sessions import produce_manager

                manager = produce_manager(
                    server,
                    has_sessions=self._has_sessions,
                    sessions=self._sessions.sessions,
                    idle_seconds=self._sessions.idle_seconds,
                    request_bytes=self._request_bytes,
                )
                self._server, self._answer = server, manager.handle_request
                async with manager.run():
                    self._is_open.set()
                    await self._must_end.wait()

    async def _open(self) -> None:
        """Open the server, at the first request."""
        if not self._is_open.is_set():
            self._must_open.set()
            await self._wait(self._is_open)

    async def admit(self, call: HttpCall, record: CallRecord) -> Grant | None:
        """Return the caller's grant; ``None`` if access is open to all. Raises AccessError."""
        return await admit(self._authorizer, self._hosts, call, record)

    async def answer(self, call: HttpCall, record: CallRecord) -> None:
        """Answer one request. Raises AccessError, LimitError."""
        record.face = FACE
        grant = await self.admit(call, record)
        body = await read_json_body(call)
        await self._open()
        from vibe_llms.invocables.mcp.serving.messages import MalformedMessage, read_message
        from vibe_llms.invocables.mcp.serving.sessions import LISTENER_KEY, produce_user

        is_listening = call.method == "GET"
        if call.method == "POST":
            try:
                message = read_message(body)
                is_listening = getattr(message, "method", "") == _LISTEN
            except MalformedMessage as error:
                record.error = "request"
                await call.answer(400, error.write(), {})
                return
        scope_entries: dict[str, object] = {}
        if grant is not None:
            scope_entries["user"] = produce_user(grant.subject)
        session = call.headers.get(SESSION_HEADER, "")
        is_drained = call.method == "GET"  # the server ends those of the other method
        with self._streams.hold(call, is_drained=is_drained) if is_listening else nullcontext():
            match call.method:
                case "POST":
                    with self._in_transit.enter(session) as arrive:
                        scope_entries[LISTENER_KEY] = partial(_record_method, record, arrive)
                        await self._pass(call, record, body, scope_entries)
                case "DELETE" if session:
                    await self._in_transit.wait(session)
                    await self._pass(call, record, body, scope_entries)
                case _:
                    await self._pass(call, record, body, scope_entries)

    async def _pass(
        self, call: HttpCall, record: CallRecord, body: bytes, scope_entries: dict[str, object]
    ) -> None:
        assert self._answer is not None
        record.sent_bytes = await call.pass_to(self._answer, body, **scope_entries)


def _record_method(record: CallRecord, arrive: Callable[[], None], method: str, name: str) -> None:
    """Record the method for logs and metrics, and that the session has received the request."""
    record.way, record.model = method, name
    arrive()
