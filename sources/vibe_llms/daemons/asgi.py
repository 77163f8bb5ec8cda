"""One HTTP request and its response, over ASGI (https://asgi.readthedocs.io, version 3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from vibe_llms.daemons.server.asgi_types import (
    DISCONNECT_EXTENSION,
    TRAILERS_EXTENSION,
    Application,
    ClientGone,
    Message,
    Receive,
    Scope,
    Send,
)
from vibe_llms.daemons.server.exchange import ServedExchange
from vibe_llms.daemons.server.heads import encode_names, encode_values
from vibe_llms.exceptions import LimitError, RequestError, Stage

_LOGGER: Final = logging.getLogger("vibe_llms.daemons")

JSON: Final = "application/json"
STAGE_HEADER: Final = "x-vibe-stage"
"""Header with the stage of an error: before sending, during transport, or at the vendor."""

_TRAILER: Final = "trailer"
NOTHING: Final[Mapping[str, str]] = {}
"""No headers."""


class HttpCall:
    """One HTTP request with its response.

    Args:
        exchange: The same request at the server of this package, where ``receive`` and ``send`` are
            its own: whole bodies need no messages then.

    Attributes:
        method, path: The path is decoded and has no query.
        headers: Names in lower case; the last value of a repeated name.
        notes: What follows from the head alone, for further requests on the connection with it.
        loop: The event loop of the request. To ask for the running one takes a call of the system.
        request_id: The gateway's id for the request, in logs and for the client.
        status: Status of the response once it has started; 0 before.
        received_bytes: Size of the body once it has been read.
        names: Parts of the path, by the names in its route's pattern.
        began: Start of the response, by the event loop's clock.
        is_gone: Whether the client disconnected before the response was complete.
        task: The task that was current when the call was made; the request's.
        added: Headers to add to any response, including errors.
        body_types: Accepted media types of the body.
        value_limit: Most JSON values in the body.
        id_header: Header in which the client's library looks for the request id; set unless the
            upstream has set it.
    """

    __slots__ = (
        "_exchange",
        "_has_trailers",
        "_limit",
        "_receive",
        "_send",
        "_watcher",
        "added",
        "began",
        "body_types",
        "headers",
        "id_header",
        "is_gone",
        "loop",
        "method",
        "names",
        "notes",
        "path",
        "received_bytes",
        "request_id",
        "scope",
        "status",
        "task",
        "value_limit",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        request_id: str,
        limit: int,
        value_limit: int | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        exchange: ServedExchange | None = None,
    ) -> None:
        self.scope = scope
        self._exchange = exchange
        self.loop = asyncio.get_running_loop() if loop is None else loop
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: Mapping[str, str]
        if exchange is None:
            self.headers, self.notes = _decode_headers(scope["headers"]), dict[str, Any]()
        else:
            self.headers, self.notes = exchange.fields, exchange.notes
        self.request_id = request_id
        self.status = 0
        self.received_bytes = 0
        self.began: float | None = None
        self.is_gone = False
        self.names: Mapping[str, str] = {}
        self.added: Mapping[str, str] = NOTHING
        self.body_types: tuple[str, ...] = (JSON,)
        self.id_header = ""
        # Without the loop, it takes a call of the system.
        self.task: asyncio.Task[object] | None = asyncio.current_task(self.loop)
        self._receive, self._send = receive, send
        self._limit = limit
        self.value_limit = limit if value_limit is None else value_limit
        self._has_trailers = False
        self._watcher: asyncio.Task[None] | None = None

    @property
    def query(self) -> dict[str, str]:
        """Query parameters; the last value of a repeated name."""
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True))

    @property
    def client(self) -> str:
        """The client's address; empty if unknown."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def certificate(self) -> str:
        """Subject of the client's certificate (RFC 4514); empty without one."""
        secured = self.scope.get("extensions", {}).get("tls") or {}
        return secured.get("client_cert_name") or ""

    def divert(self, send: Send) -> HttpCall:
        """Return a copy of the request whose body is read and whose response goes to ``send``."""
        call = HttpCall(
            self.scope,
            self._receive,
            send,
            request_id=self.request_id,
            limit=self._limit,
            value_limit=self.value_limit,
            loop=self.loop,
        )
        call.names, call.headers, call.notes = self.names, self.headers, self.notes
        return call

    def take_body(self) -> bytes | None:
        """Return the body of the request if all of it has arrived; else ``None``.

        Raises:
            RequestError: The body is compressed, or has another media type.
            LimitError: The body exceeds ``request_bytes``.
        """
        body = None if self._exchange is None else self._exchange.take_body()
        if body is None:
            return None
        headers = self.headers
        if "content-encoding" in headers:
            self._ensure_uncompressed()
        if body and headers.get("content-type") not in self.body_types:
            self._ensure_type()
        self.received_bytes = len(body)
        if self.received_bytes > self._limit:
            raise self._refuse_size()
        return body

    async def read_body(self) -> bytes:
        """Return the body of the request.

        Raises:
            RequestError: The body is compressed, or has another media type.
            LimitError: The body exceeds ``request_bytes``; the rest is not read.
            ClientGone: The client disconnected.
        """
        taken = self.take_body()
        if taken is not None:
            return taken
        headers = self.headers
        if "content-encoding" in headers:
            self._ensure_uncompressed()
        length = headers.get("content-length", "")
        if length.isascii() and length.isdigit() and int(length) > self._limit:
            raise self._refuse_size()
        message = await self._receive()
        body: bytes = message.get("body", b"")
        has_more = message.get("more_body", False)
        if (body or has_more) and headers.get("content-type") not in self.body_types:
            self._ensure_type()
        if has_more or message["type"] != "http.request":
            return await self._read_pieces(message)
        self.received_bytes = len(body)
        if len(body) > self._limit:
            raise self._refuse_size()
        return body

    def _ensure_uncompressed(self) -> None:
        if self.headers["content-encoding"].strip().lower() != "identity":
            raise refuse_compressed()

    async def _read_pieces(self, message: Message) -> bytes:
        """Return a body of several pieces, of which ``message`` is the first."""
        pieces, size = [], 0
        while message["type"] == "http.request":
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            self.received_bytes = size
            if size > self._limit:
                raise self._refuse_size()
            if not message.get("more_body", False):
                return b"".join(pieces)
            message = await self._receive()
        self.is_gone = True
        raise ClientGone

    def _ensure_type(self) -> None:
        """Refuse other media types, which pages of any site may send without a preflight."""
        content_type = self.headers.get("content-type", "")
        media_type = content_type.partition(";")[0].strip().lower()
        if media_type in self.body_types or media_type.endswith("+json"):
            return
        raise RequestError(
            path="content-type",
            detail=f"Unsupported content-type {content_type[:200]!r}."
            if content_type
            else "The content-type is missing.",
            remedy=f"Send the body as {' or '.join(self.body_types)}.",
            stage=Stage.FRAME,
        )

    def _refuse_size(self) -> LimitError:
        return LimitError(
            detail=f"The request exceeds request_bytes = {self._limit:,}.",
            remedy="Send less, or raise request_bytes in [limits] of the server's file.",
            limit="request_bytes",
            value=self._limit,
            stage=Stage.FRAME,
        )

    async def pass_to(self, application: Application, body: bytes, **added: object) -> int:
        """Let another ASGI application respond to the request, whose body has been read.

        Args:
            added: Additional entries of the scope.

        Returns:
            The size of the response body.

        Raises:
            ClientGone: The client disconnected; the application was not interrupted.
        """
        pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        size, is_whole = 0, False

        async def receive() -> Message:
            return pending.pop() if pending else await self._receive()

        async def send(message: Message) -> None:
            nonlocal size, is_whole
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.began = self.loop.time()
            else:
                size += len(message.get("body", b""))
                is_whole = not message.get("more_body", False)
            if self.is_gone:
                return
            try:
                await self._send(message)
            except ClientGone:  # other applications do not know this exception
                self.is_gone = True

        try:
            await application({**self.scope, **added}, receive, send)
        except Exception as error:
            if not is_whole:
                raise
            # The response is complete, for example if a session ended while it was sent.
            _LOGGER.warning("request %s failed after its answer: %r", self.request_id, error)
        if self.is_gone:
            raise ClientGone
        return size

    def watch_client(self) -> None:
        """Cancel the current task if the client disconnects. Call this after reading the body."""
        if self._exchange is not None:
            self._exchange.watch(self._disconnect)
            return
        on_gone = self.scope.get("extensions", {}).get(DISCONNECT_EXTENSION)
        if on_gone is not None:  # the server of this package calls back, which needs no task
            on_gone(self._disconnect)
        else:
            self._watcher = asyncio.create_task(self._watch())

    @contextmanager
    def cancelling_on_disconnect(self) -> Iterator[None]:
        """Return a context that cancels the current task if the client disconnects.

        For the time before :meth:`watch_client`. Only the server of this package can detect a
        disconnect at that time; other servers detect a disconnect when the body is read.
        """
        on_gone = self.scope.get("extensions", {}).get(DISCONNECT_EXTENSION)
        if on_gone is None:
            yield
            return
        on_gone(self._disconnect)
        try:
            yield
        finally:
            on_gone(None)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._disconnect()

    def _disconnect(self) -> None:
        assert self.task is not None
        self.disconnect(self.task)

    def disconnect(self, task: asyncio.Task[object]) -> None:
        """Cancel a task of this request: the client has disconnected, or must be disconnected."""
        if not task.done():
            self.is_gone = True
            task.cancel()

    def end_watch(self) -> None:
        """Stop what :meth:`watch_client` started. May be called twice."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def answer(
        self, status: int, body: bytes, headers: Mapping[str, str], *, content_type: str = JSON
    ) -> None:
        """Send a complete response."""
        headers = {"content-type": content_type, **headers, **self.added}
        if self.id_header:
            headers.setdefault(self.id_header, self.request_id)
        if self._exchange is not None:
            self._exchange.answer(status, headers, body)
            self.status = status
            self.began = self.loop.time()
            return
        headers["content-length"] = str(len(body))
        await self._send(self._compose_start(status, headers))
        await self._send({"type": "http.response.body", "body": body})

    async def send_json(
        self, body: object, status: int = 200, headers: Mapping[str, str] = NOTHING
    ) -> None:
        """Send a complete response of plain data, as JSON."""
        await self.answer(status, msgspec.json.encode(body), headers)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Start a response; continue with :meth:`send`, end with :meth:`finish`.

        Args:
            headers: Include ``trailer`` if trailers may follow. They are omitted where the server
                or the client (HTTP/1.0) does not support them.
        """
        await self._send(self._compose_start(status, headers))

    def _compose_start(self, status: int, headers: Mapping[str, str]) -> Message:
        """Record that the response starts; return its status and headers as a message."""
        if _TRAILER in headers:
            self._has_trailers = self._supports_trailers
            if not self._has_trailers:
                headers = {name: text for name, text in headers.items() if name != _TRAILER}
        headers = self._complete_headers(headers)
        values = encode_values(headers.values()) if headers else ()
        encoded = list(zip(encode_names(tuple(headers)), values, strict=False))
        self.status = status
        self.began = self.loop.time()
        start = {"type": "http.response.start", "status": status, "headers": encoded}
        if self._has_trailers:
            start["trailers"] = True
        return start

    def _complete_headers(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return the headers of a response with those that any response has."""
        if self.added:
            headers = {**headers, **self.added}
        if self.id_header and self.id_header not in headers:
            headers = {**headers, self.id_header: self.request_id}
        return headers

    @property
    def _supports_trailers(self) -> bool:
        is_offered = TRAILERS_EXTENSION in self.scope.get("extensions", {})
        return is_offered and self.scope.get("http_version") != "1.0"

    async def send(self, data: bytes) -> None:
        """Send a piece of the body; wait while the client does not read."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"", trailers: Mapping[str, str] = NOTHING) -> None:
        """End the body, with an optional last piece.

        Args:
            trailers: ASCII values; omitted if none were announced.
        """
        await self._send({"type": "http.response.body", "body": data})
        if self._has_trailers:
            lines = [(name.encode(), text.encode("ascii")) for name, text in trailers.items()]
            await self._send({"type": "http.response.trailers", "headers": lines})


def _decode_headers(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    return {
        name.decode(): value.decode() if value.isascii() else value.decode("latin-1")
        for name, value in headers
    }


def find_exchange(receive: Receive, send: Send) -> ServedExchange | None:
    """Return the exchange at the server of this package, unless the functions are wrapped."""
    try:
        exchange: object = send.__self__  # type: ignore[attr-defined]
        if isinstance(exchange, ServedExchange) and receive.__self__ is exchange:  # type: ignore[attr-defined]
            return exchange
    except AttributeError:  # a plain function
        pass
    return None


def read_credential(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """Return the client's key, from the header or query of any protocol; empty without one."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and bearer:
        return bearer.strip()
    # Anthropic's, Azure's and Gemini's headers.
    for name in ("x-api-key", "api-key", "x-goog-api-key"):
        if headers.get(name):
            return headers[name]
    return query.get("key", "")


def drop_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error and its causes.

    Their frames reference the request and the error itself: such a cycle would keep the whole
    request in memory until the garbage collector runs.
    """
    pending, seen = [error], set[int]()
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        current.__traceback__ = None
        causes = (current.__cause__, current.__context__)
        pending += [cause for cause in causes if cause is not None]


def refuse_compressed() -> RequestError:
    """Return the error for a compressed body."""
    return RequestError(
        path="content-encoding",
        detail="The body is compressed.",
        remedy="Send it without a content-encoding.",
        stage=Stage.FRAME,
    )


def refuse_body(detail: str, path: str = "") -> RequestError:
    """Return the error for an invalid body."""
    return RequestError(
        path=path,
        detail=detail,
        remedy="Compare the request with the protocol's reference.",
        stage=Stage.FRAME,
    )
