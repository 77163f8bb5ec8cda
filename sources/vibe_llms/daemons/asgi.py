"""One request being answered, over ASGI (https://asgi.readthedocs.io, version 3)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import parse_qsl

import msgspec

from vibe_llms.daemons.server.words import (
    DISCONNECT_EXTENSION,
    TRAILERS_EXTENSION,
    Application,
    ClientGone,
    Message,
    Receive,
    Scope,
    Send,
)
from vibe_llms.exceptions import LimitError, RequestError, Stage

_LOGGER: Final = logging.getLogger("vibe_llms.daemons")

JSON: Final = "application/json"
STAGE_HEADER: Final = "x-vibe-stage"
"""Where an error arose: before anything was sent, on the way, or at the vendor."""

_TRAILER: Final = "trailer"
NOTHING: Final[Mapping[str, str]] = {}


class HttpCall:
    """One HTTP request, and the answer that is given to it.

    Attributes:
        method, path: As they came, the path decoded and without the query.
        headers: With names in lower case; of several of one name the last.
        request_id: What we call the request, in logs and to the client.
        status: Of the answer, once it has begun; 0 before.
        received_bytes: Of the body, once it has been read.
        names: What the path names, by the pattern of its route.
        began: When the answer began, by the event loop's clock.
        is_gone: Whether the client has left before its answer was whole.
        added: Headers that go with whatever is answered, be it an error.
        body_types: The media types that its body may have.
        most_values: How many values the JSON of its body may have.
        id_header: Where the client's library looks for the id of the request; it goes there unless
            somebody else has named it already.
    """

    __slots__ = (
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
        "method",
        "most_values",
        "names",
        "path",
        "received_bytes",
        "request_id",
        "scope",
        "status",
    )

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        request_id: str,
        limit: int,
        most_values: int | None = None,
    ) -> None:
        self.scope = scope
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: Mapping[str, str] = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        self.request_id = request_id
        self.status = 0
        self.received_bytes = 0
        self.began: float | None = None
        self.is_gone = False
        self.names: Mapping[str, str] = {}
        self.added: Mapping[str, str] = NOTHING
        self.body_types: tuple[str, ...] = (JSON,)
        self.id_header = ""
        self._receive, self._send = receive, send
        self._limit = limit
        self.most_values = limit if most_values is None else most_values
        self._has_trailers = False
        self._watcher: asyncio.Task[None] | None = None

    @property
    def query(self) -> dict[str, str]:
        """The parameters behind the path; of several of one name the last."""
        return dict(parse_qsl(self.scope["query_string"].decode("latin-1"), keep_blank_values=True))

    @property
    def client(self) -> str:
        """The address that the request came from; empty where it is not known."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def certificate(self) -> str:
        """The subject of the client's certificate, as RFC 4514 writes it; empty without one."""
        secured = self.scope.get("extensions", {}).get("tls") or {}
        return secured.get("client_cert_name") or ""

    def divert(self, send: Send) -> HttpCall:
        """Returns the same request, whose body has been read, answered to somebody else."""
        call = HttpCall(
            self.scope,
            self._receive,
            send,
            request_id=self.request_id,
            limit=self._limit,
            most_values=self.most_values,
        )
        call.names, call.headers = self.names, self.headers
        return call

    async def read_body(self) -> bytes:
        """Returns the body of the request.

        Raises:
            RequestError: It is compressed, or of a media type that is not taken here.
            LimitError: It is longer than ``request_bytes``; no more of it was read.
            ClientGone: The client has left.
        """
        if self.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise refuse_compressed()
        said = self.headers.get("content-length", "")
        if said.isascii() and said.isdigit() and int(said) > self._limit:
            raise self._refuse_size()
        message = await self._receive()
        if message.get("body") or message.get("more_body"):
            self._ensure_type()
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message.get("body", b"")
            self.received_bytes = len(body)
            if len(body) > self._limit:
                raise self._refuse_size()
            return body
        return await self._read_on(message)

    async def _read_on(self, message: Message) -> bytes:
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
        """Refuse a body of another type, such as pages of any site may send without asking."""
        told = self.headers.get("content-type", "")
        media_type = told.partition(";")[0].strip().lower()
        if media_type in self.body_types or media_type.endswith("+json"):
            return
        raise RequestError(
            path="content-type",
            detail=f"The body is of the type {told[:200]!r}."
            if told
            else "It has no content-type.",
            remedy=f"Send it as {' or '.join(self.body_types)}.",
            stage=Stage.FRAME,
        )

    def _refuse_size(self) -> LimitError:
        return LimitError(
            detail=f"The request is longer than request_bytes = {self._limit:,} allows.",
            remedy="Send less, or have request_bytes raised in [limits] where this is served.",
            limit="request_bytes",
            value=self._limit,
            stage=Stage.FRAME,
        )

    async def pass_to(self, application: Application, body: bytes, **added: object) -> int:
        """Lets another ASGI application answer the request, whose body has been read.

        Args:
            added: Goes into the scope.

        Returns:
            How many bytes its answer has.

        Raises:
            ClientGone: The client has left; the application ended as if it had not.
        """
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        size, is_whole = 0, False

        async def receive() -> Message:
            return waiting.pop() if waiting else await self._receive()

        async def send(message: Message) -> None:
            nonlocal size, is_whole
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.began = asyncio.get_running_loop().time()
            else:
                size += len(message.get("body", b""))
                is_whole = not message.get("more_body", False)
            if self.is_gone:
                return
            try:
                await self._send(message)
            except ClientGone:  # which other applications do not know
                self.is_gone = True

        try:
            await application({**self.scope, **added}, receive, send)
        except Exception as error:
            if not is_whole:
                raise
            # As where a session ended while the last word to it was taken: nobody misses anything.
            _LOGGER.warning("request %s was answered, and failed then: %r", self.request_id, error)
        if self.is_gone:
            raise ClientGone
        return size

    def watch_client(self) -> None:
        """From now on, cancels the task that answers when the client leaves.

        To be called when the body has been read.
        """
        task = asyncio.current_task()
        assert task is not None
        on_gone = self.scope.get("extensions", {}).get(DISCONNECT_EXTENSION)
        if on_gone is not None:  # of our own server, which needs no task to tell it
            on_gone(lambda: self.leave(task))
        else:
            self._watcher = asyncio.create_task(self._watch(task))

    @contextmanager
    def heeding(self) -> Iterator[None]:
        """Cancels the task that answers when the client leaves meanwhile, before the body is read.

        Only our own server tells of that without reading on; below another it shows when the body
        is read.
        """
        on_gone = self.scope.get("extensions", {}).get(DISCONNECT_EXTENSION)
        if on_gone is None:
            yield
            return
        task = asyncio.current_task()
        assert task is not None
        on_gone(lambda: self.leave(task))
        try:
            yield
        finally:
            on_gone(None)

    async def _watch(self, task: asyncio.Task[object]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.leave(task)

    def leave(self, task: asyncio.Task[object]) -> None:
        """Ends the task that answers, as when the client leaves."""
        if not task.done():
            self.is_gone = True
            task.cancel()

    def end_watch(self) -> None:
        """Ends what :meth:`watch_client` has begun. May be called again."""
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def answer(
        self, status: int, body: bytes, headers: Mapping[str, str], *, content_type: str = JSON
    ) -> None:
        """Answers with a whole body."""
        told = {"content-type": content_type, "content-length": str(len(body)), **headers}
        await self.begin(status, told)
        await self._send({"type": "http.response.body", "body": body})

    async def tell(
        self, body: object, status: int = 200, headers: Mapping[str, str] = NOTHING
    ) -> None:
        """Answers with plain data, as JSON."""
        await self.answer(status, msgspec.json.encode(body), headers)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Begins an answer; :meth:`send` goes on, :meth:`finish` ends it.

        Args:
            headers: With ``trailer`` among them where some may follow the body. Servers that
                cannot send any, and clients of HTTP/1.0, get none.
        """
        self._has_trailers = _TRAILER in headers and self._takes_trailers
        if _TRAILER in headers and not self._has_trailers:
            headers = {name: text for name, text in headers.items() if name != _TRAILER}
        if self.added:
            headers = {**headers, **self.added}
        if self.id_header and self.id_header not in headers:
            headers = {**headers, self.id_header: self.request_id}
        # As the wire reads those of an upstream, so that any of them goes on.
        encoded = [
            (name.encode("latin-1"), value.encode("utf-8", "surrogateescape"))
            for name, value in headers.items()
        ]
        self.status = status
        self.began = asyncio.get_running_loop().time()
        start = {"type": "http.response.start", "status": status, "headers": encoded}
        await self._send({**start, "trailers": True} if self._has_trailers else start)

    @property
    def _takes_trailers(self) -> bool:
        has_them = TRAILERS_EXTENSION in self.scope.get("extensions", {})
        return has_them and self.scope.get("http_version") != "1.0"

    async def send(self, data: bytes) -> None:
        """Sends a piece of the body; waits while the client does not take what was sent."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def finish(self, data: bytes = b"", trailers: Mapping[str, str] = NOTHING) -> None:
        """Ends the body, with a last piece or none.

        Args:
            trailers: In ASCII; they are left out where none were announced.
        """
        await self._send({"type": "http.response.body", "body": data})
        if self._has_trailers:
            lines = [(name.encode(), text.encode("ascii")) for name, text in trailers.items()]
            await self._send({"type": "http.response.trailers", "headers": lines})


def read_credential(headers: Mapping[str, str], query: Mapping[str, str]) -> str:
    """Returns the key that a client shows, wherever its protocol has it; empty without one."""
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and bearer:
        return bearer.strip()
    # Anthropic's, Azure's and Gemini's places.
    for name in ("x-api-key", "api-key", "x-goog-api-key"):
        if headers.get(name):
            return headers[name]
    return query.get("key", "")


def drop_frames(error: BaseException) -> None:
    """Drop the tracebacks of an error and its causes.

    Their frames hold the request, and mostly the error itself: such a circle would stay, with all
    that a client has sent, until the garbage collector looks for it.
    """
    errors, seen = [error], set[int]()
    while errors:
        each = errors.pop()
        if id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            errors += [cause for cause in (each.__cause__, each.__context__) if cause is not None]


def refuse_compressed() -> RequestError:
    """Produce the error of a compressed body."""
    return RequestError(
        path="content-encoding",
        detail="The body is compressed.",
        remedy="Send it as it is, without a content-encoding.",
        stage=Stage.FRAME,
    )


def refuse_body(detail: str, path: str = "") -> RequestError:
    """Produces the error of a body that makes no sense."""
    return RequestError(
        path=path,
        detail=detail,
        remedy="Compare the request with the reference of its protocol.",
        stage=Stage.FRAME,
    )
