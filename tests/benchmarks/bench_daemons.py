"""Daemons until they are ready, at rest, and at their first request.

Ready is what ``vibe serve`` takes until it says where it listens: by the clock, the best of
several, and in instructions, both as multiples of ``python -c pass``. Memory is that of the process
a second later. The tools daemon imports the package ``mcp`` at its first request: what that takes,
and the memory after it, are rows, too. Byte code is warmed first.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import psutil
from bench_agents import judge
from instructions import count_instructions

ROUNDS = 5
_ENTRY = "from vibe_llms.interfaces.cli.entry import main; main()"
_READY = " on http://"
_HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}


@attrs.frozen
class Daemon:
    """A daemon with its aims: multiples of ``python -c pass``, and MB at rest."""

    name: str
    arguments: tuple[str, ...]
    ready: float
    megabytes: float

    @property
    def command(self) -> tuple[str, ...]:
        """Its command line."""
        return sys.executable, "-c", _ENTRY, "serve", *self.arguments, "--port", "0"


DAEMONS = (
    Daemon("tools", ("tools",), 30, 55),
    Daemon("agents", ("agents", "--gateway", "http://127.0.0.1:1"), 28, 48),
)
PASS = (sys.executable, "-c", "pass")


@contextmanager
def running(
    daemon: Daemon, environment: dict[str, str]
) -> Iterator[tuple[float, str, psutil.Process]]:
    """Start a daemon; yield the seconds until it is ready, its address and its process."""
    started = time.perf_counter()
    with subprocess.Popen(
        daemon.command, env=environment, stderr=subprocess.PIPE, text=True, cwd=environment["HOME"]
    ) as process:
        assert process.stderr is not None
        while _READY not in (line := process.stderr.readline()):
            assert line, f"{daemon.name} ended early"
        found = re.search(r"http://[\w.:]+", line)
        assert found is not None
        try:
            yield time.perf_counter() - started, found[0], psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGINT)


def measure_first_request(url: str) -> float:
    """Return the seconds of an initialization."""
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
    }
    request = urllib.request.Request(f"{url}/mcp", json.dumps(_HELLO).encode(), headers)
    started = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - started


def time_pass(environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(PASS, env=environment, check=True)
    return time.perf_counter() - started


def measure(daemon: Daemon, environment: dict[str, str]) -> None:
    """Print the rows of a daemon."""
    ready, bare, firsts = list[float](), list[float](), list[float]()
    megabytes = second = after = 0.0
    for _ in range(ROUNDS + 1):
        bare.append(time_pass(environment))
        with running(daemon, environment) as (seconds, url, process):
            ready.append(seconds)
            time.sleep(1)
            megabytes = process.memory_info().rss / 1e6
            if daemon.name == "tools":
                firsts.append(measure_first_request(url))
                second, after = measure_first_request(url), process.memory_info().rss / 1e6
    cold, warm = ready[0], min(ready[1:])
    print(
        f"{daemon.name}, ready after {warm * 1e3:.0f} ms, x {warm / min(bare):.1f}; "
        f"{cold * 1e3:.0f} ms without byte code; "
        f"{megabytes:.1f} MB at rest ({judge(megabytes, daemon.megabytes)})"
    )
    if firsts:
        print(
            f"tools, first request {min(firsts[1:]) * 1e3:.0f} ms, second {second * 1e3:.0f} ms; "
            f"then {after:.0f} MB"
        )
    counted = count_instructions(daemon.command, environment, until=_READY)
    floor = count_instructions(PASS, environment)
    if counted is None or floor is None:
        print("instructions: valgrind is not installed")
        return
    ratio = counted / floor
    print(
        f"{daemon.name}, ready after {counted / 1e6:.0f} M instructions, x {ratio:.1f} "
        f"({judge(ratio, daemon.ready)})",
        flush=True,
    )


def main() -> None:
    """Print all rows."""
    with tempfile.TemporaryDirectory() as home:
        for daemon in DAEMONS:
            own = Path(home) / daemon.name
            own.mkdir()
            (own / "vibe.toml").write_text("")
            environment = {
                name: value
                for name, value in os.environ.items()
                if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith(("XDG_", "VIBE_"))
            } | {
                "HOME": str(own),
                "VIBE_LLMS_CONFIG": str(own / "vibe.toml"),
                "PYTHONPYCACHEPREFIX": f"{home}/{daemon.name}-byte-code",
            }
            measure(daemon, environment)


if __name__ == "__main__":
    main()
