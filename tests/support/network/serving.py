"""ASGI applications for tests of the server, and a client that sends arbitrary bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import attrs

from vibe_llms.daemons.server import Server, ServerSettings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


@attrs.define
class Answer:
    """The answer to one request."""

    status: int
    headers: dict[str, str]
    body: bytes


async def read_body(receive: Receive) -> bytes:
    """Return the whole body of a request."""
    pieces = []
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        pieces.append(message["body"])
        if not message["more_body"]:
            return b"".join(pieces)


async def begin_answer(send: Send, *headers: tuple[bytes, bytes], status: int = 200) -> None:
    """Send the start of an answer."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def send_body(send: Send, body: bytes, *, more: bool = False) -> None:
    """Send a piece of an answer's body."""
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def echo(scope: Message, receive: Receive, send: Send) -> None:
    """Answer with the request as JSON."""
    body = await read_body(receive)
    request = {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode("latin-1"),
        "headers": [[each.decode("latin-1") for each in pair] for pair in scope["headers"]],
        "body": body.decode("latin-1"),
    }
    await begin_answer(send, (b"content-type", b"application/json"))
    await send_body(send, json.dumps(request).encode())


class Client:
    """Client that sends bytes unchanged and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def write(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.writer.write(data)
        await self.writer.drain()

    async def read_head(self) -> tuple[int, dict[str, str]]:
        """Return the status and the headers, by names in lower case, of the next answer."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        version, status, _ = head[0].split(" ", 2)
        assert version == "HTTP/1.1"
        pairs = [line.split(": ", 1) for line in head[1:] if line]
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs), f"a header comes twice: {head}"
        return int(status), headers

    async def read_chunk(self) -> bytes:
        """Return the next chunk; empty for the last one."""
        size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
        data = await self.reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def read(self, *, method: str = "GET") -> Answer:
        """Return the next answer."""
        status, headers = await self.read_head()
        body = b""
        if method == "HEAD" or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while chunk := await self.read_chunk():
                body += chunk
        elif "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
        else:
            body = await self.reader.read()
        return Answer(status, headers, body)

    async def ask(self, request: bytes, *, method: str = "GET") -> Answer:
        """Send a request, and return its answer."""
        await self.write(request)
        return await self.read(method=method)

    async def read_all(self) -> bytes:
        """Return all bytes until the connection is closed or reset."""
        data = b""
        with suppress(ConnectionError):
            while piece := await self.reader.read(65_536):
                data += piece
        return data

    def leave(self) -> None:
        """Abort the connection."""
        self.writer.transport.abort()


@attrs.define
class Served:
    """A running server and its clients."""

    server: Server
    port: int
    clients: list[Client] = attrs.field(factory=list)

    async def connect(self, **options: Any) -> Client:
        """Connect a client; options are those of ``asyncio.open_connection``."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port, **options))
        self.clients.append(client)
        return client

    async def wait_until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds, for at most 15 seconds."""
        async with asyncio.timeout(15):
            while not holds():  # noqa: ASYNC110  # the condition has no event
                await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(application: Application, **settings: Any) -> AsyncIterator[Served]:
    """Serve an application without a lifespan on a free port."""

    async def answer_request(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            raise ValueError("there is none")
        await application(scope, receive, send)

    async with Server(answer_request, ServerSettings(**{"port": 0, **settings})) as server:
        served = Served(server, int(server.urls[0].rpartition(":")[2]))
        try:
            yield served
        finally:
            for client in served.clients:
                client.leave()


def compose_request(
    method: str = "GET", path: str = "/", headers: str = "", body: bytes | None = None
) -> bytes:
    """Return the bytes of a request."""
    length = "" if body is None else f"Content-Length: {len(body)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: h\r\n{headers}{length}\r\n".encode() + (body or b"")
