"""The gateway with long conversations: Chat Completions to Messages, cold and warm.

Beside it, in the same run, a bare passthrough on uvicorn and aiohttp that decodes and encodes the
same body. *Cold*: each request is a conversation that the process has not seen. *Growing*: each
request is the one before, with one turn more, as an agent sends them. Instructions are counted by
valgrind, if it is installed: ``python tests/benchmarks/run.py long``; with ``CASES=1000`` only
those whose names contain it, with ``ROUNDS=0`` instructions alone.
"""

from __future__ import annotations

import os
import random
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import psutil
from bench_gateway import CHAT, PARTS, running
from gateway_parts import find_port
from instructions import InstructionCounter, find_valgrind, wrap_command

ROUNDS = int(os.environ.get("ROUNDS", "7"))
_CONFIGURATION = """
[limits]
attempts = 1
[providers.anthropic]
base_url = "http://127.0.0.1:{port}"
api_key = "sk-x"
"""
_WORDS = ("the", "a", "river", "sea", "ship", "cold", "north", "wind", "harbour", "two", "blue")

Message = dict[str, Any]
Bodies = Iterator[bytes]


class Talker:
    """Writes messages whose words differ from one conversation to the next."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._calls = 0

    def write_turn(self, with_tools: bool) -> list[Message]:
        """Return two messages: the model's answer, and the next question."""
        if not with_tools:
            told = {"role": "assistant", "content": self._say(100)}
            return [told, {"role": "user", "content": self._say(40)}]
        self._calls += 1
        identity = f"call_{self._calls:08}{self._chance.randrange(10**8):08}"
        arguments = f'{{"path": "/{self._say(2)}", "limit": {self._calls}}}'
        function = {"name": "look_up", "arguments": arguments}
        call = {"id": identity, "type": "function", "function": function}
        asked = {"role": "assistant", "content": None, "tool_calls": [call]}
        return [asked, {"role": "tool", "tool_call_id": identity, "content": self._say(100)}]

    def write(self, count: int, with_tools: bool) -> list[Message]:
        """Return a conversation of an even number of messages."""
        messages = [
            {"role": "system", "content": self._say(100)},
            {"role": "user", "content": self._say(40)},
        ]
        while len(messages) < count:
            messages += self.write_turn(with_tools)
        return messages

    def _say(self, words: int) -> str:
        return " ".join(self._chance.choices(_WORDS, k=words))


def write_cold(model: str, count: int, with_tools: bool) -> Bodies:
    """Yield bodies of conversations that have nothing in common."""
    number = 0
    while True:
        number += 1
        talker = Talker(f"{count} {with_tools} {number}")
        yield _encode(model, talker.write(count, with_tools), with_tools)


def write_growing(model: str, count: int, with_tools: bool) -> Bodies:
    """Yield bodies of one growing conversation, a turn each time."""
    talker = Talker(f"growing {count} {with_tools}")
    messages = talker.write(count, with_tools)
    while True:
        yield _encode(model, messages, with_tools)
        messages += talker.write_turn(with_tools)


def _encode(model: str, messages: list[Message], with_tools: bool) -> bytes:
    body: dict[str, Any] = {"model": model, "messages": messages}
    if with_tools:
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        function = {"name": "look_up", "description": "Look it up.", "parameters": schema}
        body["tools"] = [{"type": "function", "function": function}]
    return msgspec.json.encode(body)


WRITERS: dict[str, Callable[[str, int, bool], Bodies]] = {
    "cold": write_cold,
    "growing": write_growing,
}
AIMS: dict[tuple[int, bool, str], float | None] = {
    (2, False, "cold"): None,
    (100, False, "cold"): 2,
    (1_000, False, "cold"): 3,
    (100, True, "cold"): 3,
    (1_000, True, "cold"): 4,
    (1_000, False, "growing"): 2,
    (1_000, True, "growing"): 2,
}


class Client:
    """A client that waits for each answer, on one connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))

    def ask(self, body: bytes) -> None:
        """Send a request and read its answer."""
        head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
        self._socket.sendall(f"{head}content-type: application/json\r\n\r\n".encode() + body)
        told = b""
        while b"\r\n\r\n" not in told:
            told += self._receive()
        head_told, _, rest = told.partition(b"\r\n\r\n")
        if not head_told.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{told!r}")
        lengths = [x for x in head_told.lower().split(b"\r\n") if x.startswith(b"content-length:")]
        left = int(lengths[0].partition(b":")[2]) - len(rest)
        while left > 0:
            left -= len(self._receive())

    def _receive(self) -> bytes:
        data = self._socket.recv(65_536)
        if not data:
            raise SystemExit("the connection was closed")
        return data


class Way:
    """A server that is measured, and its client."""

    def __init__(self, process: psutil.Process, port: int, model: str) -> None:
        self.process = process
        self.client = Client(port)
        self.model = model

    def measure(self, bodies: Bodies, count: int) -> float:
        """Return the processor time of a request, in milliseconds."""
        asked = [next(bodies) for _ in range(count)]
        before = _read_nanoseconds(self.process.pid)
        for body in asked:
            self.client.ask(body)
        return (_read_nanoseconds(self.process.pid) - before) / count / 1e6


def _read_nanoseconds(pid: int) -> int:
    """Return the processor time of a process, ended threads included."""
    return time.clock_gettime_ns((~pid << 3) | 2)  # as clock_getcpuclockid of the C library


def measure_times(ways: list[Way], case: tuple[int, bool, str]) -> list[float]:
    """Return the milliseconds of each way, measured in turns."""
    count, with_tools, kind = case
    each = 10 if count >= 1_000 else 60
    bodies = [WRITERS[kind](way.model, count, with_tools) for way in ways]
    for way, asked in zip(ways, bodies, strict=True):
        way.measure(asked, 3)
    rounds = [
        [way.measure(asked, each) for way, asked in zip(ways, bodies, strict=True)]
        for _ in range(ROUNDS)
    ]
    return [statistics.median(times) for times in zip(*rounds, strict=True)]


def count_instructions(way: Way, case: tuple[int, bool, str], folder: Path) -> float:
    """Return the instructions of a request."""
    count, with_tools, kind = case
    each = 4 if count >= 1_000 else 40
    bodies = WRITERS[kind](way.model, count, with_tools)
    for _ in range(3):
        way.client.ask(next(bodies))
    counter = InstructionCounter(way.process.pid, folder)
    counter.start()
    for _ in range(each):
        way.client.ask(next(bodies))
    return counter.stop() / each


def main() -> None:
    """Measure the gateway and the bare passthrough, and print the table."""
    wanted = os.environ.get("CASES", "").split()
    cases = [
        case for case in AIMS if all(word in f"{case[2]} {case[0]} {case[1]}" for word in wanted)
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = find_port()
        (folder / "vibe.toml").write_text(_CONFIGURATION.format(port=upstream))
        parts = (sys.executable, str(PARTS))
        stack.enter_context(running(*parts, "upstream", str(upstream), port=upstream, home=folder))
        commands = [
            ("m", lambda port: (*parts, "limit-translating", str(port), str(upstream))),
            (
                "anthropic:m",
                lambda port: (
                    *(sys.executable, "-m", "vibe_llms", "serve", "gateway"),
                    *("--port", str(port)),
                ),
            ),
        ]
        times: dict[tuple[int, bool, str], list[float]] = {}
        if ROUNDS:
            ways = [start(stack, produce, model, folder) for model, produce in commands]
            times = {case: measure_times(ways, case) for case in cases}
        instructions: dict[tuple[int, bool, str], list[float]] = {case: [] for case in cases}
        for model, produce in commands if find_valgrind() else ():
            with ExitStack() as one:
                way = start(
                    one, lambda port, p=produce: wrap_command(p(port), folder), model, folder
                )
                for case in cases:
                    instructions[case].append(count_instructions(way, case, folder))
        print(f"{'':30} ms: bare gateway  times  million instr.: bare gateway  times   aim")
        for case in cases:
            count, with_tools, kind = case
            name = f"{kind}, {count:,} messages{', tools' if with_tools else ''}"
            line = f"{name:32}"
            for figures, unit in ((times.get(case), 1), (instructions[case], 1e6)):
                if figures:
                    bare, ours = (each / unit for each in figures)
                    line += f" {bare:10.2f} {ours:7.2f} {ours / bare:6.2f}"
            print(f"{line} {AIMS[case] or '':>5}", flush=True)


def start(
    stack: ExitStack, produce: Callable[[int], tuple[str, ...]], model: str, folder: Path
) -> Way:
    """Start a server that runs until the benchmark ends."""
    port = find_port()
    process = stack.enter_context(running(*produce(port), port=port, home=folder))
    return Way(process, port, model)


if __name__ == "__main__":
    main()
