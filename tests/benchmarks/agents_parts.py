"""Processes of the benchmark of the agents: the watchers, and a floor.

``watch PORT WATCHERS`` reads ids of runs from its input, watches each with so many event streams
until its answer is there, and prints how late the events of the logs came, in seconds. ``file
PORT PATH`` serves a file over HTTP and does nothing else.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

_LINE = re.compile(rb'^id: (\d+)\nevent: (\S+)\ndata: \{"sequence":\d+,"timestamp":"([^"]+)"', re.M)


class Watching(asyncio.Protocol):
    """One event stream."""

    def __init__(self, path: str, late: list[float], done: asyncio.Future[int]) -> None:
        self.head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode()
        self.late, self.done = late, done
        self.begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.rest, self.pieces, self.last = b"", 0, 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.write(self.head)

    def data_received(self, data: bytes) -> None:
        now = time.time()
        if not self.begun.done():
            assert b" 200 " in data[:20], data[:200]
            self.begun.set_result(None)
        self.pieces += data.count(b"event: content.delta")
        data = self.rest + data
        end = data.rfind(b"\n\n") + 2
        data, self.rest = data[:end], data[end:]
        for number, word, moment in _LINE.findall(data):
            assert int(number) == self.last + 1, f"{int(number)} came after {self.last}"
            self.last = int(number)
            told = datetime.fromisoformat(moment.decode()).astimezone(UTC).timestamp()
            self.late.append(now - told)
            if word == b"run.completed":
                self.transport.close()
                self.done.set_result(self.pieces)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the stream ended early"))


async def watch(port: int, watchers: int) -> None:
    """Watch the runs with the given ids."""
    loop = asyncio.get_running_loop()
    while line := await asyncio.to_thread(sys.stdin.readline):
        late: list[float] = []
        ends = []
        for start in range(0, len(ids := line.split() * watchers), 200):
            begun = []
            for run_id in ids[start : start + 200]:
                done: asyncio.Future[int] = loop.create_future()
                path = f"/runs/{run_id}/events"
                _, protocol = await loop.create_connection(
                    functools.partial(Watching, path, late, done), "127.0.0.1", port
                )
                ends.append(done)
                begun.append(protocol.begun)
            await asyncio.gather(*begun)
        print("begun", flush=True)
        late.clear()  # what they were told of the past
        pieces = await asyncio.gather(*ends)
        late.sort()
        told = {
            "events": len(late),
            "pieces": sum(pieces),
            "median": late[len(late) // 2],
            "p99": late[int(len(late) * 0.99) - 1],
            "worst": late[-1],
        }
        print(json.dumps(told), flush=True)


async def serve_file(port: int, path: str) -> None:
    """Serves a file in pieces."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        with Path(path).open("rb") as file:  # noqa: ASYNC230
            while data := await asyncio.to_thread(file.read, 1 << 18):
                writer.write(data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    role, number, rest = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    asyncio.run(watch(number, int(rest)) if role == "watch" else serve_file(number, rest))
