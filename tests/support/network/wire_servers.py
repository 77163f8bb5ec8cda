"""Servers on loopback that send a client the bytes that a test defines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import attrs

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


@attrs.define
class Connection:
    """One connection of a client, with its requests."""

    reader: Reader
    writer: Writer
    requests: list[tuple[str, dict[str, str], bytes]] = attrs.field(factory=list)
    closed: asyncio.Event = attrs.field(factory=asyncio.Event)

    async def read_request(self) -> tuple[str, dict[str, str], bytes]:
        """Return the first line, headers by names in lower case, and body of the next request."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value
            for line in head[1:]
            if line
            for name, value in [line.split(": ", 1)]
        }
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((head[0], headers, body))
        return self.requests[-1]

    async def write(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self, body: bytes = b"", *, status: str = "200 OK", headers: str = "", length: int = -1
    ) -> None:
        """Send a complete answer; ``length`` may be wrong on purpose."""
        size = len(body) if length < 0 else length
        head = f"HTTP/1.1 {status}\r\nContent-Length: {size}\r\n{headers}\r\n"
        await self.write(head.encode() + body)

    async def begin(self, headers: str = "Content-Type: text/event-stream\r\n") -> None:
        """Send the headers of a chunked answer."""
        await self.write(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{headers}\r\n".encode())

    async def send_chunk(self, data: bytes) -> None:
        """Send one chunk; an empty one ends the answer."""
        await self.write(b"%x\r\n%b\r\n" % (len(data), data))

    async def wait_closed(self) -> None:
        """Wait until the client has closed the connection."""
        with suppress(ConnectionError):
            while await self.reader.read(65_536):
                pass
        self.closed.set()


@attrs.define
class Server:
    """A running server.

    Attributes:
        url: Its address, without a path.
        connections: All connections so far, the oldest first.
    """

    url: str
    port: int
    connections: list[Connection] = attrs.field(factory=list)


@asynccontextmanager
async def serve(
    handler: Callable[[Connection], Awaitable[None]], *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """Start a server that passes each connection to ``handler``, and closes it afterwards."""
    tasks: set[asyncio.Task[None]] = set()
    server = Server("", 0)

    async def handle(reader: Reader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        connection = Connection(reader, writer)
        server.connections.append(connection)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await handler(connection)
        finally:
            connection.closed.set()
            writer.close()
            with suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
                await writer.wait_closed()

    listening = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls, backlog=1024)
    server.port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://localhost:{server.port}"
    try:
        yield server
    finally:
        listening.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def echo(connection: Connection) -> None:
    """Answer each request with its body."""
    while True:
        _, _, body = await connection.read_request()
        await connection.answer(body)


async def stall(connection: Connection) -> None:
    """Send the headers of an answer, but no body."""
    await connection.read_request()
    await connection.begin()
    await connection.wait_closed()


async def stall_within(connection: Connection) -> None:
    """Send the beginning of a body, and then nothing."""
    await connection.read_request()
    await connection.begin()
    await connection.send_chunk(b"x")
    await connection.wait_closed()
