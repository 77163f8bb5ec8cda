"""The gateway beside others: a small request, 32 at once, and a conversation of 1,000 messages.

Processor time a request of each process, measured in turns within one run. *Carried* requests
reach the vendor in the client's protocol, *translated* ones go from Chat Completions to Messages,
and *messages* are requests for Messages to a vendor that speaks it, which LiteLLM also has in
Rust. With ``COUNT=1`` instructions of the small request are counted as well, where valgrind is
installed; others than servers of Python and nginx are not counted. See ``gateway_peers``.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from bench_long import Talker
from gateway_parts import find_port
from gateway_peers import PARTS, Gateway, survey
from instructions import InstructionCounter, find_valgrind, wrap_command

AT_ONCE = 32
SMALL = int(os.environ.get("SMALL", "1000"))
LONG = int(os.environ.get("LONG", "20"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
COUNTED = ("vibe-llms", "limit", "nginx")
ROWS = (
    ("a small request", "carried", "limit"),
    ("a small request", "translated", "limit, decoding"),
    ("a small request", "messages", "limit"),
    ("1,000 messages", "carried", "limit"),
    ("1,000 messages", "translated", "limit, decoding"),
    ("1,000 messages", "messages", "limit"),
)
AIMS = {("a small request", "carried"): "0.6 of the limit, 5 times nginx"}
_LENGTH = b"content-length: "


class _Client(asyncio.Protocol):
    """Connection that sends the next request when it has its answer."""

    def __init__(self, requests: Iterator[bytes], done: asyncio.Future[None]) -> None:
        self._requests, self._done = requests, done
        self._told = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._send()

    def _send(self) -> None:
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
        else:
            self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._told += data
        head, found, body = self._told.partition(b"\r\n\r\n")
        if not found:
            return
        if b" 200 " not in head[:16]:
            self._done.set_exception(SystemExit(f"{self._told[:500]!r}"))
            self._transport.abort()
            return
        lower = head.lower()
        start = lower.find(_LENGTH)
        if start >= 0:
            size = int(lower[start + len(_LENGTH) :].split(b"\r\n", 1)[0])
            is_over = len(body) >= size
        else:
            is_over = body.endswith(b"0\r\n\r\n")
        if is_over:
            self._told = b""
            self._send()


async def _load(port: int, requests: list[bytes], at_once: int) -> None:
    loop = asyncio.get_running_loop()
    left = iter(requests)
    waiting = []
    for _ in range(min(at_once, len(requests))):
        done: asyncio.Future[None] = loop.create_future()
        waiting.append(done)
        await loop.create_connection(
            lambda done=done: _Client(left, done),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
    await asyncio.gather(*waiting)


@contextmanager
def _run(gateway: Gateway, home: Path, upstream: int, counted: bool) -> Iterator[tuple[int, int]]:
    """Run a gateway, and yield its port and the id of its process once it answers."""
    port = find_port()
    command = gateway.configure(home, port, upstream)
    if counted:
        command = wrap_command(command, home)
    environment = {
        **os.environ,
        "HOME": str(home),
        "VIBE_LLMS_CONFIG": str(home / "vibe.toml"),
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "true",
        **gateway.environment,
    }
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(2_400):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()


def _write(gateway: Gateway, kind: str, what: str, count: int, seed: str) -> list[bytes]:
    """Return requests; long ones are conversations that are new to the gateway."""
    requests = []
    for number in range(count):
        if what == "a small request":
            messages = [{"role": "user", "content": "Name a sea, please."}]
        else:
            messages = Talker(f"{seed} {number}").write(1_000, with_tools=False)
        body: dict[str, object] = {"model": gateway.models[kind], "messages": messages}
        if kind == "messages":
            if what != "a small request":
                body["messages"], body["system"] = messages[1:-1], messages[0]["content"]
            body["max_tokens"] = 100
        data = msgspec.json.encode(body)
        requests.append(gateway.write_head(kind, len(data)) + data)
    return requests


def _measure(gateway: Gateway, port: int, pid: int, row: tuple[str, str], seed: str) -> float:
    """Return microseconds of processor time a request."""
    what, kind = row
    count, at_once = (SMALL, AT_ONCE) if what == "a small request" else (LONG, 1)
    if gateway.name.startswith("LiteLLM"):
        count = max(count // 5, 3)
    requests = _write(gateway, kind, what, count, seed)
    before = _read_nanoseconds(pid)
    asyncio.run(_load(port, requests, at_once))
    return (_read_nanoseconds(pid) - before) / count / 1e3


def _read_nanoseconds(pid: int) -> int:
    """Return the processor time of a process, ended threads included."""
    return time.clock_gettime_ns((~pid << 3) | 2)  # as clock_getcpuclockid of the C library


def _print(row: tuple[str, str, str], times: dict[str, float]) -> None:
    what, kind, limit = row
    aim = AIMS.get((what, kind))
    print(f"\n{what}, {kind}{f' (aim: {aim})' if aim else ''}")
    for name, spent in times.items():
        print(f"  {name:18} {spent:11.1f} µs {spent / times[limit]:8.2f} of the limit", flush=True)


def _count(home: Path, upstream: int) -> None:
    """Print the instructions of a small request, 32 at once."""
    print("\ninstructions of a small request, carried, 32 at once")
    for gateway in survey(upstream):
        if gateway.name not in COUNTED:
            continue
        with _run(gateway, home, upstream, counted=True) as (port, pid):
            requests = _write(gateway, "carried", "a small request", 1_000, "")
            # After a thousand requests, metrics import their library.
            asyncio.run(_load(port, [*requests, *requests[:200]], AT_ONCE))
            counter = InstructionCounter(pid, home)
            counter.start()
            asyncio.run(_load(port, requests, AT_ONCE))
            print(f"  {gateway.name:18} {counter.stop() / 1_000:11,.0f}", flush=True)


def main() -> None:
    """Measure all gateways, and print a table for each kind of request."""
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = find_port()
        command = (sys.executable, str(PARTS), "upstream", str(upstream))
        served = subprocess.Popen(command)
        stack.callback(served.kill)
        running = {}
        for gateway in survey(upstream):
            port, pid = stack.enter_context(_run(gateway, home, upstream, counted=False))
            running[gateway.name] = gateway, port, pid
        told: dict[str, dict[str, float]] = {}
        for row in ROWS:
            what, kind, _ = row
            asked = {name: each for name, each in running.items() if kind in each[0].models}
            spent: dict[str, list[float]] = {name: [] for name in asked}
            for turn in range(ROUNDS + 1):
                for name, (gateway, port, pid) in asked.items():
                    each = _measure(gateway, port, pid, (what, kind), f"{name} {turn}")
                    if turn:  # the first one warms up
                        spent[name].append(each)
            times = {name: statistics.median(each) for name, each in spent.items()}
            told[f"{what}, {kind}"] = times
            _print(row, times)
        if file := os.environ.get("TELL"):
            Path(file).write_text(json.dumps(told, indent=1))
        if os.environ.get("COUNT") and find_valgrind():
            _count(home, upstream)


if __name__ == "__main__":
    main()
