"""The agents daemon before a gateway before an upstream, each a process: cost of a turn, delay of
events for many watchers, and time until a watcher that reconnects is served.

A turn is compared in the same run with one in process, and with a request to the gateway; reading
a log, with a server that sends its file. RUNS, WATCHERS, EVENTS and ROUNDS set the numbers.
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
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
from gateway_parts import find_port
from loopback import run_server

from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.events.engine import InvocationProgressEvent, RunEndedEvent
from vibe_llms.events.runs import RunRequestedEvent
from vibe_llms.instruments.engines import Engine

PARTS = Path(__file__).with_name("agents_parts.py")
RUNS, WATCHERS = int(os.environ.get("RUNS", "200")), int(os.environ.get("WATCHERS", "20"))
EVENTS = int(os.environ.get("EVENTS", "100000"))
TURNS, TIMES = 30, 6
"""So many turns are measured at once, and so often, in turn with what they are compared to."""

LONG = "0" * 32
"""The id of the run whose log is long."""

_GATEWAY = """
[limits]
attempts = 1
[providers.openai_conversations]
base_url = "{url}/{pace}/v1"
api_key = "sk-x"
"""
_AGENTS = f"runs = {RUNS}\nwatchers = {RUNS * WATCHERS + 100}\n[server]\nconnections = 20000\n"


def produce_environment(home: Path, configuration: str = "") -> dict[str, str]:
    """Makes a home of a daemon, with its configuration."""
    home.mkdir()
    (home / "vibe.toml").write_text(configuration)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VIBE_")}
    return {**kept, "HOME": str(home), "VIBE_LLMS_CONFIG": str(home / "vibe.toml")}


@contextmanager
def running(*command: str, environment: dict[str, str], port: int) -> Iterator[psutil.Process]:
    """Runs a server."""
    process = subprocess.Popen(
        (sys.executable, *command),
        env=environment,
        cwd=environment["HOME"],
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5)
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                time.sleep(0.05)
        yield psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def post(url: str, body: Any, **headers: str) -> Any:
    """Post JSON, and return the answer."""
    told = {"content-type": "application/json", **headers}
    request = urllib.request.Request(url, json.dumps(body).encode(), told)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def read(url: str, **headers: str) -> tuple[float, int]:
    """Reads an answer to its end; returns the seconds to its first bytes, and how many it has."""
    started, first, size = time.perf_counter(), 0.0, 0
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        while data := answer.read1(1 << 18):
            first = first or time.perf_counter() - started
            size += len(data)
    return first, size


def judge(value: float, most: float) -> str:
    """Return the aim, and whether it is met."""
    return f"at most {most:g}: {'met' if value <= most else 'missed'}"


def spend(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


Figures = tuple[float, float]


def measure(act: Callable[[], object], processes: list[psutil.Process]) -> Figures:
    """Returns milliseconds of processor time, and of the clock, each time: the median."""
    for _ in range(3):
        act()
    before, seconds = spend(processes), []
    for _ in range(TURNS):
        started = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - started)
    return (spend(processes) - before) / TURNS * 1e3, statistics.median(seconds) * 1e3


def measure_turns(url: str, gateway: str, agents: str, home: Path, daemons: Any) -> None:
    """Prints what a run of one turn costs, here and there."""
    environment = produce_environment(home, _GATEWAY.format(url=url, pace="short"))
    application = Application(load_configuration(environment=environment, working_directory=home))
    engine = Engine(
        "openai_conversations:m", store=DirectoryStore(home / "store"), application=application
    )
    model, ours = "remote:openai_conversations:m", psutil.Process()

    async def compare() -> list[Figures]:
        loop = asyncio.get_running_loop()

        def answer() -> None:
            outcome = asyncio.run_coroutine_threadsafe(engine.answer("Name a sea."), loop).result()
            assert outcome.is_answered, outcome

        kinds = ((answer, [ours]), (ask, [daemons[0]]), (run, daemons))
        async with engine:
            rounds = [
                [await asyncio.to_thread(measure, *kind) for kind in kinds] for _ in range(TIMES)
            ]
        # The least of each: whatever else a machine does makes them only more.
        return [
            (min(each[0] for each in found), min(each[1] for each in found))
            for found in zip(*rounds, strict=True)
        ]

    def ask() -> None:
        said = [{"role": "user", "content": "Name a sea."}]
        body = {"model": "openai_conversations:m", "messages": said, "stream": True}
        request = urllib.request.Request(
            f"{gateway}/v1/chat/completions",
            json.dumps(body).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()

    def run() -> None:
        run_id = post(f"{agents}/runs", {"model": model, "input": "Name a sea."})["id"]
        read(f"{agents}/runs/{run_id}/events?follow=false")

    own, request, there = asyncio.run(compare())
    print("a run of one turn     processor ms     clock ms")
    for name, figures in (
        ("in process", own),
        ("the gateway's request", request),
        ("agents and gateway", there),
    ):
        print(f"{name:22} {figures[0]:11.2f} {figures[1]:12.2f}")
    for index, name in enumerate(("processor", "clock")):
        ratio = there[index] / (2 * own[index] + request[index])
        told = judge(ratio, 1)
        print(f"{name}: x {ratio:.2f} of twice its own and one request ({told})", flush=True)


def measure_crowd(url: str, agents: str, process: psutil.Process) -> None:
    """Prints how late those hear who watch many runs at once, and what memory that takes.

    No model says anything before all watch, however long that takes.
    """
    command = [sys.executable, str(PARTS), "watch", agents.rpartition(":")[2], str(WATCHERS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdin is not None
        assert watching.stdout is not None
        for number in range(int(os.environ.get("ROUNDS", "2"))):
            read(f"{url}/gate/close")
            ids = [
                post(
                    f"{agents}/runs",
                    {"model": "remote:openai_conversations:m", "input": f"Sea {each}."},
                )["id"]
                for each in range(RUNS)
            ]
            watching.stdin.write(" ".join(ids) + "\n")
            watching.stdin.flush()
            assert watching.stdout.readline() == "begun\n"
            read(f"{url}/gate/open")
            before, started = spend([process]), time.perf_counter()
            megabytes = process.memory_info().rss / 1e6
            told = json.loads(watching.stdout.readline())
            busy = (spend([process]) - before) / (time.perf_counter() - started)
            after = process.memory_info().rss / 1e6
            print(
                f"{RUNS} runs, {WATCHERS} watchers each, round {number + 1}: {told['events']} "
                f"events and {told['pieces']} pieces told; late by {told['median'] * 1e3:.0f} ms "
                f"in the median, {told['p99'] * 1e3:.0f} at p99, {told['worst'] * 1e3:.0f} at "
                f"worst ({judge(told['worst'] * 1e3, 1000)}); {busy:.0%} of a processor; "
                f"{megabytes:.0f} MB meanwhile, {after:.0f} MB after it ({judge(after, 150)})",
                flush=True,
            )


def write_long(store: DirectoryStore) -> Path:
    """Writes a run with many events."""
    store.create(LONG, ConversationMetadata())
    log = store.open_log(LONG)
    log.claim()
    log.append(LONG, RunRequestedEvent(spec={"model": "nobody:m"}))
    event = InvocationProgressEvent(key="k", invocation_id="i", name="look", text="x" * 100)
    for _ in range(EVENTS - 2):
        log.append("r", event)
    log.append("r", RunEndedEvent(run_id="r", reason="answered"))
    log.close()
    return Path(store.locate(LONG)) / "runs.jsonl"


def measure_rejoining(agents: str, path: Path) -> None:
    """Prints how soon one is served that comes back to a long log."""
    url = f"{agents}/runs/{LONG}/events"
    firsts = []
    for _ in range(10):
        started = time.perf_counter()
        request = urllib.request.Request(url, headers={"Last-Event-ID": str(EVENTS - 1)})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.readline() == f"id: {EVENTS}\n".encode()
            firsts.append((time.perf_counter() - started) * 1e3)
    print(
        f"rejoining {EVENTS} events at the end: {firsts[0]:.1f} ms the first time, then "
        f"{(usual := statistics.median(firsts[1:])):.1f} ms ({judge(max(firsts[0], usual), 50)})"
    )
    port = find_port()
    environment = dict(os.environ, HOME=str(path.parent))
    rates = {}
    with running(str(PARTS), "file", str(port), str(path), environment=environment, port=port):
        for name, place in (("the file", f"http://127.0.0.1:{port}/"), ("its events", url)):
            best = 0.0
            for _ in range(3):
                started, size = time.perf_counter(), 0
                with urllib.request.urlopen(place, timeout=60) as answer:
                    while size < path.stat().st_size and (data := answer.read1(1 << 18)):
                        size += len(data)
                best = max(best, size / (time.perf_counter() - started) / 1e6)
            rates[name] = best
    told = ", ".join(f"{name} {rate:.0f} MB/s" for name, rate in rates.items())
    print(f"from the beginning: {told}", flush=True)


def main() -> None:
    """Measures all of them, and prints the figures."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = stack.enter_context(run_server())
        serve = ("-m", "vibe_llms", "serve")

        def start(name: str, environment: dict[str, str], *options: str) -> Any:
            port = find_port()
            command = (*serve, name, "--port", str(port), *options)
            process = stack.enter_context(running(*command, environment=environment, port=port))
            return process, f"http://127.0.0.1:{port}"

        def start_both(pace: str, home: str) -> Any:
            configuration = _GATEWAY.format(url=url, pace=pace)
            environment = produce_environment(folder / f"{home}-gateway", configuration)
            gateway, gateway_url = start("gateway", environment)
            environment = produce_environment(folder / home)
            (folder / home / "agents.toml").write_text(_AGENTS)
            known = load_configuration(environment=environment, working_directory=folder / home)
            if pace == "short":
                store = DirectoryStore(known.data_directory)
                long = write_long(store)
            else:
                long = None
            options = ("--config", str(folder / home / "agents.toml"), "--gateway", gateway_url)
            agents, agents_url = start("agents", environment, *options)
            return [gateway, agents], gateway_url, agents_url, long

        wanted = os.environ.get("PARTS", "turns crowd rejoin").split()
        if {"turns", "rejoin"} & {*wanted}:
            daemons, gateway_url, agents_url, long = start_both("short", "quick")
            if "rejoin" in wanted:
                measure_rejoining(agents_url, long)
            if "turns" in wanted:
                measure_turns(url, gateway_url, agents_url, folder / "own", daemons)
        if "crowd" in wanted:
            daemons, _, agents_url, _ = start_both("held", "crowd")
            measure_crowd(url, agents_url, daemons[1])


if __name__ == "__main__":
    main()
