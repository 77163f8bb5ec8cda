"""Cost of the server below an application: ours beside uvicorn, each in its own process.

The application answers a small JSON, or streams chunks. A server is measured by its own CPU time
while 32 connections ask it as fast as they can; the best of several rounds in turn, as others may
use the machine. A chunk is what a stream of chunks costs beyond a small answer, divided by their
number: ``at speed`` where all are sent at once, ``paced`` where each is sent by itself.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import httptools

CONNECTIONS = 32
REQUESTS = 6_000
STREAMS = 64
CHUNKS = 300
ROUNDS = 3

_JSON = json.dumps({"id": "chatcmpl-1", "choices": [{"message": {"content": "Hi"}}]}).encode()
_CHUNK = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
_BODY = b'{"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}'
_TYPES = {"/": b"application/json"}

Message = MutableMapping[str, Any]


async def application(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Answers a small JSON, or streams."""
    if scope["type"] != "http":
        raise ValueError("nothing but HTTP")
    while (await receive()).get("more_body"):
        pass
    path = scope["path"]
    kind = _TYPES.get(path, b"text/event-stream")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    if path == "/":
        await send({"type": "http.response.body", "body": _JSON})
        return
    for _ in range(CHUNKS):
        await send({"type": "http.response.body", "body": _CHUNK, "more_body": True})
        if path == "/paced":
            await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b""})


class _Asker(asyncio.Protocol):
    """Asks one request after the other on one connection."""

    def __init__(self, request: bytes, left: list[int], done: asyncio.Future[None]) -> None:
        self.request, self.left, self.done = request, left, done
        self.parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self.transport: Any = transport
        self.ask()

    def ask(self) -> None:
        """Asks, as long as something is left to be asked."""
        if self.left[0] <= 0:
            self.transport.close()
            return
        self.left[0] -= 1
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        """Reads."""
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        """Asks the next."""
        self.left[1] -= 1
        if not self.left[1] and not self.done.done():
            self.done.set_result(None)
        self.ask()


async def _load(port: int, path: str, count: int) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    head += "Authorization: Bearer sk-1234567890\r\nUser-Agent: bench\r\nAccept: */*\r\n"
    request = f"{head}Content-Length: {len(_BODY)}\r\n\r\n".encode() + _BODY
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()
    left = [count, count]
    for _ in range(min(CONNECTIONS, count)):
        await loop.create_connection(lambda: _Asker(request, left, done), "127.0.0.1", port)
    await done


def _serve_ours(loop: str) -> None:
    from vibe_llms.daemons.server import ServerSettings, serve

    async def main() -> None:
        settings = ServerSettings(port=0)
        await serve(
            application,
            settings,
            on_ready=lambda urls: print(urls[0].rpartition(":")[2], flush=True),
        )

    _run(main, loop)


def _serve_uvicorn(loop: str) -> None:
    import uvicorn

    class Told(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(self.servers[0].sockets[0].getsockname()[1], flush=True)

    config = uvicorn.Config(
        application, port=0, log_level="error", http="httptools", access_log=False, lifespan="off"
    )
    _run(Told(config).serve, loop)


def _run(main: Callable[[], Any], loop: str) -> None:
    if loop == "uvloop":
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())


class _Bare(asyncio.Protocol):
    """The floor: httptools alone, and answers that are written already."""

    _HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    _ANSWER = _HEAD + b"content-length: %d\r\n\r\n" % len(_JSON) + _JSON
    _FRAMED = b"%x\r\n%b\r\n" % (len(_CHUNK), _CHUNK)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self.transport: Any = transport
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        """Reads."""
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """Is told what is asked."""
        self.url = url

    def on_message_complete(self) -> None:
        """Answers."""
        if self.url == b"/":
            self.transport.write(self._ANSWER)
            return
        self.transport.write(self._HEAD + b"transfer-encoding: chunked\r\n\r\n")
        self.left = CHUNKS
        self.go_on()

    def go_on(self) -> None:
        """Streams."""
        while self.left:
            self.left -= 1
            self.transport.write(self._FRAMED)
            if self.url == b"/paced":
                asyncio.get_running_loop().call_soon(self.go_on)
                return
        self.transport.write(b"0\r\n\r\n")


def _serve_bare(loop: str) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_Bare, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    _run(main, loop)


SERVERS = {"bare": _serve_bare, "ours": _serve_ours, "uvicorn": _serve_uvicorn}


def _find_cpu(process: int) -> float:
    tasks = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


class _Started:
    """A server under way, and the least that each kind of load has cost it."""

    def __init__(self, name: str, loop: str) -> None:
        self.title = f"{name}, {loop}"
        command = [sys.executable, __file__, name, loop]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())
        self.costs: dict[str, float] = {}
        self.rates: dict[str, float] = {}

    def measure(self, path: str, count: int) -> None:
        """Lets a load come; keeps the CPU seconds a request that it took at least."""
        before, began = _find_cpu(self.process.pid), time.monotonic()
        asyncio.run(_load(self.port, path, count))
        took, seconds = _find_cpu(self.process.pid) - before, time.monotonic() - began
        self.costs[path] = min(self.costs.get(path, 1e9), took / count)
        self.rates[path] = max(self.rates.get(path, 0.0), count / seconds)

    def end(self) -> None:
        """Ends it."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def main() -> None:
    """Prints the table."""
    loops = ["asyncio"]
    try:
        import uvloop  # noqa: F401

        loops.append("uvloop")
    except ImportError:
        print("uvloop is not installed")
    servers = [_Started(name, loop) for loop in loops for name in SERVERS]
    try:
        for _ in range(ROUNDS):
            for server in servers:
                server.measure("/", REQUESTS)
                server.measure("/at-speed", STREAMS)
                server.measure("/paced", STREAMS)
    finally:
        for server in servers:
            server.end()
    print(f"{'':18} {'µs CPU a request':>17} {'requests/s':>11} {'µs a chunk at speed':>20} paced")
    for server in servers:
        request = server.costs["/"]
        chunks = [(server.costs[path] - request) / CHUNKS for path in ("/at-speed", "/paced")]
        print(
            f"{server.title:18} {request * 1e6:17.1f} {server.rates['/']:11,.0f}"
            f" {chunks[0] * 1e6:20.2f} {chunks[1] * 1e6:5.2f}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        SERVERS[sys.argv[1]](sys.argv[2])
    else:
        main()
