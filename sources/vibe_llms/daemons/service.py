"""ASGI application of all daemons: admission, errors, and records of requests.

The routes define what a daemon does; the service does what all requests have in common.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from vibe_llms.daemons.admission import Admission, ServiceLimits
from vibe_llms.daemons.asgi import (
    STAGE_HEADER,
    HttpCall,
    drop_frames,
    find_exchange,
    read_credential,
)
from vibe_llms.daemons.lateness import LoopWatch
from vibe_llms.daemons.logged_bodies import Contents
from vibe_llms.daemons.pages import PREFLIGHT_HEADER, compose_page_headers
from vibe_llms.daemons.records import CallRecord, Listener
from vibe_llms.daemons.routes import Route, RouteTable, write_plain_error
from vibe_llms.daemons.server.asgi_types import (
    DRAIN_EXTENSION,
    BrokenAnswer,
    ClientGone,
    Message,
    Receive,
    Scope,
    Send,
)
from vibe_llms.dialects.client_answers import classify
from vibe_llms.exceptions import (
    ConverseError,
    LimitError,
    ProviderError,
    ProviderFault,
    Stage,
    StoreError,
    TransportError,
)
from vibe_llms.foundation.deadlines import Deadlines
from vibe_llms.wire.tracing import TRACE, read_trace

if TYPE_CHECKING:
    from vibe_llms.daemons.tracing import Tracing

_LOGGER: Final = logging.getLogger("vibe_llms.daemons")
_LARGE_BYTES: Final = 8_000_000
"""After a request and a response of this size, memory is returned to the system."""
_GONE_STATUS: Final = 499
"""nginx's status for logs: the client disconnected before the response."""


class Service:
    """ASGI application that answers requests by routes.

    Args:
        routes: If several match a path, an exact match wins, then the first.
        limits: Limits on concurrent requests and their size.
        listeners: Called with the record of each completed request.
        start, stop: Awaited before the first request, and after the last.
        on_drain: Ends responses that last as long as their client stays.
        sockets: WebSocket handlers, by path.
        on_reload: Reads the configuration again.
        tracing: Creates spans of requests; by default there are none.
        keeps_contents: Whether records contain request and response bodies.
        survey_aliases: Yields the known paths that an unknown path may be another spelling of.
        admits_page: Returns whether pages of a request's origin may read the response; by default
            none may.

    Attributes:
        endings: Called when the daemon stops.
        gauges: Further gauges for ``/metrics``, by name: a description, and a function that returns
            the value.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        limits: ServiceLimits | None = None,
        listeners: Sequence[Listener] = (),
        start: Callable[[], Awaitable[None]] | None = None,
        stop: Callable[[], Awaitable[None]] | None = None,
        sockets: Mapping[str, Callable[[Scope, Receive, Send], Awaitable[None]]] | None = None,
        on_drain: Callable[[], object] | None = None,
        on_reload: Callable[[], object] | None = None,
        tracing: Tracing | None = None,
        keeps_contents: bool = False,
        survey_aliases: Callable[[str], Iterable[str]] = lambda path: (),
        admits_page: Callable[[HttpCall], bool] = lambda call: False,
    ) -> None:
        self.limits = limits or ServiceLimits()
        self._survey_aliases, self._admits_page = survey_aliases, admits_page
        self.adopt_routes(routes)
        self.listeners = list(listeners)
        self._start, self._stop = start, stop
        self._on_drain, self._on_reload = on_drain, on_reload
        self.tracing = tracing
        self.keeps_contents = keeps_contents
        self._sockets = dict(sockets or {})
        self._admission = Admission(self.limits)
        self._deadlines: Deadlines | None = None
        self.is_ready = False
        self.watch = LoopWatch()
        self.endings: list[Callable[[], object]] = []
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def adopt_routes(self, routes: Sequence[Route]) -> None:
        """Replace the routes."""
        self.routes = tuple(routes)
        self._table = RouteTable(self.routes)

    @property
    def busy_count(self) -> int:
        """Number of requests being answered."""
        return self._admission.taken

    @property
    def waiting_count(self) -> int:
        """Number of queued requests."""
        return self._admission.waiting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._run_lifespan(scope, receive, send)
            elif scope["type"] == "websocket":
                await self._serve_socket(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        contents = Contents() if self.keeps_contents else None
        if contents is not None:
            receive, send = contents.copy_receive(receive), contents.copy_send(send)
        call = HttpCall(
            scope,
            receive,
            send,
            # By place, as names would be gathered in a dictionary first.
            generate_request_id(),
            self.limits.request_bytes,
            self.limits.request_values,
            loop,
            find_exchange(receive, send),
        )
        headers = call.headers
        record = CallRecord(
            request_id=call.request_id,
            method=call.method,
            path=call.path,
            started=loop.time(),
            client=call.client,
            trace=headers.get("traceparent", ""),
            contents=contents,
        )
        if contents is not None:
            contents.credential = read_credential(headers, call.query)
        span = None if self.tracing is None else self.tracing.begin(call)
        TRACE.set(read_trace(call.headers))  # for this task, and so for this request
        try:
            await self._respond(call, record)
        finally:
            call.end_watch()
            if call.received_bytes + record.sent_bytes > _LARGE_BYTES:
                loop.call_soon(_return_memory)
            record.seconds = loop.time() - record.started
            if call.began is not None:
                record.first_seconds = call.began - record.started
            record.status = call.status or record.status
            if self.tracing is not None and span is not None:
                self.tracing.end(span, record)
            self.report(record)

    def report(self, record: CallRecord) -> None:
        """Pass the record of a completed request to the listeners."""
        for listener in self.listeners:
            try:
                listener(record)
            except Exception as error:
                _LOGGER.error("a listener failed: %s", error, exc_info=error)

    def reload(self) -> None:
        """Read the configuration again. The server calls this on SIGHUP."""
        if self._on_reload is not None:
            self._on_reload()

    async def start(self) -> None:
        """Prepare the daemon; called by the server's lifespan."""
        if self._start is not None:
            await self._start()
        self.watch.begin()
        self.is_ready = True

    def drain(self) -> None:
        """Report that the daemon is not ready; requests under way continue."""
        if self.is_ready and self._on_drain is not None:
            self._on_drain()
        self.is_ready = False

    async def stop(self) -> None:
        """Release the daemon's resources."""
        self.drain()
        self.watch.end()
        for end in self.endings:
            end()
        if self._stop is not None:
            await self._stop()

    async def _run_lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        on_drain = scope.get("extensions", {}).get(DRAIN_EXTENSION)
        if on_drain is not None:  # only the server of this package has this extension
            on_drain(self.drain)
        while True:
            message: Message = await receive()
            phase = message["type"].removeprefix("lifespan.")
            try:
                await (self.start() if phase == "startup" else self.stop())
            except Exception as error:
                if not isinstance(error, ConverseError):  # its message is complete
                    _LOGGER.error("%s failed: %s", phase, error, exc_info=error)
                await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
                return  # the server sends nothing more
            else:
                await send({"type": f"lifespan.{phase}.complete"})
            if phase == "shutdown":
                return

    async def _serve_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        paths = [scope["path"], *self._survey_aliases(scope["path"])]
        perform = next((self._sockets[each] for each in paths if each in self._sockets), None)
        if perform is None or not self.is_ready:
            await receive()
            code = 1008 if self.is_ready else 1012  # policy violation, or service restart
            await send({"type": "websocket.close", "code": code})
            return
        await perform(scope, receive, send)

    async def _respond(self, call: HttpCall, record: CallRecord) -> None:
        """Respond until the client disconnects."""
        if "origin" in call.headers and self._admits_page(call):
            call.added = compose_page_headers(call)
        route, names = self._table.find(call.method, call.path)
        if route is None:
            route, names = self._find_alias(call)
        if call.added and call.method == "OPTIONS" and PREFLIGHT_HEADER in call.headers:
            await call.answer(204, b"", {})
            return
        if route is None:
            await self._refuse(call, record)
            return
        call.names, call.body_types = names, route.body_types
        record.route = route.pattern
        try:
            try:
                if not route.is_admitted:
                    await route.handler(call, record)
                    return
                due = record.started + self.limits.total_seconds
                deadlines = self._deadlines
                if deadlines is None or deadlines.loop is not call.loop:
                    deadlines = self._deadlines = Deadlines(call.loop)
                deadline = deadlines.begin(due, call.task)
                try:
                    if not self._admission.try_acquire():
                        with call.cancelling_on_disconnect():
                            await self._admission.acquire()
                    try:
                        await route.handler(call, record)
                    finally:
                        self._admission.release()
                except asyncio.CancelledError as error:
                    if call.is_gone or not deadline.uncancel():
                        raise
                    raise self._refuse_duration() from error
                finally:
                    deadline.end()
            except ClientGone:
                raise
            except Exception as error:
                await self._fail(error, route, call, record)
        except ClientGone:
            _note_gone(record, call)
        except asyncio.CancelledError as error:
            if not call.is_gone:
                raise
            drop_frames(error)
            _note_gone(record, call)
            if call.task is not None:
                call.task.uncancel()

    async def _fail(
        self, error: Exception, route: Route, call: HttpCall, record: CallRecord
    ) -> None:
        """Write an error of the handler for the client."""
        reported = error
        if not isinstance(reported, ConverseError):
            _LOGGER.error("request %s failed", call.request_id, exc_info=error)
            drop_frames(error)
            reported = ConverseError(
                detail=f"Internal error (request {call.request_id}).",
                remedy="See the server's log.",
                stage=Stage.EXECUTE,
            )
        try:
            await self._send_error(reported, route, call, record)
        finally:
            drop_frames(error)

    def _refuse_duration(self) -> LimitError:
        seconds = self.limits.total_seconds
        return LimitError(
            detail=f"The request exceeded total_seconds = {seconds:g}.",
            remedy="Send a smaller request, or raise total_seconds in the server's file.",
            limit="total_seconds",
            value=seconds,
            stage=Stage.EXECUTE,
        )

    def _find_alias(self, call: HttpCall) -> tuple[Route | None, Mapping[str, str]]:
        """Find the route of a path in another spelling, and correct the call's path."""
        for alias in self._survey_aliases(call.path):
            route, names = self._table.find(call.method, alias)
            if route is not None:
                call.path = alias
                return route, names
        return None, {}

    async def _refuse(self, call: HttpCall, record: CallRecord) -> None:
        """Respond to a request without a route."""
        allowed = self._table.list_methods(call.method, call.path)
        record.error = "method" if allowed else "path"
        record.detail = "no such path" if not allowed else "no such method"
        text = (
            f"Use {' or '.join(allowed)} here."
            if allowed
            else "Unknown path; /openapi.json lists all paths."
        )
        if "GET" in allowed:
            allowed.insert(allowed.index("GET") + 1, "HEAD")
        headers = {"allow": ", ".join(allowed)} if allowed else {}
        status = 405 if allowed else 404
        write = self._table.find_writer(call.path)
        if write is write_plain_error:
            code = "method_not_allowed" if allowed else "not_found"
            error = {"message": text, "type": "invalid_request_error", "code": code}
            await call.send_json({"error": error}, status, headers)
            return
        fault = ProviderFault.INVALID_REQUEST if allowed else ProviderFault.NOT_FOUND
        refusal = write(ProviderError(fault=fault, status=status, detail=text))
        await call.send_json(refusal.body, status, {**refusal.headers, **headers})

    async def _send_error(
        self, error: ConverseError, route: Route, call: HttpCall, record: CallRecord
    ) -> None:
        """Send an error, or cut a response that has started."""
        record.error, record.detail = error.WORD, str(error)
        if _is_for_operator(error):  # the client is referred to the log
            _LOGGER.error("request %s: %s", call.request_id, error)
        if call.status:
            # The status is sent; a complete body would hide the error.
            raise BrokenAnswer(str(error)) from error
        write = route.write_error if route.choose_writer is None else route.choose_writer(call)
        answer = write(error)
        headers = {
            **answer.headers,
            "x-vibe-request-id": call.request_id,
            STAGE_HEADER: str(error.stage),
        }
        await call.send_json(answer.body, answer.status, headers)


def _is_for_operator(error: ConverseError) -> bool:
    """Return whether the operator must see the error, as the client gets no details of it."""
    if isinstance(error, TransportError):
        return not error.is_retryable
    if isinstance(error, StoreError):
        return classify(error)[1] >= 500
    return classify(error)[1] == 500 and not isinstance(error, ProviderError)


def _return_memory() -> None:
    """Return freed memory to the system; glibc would keep it."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):  # other systems
        ctypes.CDLL(None).malloc_trim(0)


def generate_request_id() -> str:
    return f"req_{os.urandom(12).hex()}"


def _note_gone(record: CallRecord, call: HttpCall) -> None:
    record.error = "client-gone"
    record.status = call.status or _GONE_STATUS
