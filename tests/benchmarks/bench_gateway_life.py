"""A gateway's life: until it is ready, until a leaving shows upstream, and its memory over time.

Ready is what ``vibe serve gateway`` takes until ``/readyz`` says so, as a multiple of
``python -c pass``, too; the best of several, as others may use the machine. A leaving is measured
from the moment in which 32 clients go at once until the upstream has seen the last of them go.
Memory is that of the process after each further part of ``REQUESTS`` (100,000) at full speed.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, ClassVar

import httptools
import psutil
from bench_gateway import _CONFIGURATION, AT_ONCE, CHAT, PARTS, running
from gateway_parts import STREAMED, find_port

GATEWAY = (sys.executable, "-m", "vibe_llms", "serve", "gateway", "--port")
MODELS = {"passthrough": "openai_conversations:m", "translate": "anthropic:m"}
REQUESTS = int(os.environ.get("REQUESTS", "100000"))
_ROUNDS = 5
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _time(command: tuple[str, ...], home: Path, port: int | None) -> float:
    """Returns how long a program takes to end, or to say at its port that it is ready."""
    environment = {**os.environ, "HOME": str(home), "VIBE_LLMS_CONFIG": str(home / "vibe.toml")}
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    if port is None:
        process.wait()
        return time.perf_counter() - started
    try:
        while process.poll() is None:
            if _is_ready(port):
                return time.perf_counter() - started
            time.sleep(0.002)
        raise SystemExit("the gateway has ended")
    finally:
        process.kill()
        process.wait()


def _is_ready(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        try:
            probe.connect(("127.0.0.1", port))
        except OSError:
            return False
        probe.sendall(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        return probe.recv(64).startswith(b"HTTP/1.1 200")


def measure_start(home: Path) -> tuple[float, float]:
    """Returns seconds until it is ready, and those of ``python -c pass``."""
    ready, bare = [], []
    for _ in range(_ROUNDS):
        port = find_port()
        ready.append(_time((*GATEWAY, str(port)), home, port))
        bare.append(_time((sys.executable, "-c", "pass"), home, None))
    return min(ready), min(bare)


class Holder(asyncio.Protocol):
    """An upstream that begins an answer, if it is streamed, and never ends it."""

    begun = 0
    gone: ClassVar[list[float]] = []

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.url = self.body = b""
        self.is_asked = False

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if b'"stream":true' in self.body.replace(b" ", b""):
            frames = STREAMED[b"messages" if b"messages" in self.url else b"chat"][:4]
            chunks = [b"%x\r\n%b\r\n" % (len(each), each) for each in frames]
            self.transport.write(_HEAD + b"".join(chunks))
        self.is_asked = True
        Holder.begun += 1

    def connection_lost(self, error: Exception | None) -> None:
        if self.is_asked:
            Holder.gone.append(time.perf_counter())


async def measure_leaving(port: int, model: str, *, streaming: bool) -> list[float]:
    """Returns milliseconds from the clients' going until the upstream saw each of them go."""
    told = {"model": model, "stream": streaming, "messages": [{"role": "user", "content": "x"}]}
    body = json.dumps(told).encode()
    head = (
        f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    )
    Holder.begun, Holder.gone = 0, []
    writers = []
    for _ in range(AT_ONCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + body)
        if streaming:
            await reader.readuntil(b"data:")
        writers.append(writer)
    async with asyncio.timeout(20):
        while Holder.begun < AT_ONCE:  # noqa: ASYNC110  # counted elsewhere
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        started = time.perf_counter()
        for writer in writers:
            writer.transport.abort()
        while len(Holder.gone) < AT_ONCE:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    return sorted((each - started) * 1_000 for each in Holder.gone)


async def measure_leavings(home: Path, upstream: int) -> None:
    """Prints the table of leavings."""
    server = await asyncio.get_running_loop().create_server(Holder, "127.0.0.1", upstream)
    port = find_port()
    print(f"{'leaving, ms, of ' + str(AT_ONCE):24} {'first':>8} {'median':>8} {'last':>8}")
    with running(*GATEWAY, str(port), port=port, home=home):
        for way, model in MODELS.items():
            for streaming in (False, True):
                found: list[float] = []
                for _ in range(_ROUNDS):
                    found += await measure_leaving(port, model, streaming=streaming)
                found.sort()
                name = f"{way}, {'streamed' if streaming else 'whole'}"
                middle = found[len(found) // 2]
                print(f"{name:24} {found[0]:8.1f} {middle:8.1f} {found[-1]:8.1f}", flush=True)
    server.close()


def measure_memory(home: Path, upstream: int) -> None:
    """Prints MB after each fifth of the requests."""
    parts = (sys.executable, str(PARTS), "upstream", str(upstream))
    with running(*parts, port=upstream, home=home):
        for way, model in MODELS.items():
            port = find_port()
            with running(*GATEWAY, str(port), port=port, home=home) as process:
                found = [_ask_many(process, port, model, home) for _ in range(5)]
            told = " ".join(f"{count}:{size:.1f}" for count, size in _sum(found))
            print(f"memory, MB after requests, {way}: {told}", flush=True)


def _sum(found: list[tuple[int, float]]) -> list[tuple[int, float]]:
    return [(sum(count for count, _ in found[: at + 1]), found[at][1]) for at in range(len(found))]


def _ask_many(process: psutil.Process, port: int, model: str, folder: Path) -> tuple[int, float]:
    """Has a fifth of the requests answered; returns their number and the memory afterwards."""
    body = {"model": model, "messages": [{"role": "user", "content": "Name a sea, please."}]}
    script = folder / "post.lua"
    script.write_text(
        f"wrk.method='POST'\nwrk.body='{json.dumps(body)}'\n"
        "wrk.headers['content-type']='application/json'\n"
        "done=function(s,l,r) io.write(string.format('DONE %d %d\\n', s.requests, "
        "s.errors.status+s.errors.read+s.errors.connect)) end\n"
    )
    url = f"http://127.0.0.1:{port}{CHAT}"
    total = 0
    while total < REQUESTS // 5:
        command = ["wrk", "-t1", f"-c{AT_ONCE}", "-d1s", "-s", str(script), url]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        count, errors = map(int, told.partition("DONE ")[2].split()[:2])
        assert not errors, f"{errors} of {count} failed"
        total += count
    return total, process.memory_info().rss / 1e6


def main() -> None:
    """Measure all of them, or the named ones: start, leaving, memory."""
    wanted = sys.argv[1:] or ["start", "leaving", "memory"]
    with tempfile.TemporaryDirectory() as folder:
        home, upstream = Path(folder), find_port()
        (home / "vibe.toml").write_text(_CONFIGURATION.format(port=upstream))
        if "start" in wanted:
            ready, bare = measure_start(home)
            print(f"ready after {ready:.2f} s, {ready / bare:.1f} times python -c pass", flush=True)
        if "leaving" in wanted:
            asyncio.run(measure_leavings(home, upstream))
        if "memory" in wanted:
            measure_memory(home, upstream)


if __name__ == "__main__":
    main()
