"""Shared parts of the benchmarks of clients: the floor, the measurements, and the table's rows.

CPU time of this process, against a server in another; the ratio to the floor is what counts.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import aiohttp
import loopback
import msgspec

CALLS = 1_000
REPETITIONS = 4
CALL_REPETITIONS = 8
"""A thousand calls take a tenth of a second, in which a neighbour's work is seen."""

FIFTY = 50
SLOW_STREAMS = 500

STREAM_BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello"}]}'
CALL_BODY = b'{"model":"m","messages":[{"role":"user","content":"Hello"}]}'
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer x"}


class Subject(Protocol):
    """A client that is measured.

    Attributes:
        name: Of its column.
    """

    name: str

    async def open(self, url: str) -> None:
        """Makes what lasts for many requests; the server is at the address."""

    async def stream(self, pace: str, protocol: str) -> int:
        """Reads a stream to its end; returns how many chunks of text it had."""

    async def call(self, protocol: str) -> None:
        """Makes a small call."""

    async def ask(self, protocol: str) -> None:
        """Makes a small call whose answer is streamed."""

    async def ask_silent(self, protocol: str) -> None:
        """Makes a small call whose answer is streamed without usage."""

    async def close(self) -> None:
        """Closes the connections."""


class _ChatDelta(msgspec.Struct, gc=False):
    content: str | None = None


class _ChatChoice(msgspec.Struct, gc=False):
    delta: _ChatDelta


class _ChatChunk(msgspec.Struct, gc=False):
    choices: list[_ChatChoice]


class _Text(msgspec.Struct, gc=False):
    text: str = ""


class _MessagesEvent(msgspec.Struct, gc=False):
    type: str
    delta: _Text | None = None


class _ResponsesEvent(msgspec.Struct, gc=False):
    type: str
    delta: str = ""


def _read_chat(event: _ChatChunk) -> int:
    return bool(event.choices and event.choices[0].delta.content)


def _read_messages(event: _MessagesEvent) -> int:
    return event.type == "content_block_delta"


def _read_responses(event: _ResponsesEvent) -> int:
    return event.type == "response.output_text.delta"


READERS: dict[str, tuple[type, Callable[[object], int]]] = {
    "chat": (_ChatChunk, _read_chat),  # type: ignore[dict-item]
    "messages": (_MessagesEvent, _read_messages),  # type: ignore[dict-item]
    "responses": (_ResponsesEvent, _read_responses),  # type: ignore[dict-item]
}


class Floor:
    """The least that a Python client can do with aiohttp."""

    name = "floor"

    async def open(self, url: str) -> None:
        """Makes the session."""
        self._url = url
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def stream(self, pace: str, protocol: str) -> int:
        """Reads a stream to its end; returns how many chunks of text it had."""
        kind, read = READERS[protocol]
        decoder = msgspec.json.Decoder(kind)
        seen = 0
        rest = b""
        url = f"{self._url}/{pace}{loopback.PATHS[protocol]}"
        async with self._session.post(url, data=STREAM_BODY, headers=HEADERS) as response:
            while data := await response.content.readany():
                *blocks, rest = (rest + data).split(b"\n\n")
                for block in blocks:
                    start = block.find(b"data: ") + 6
                    if not block.startswith(b"[DONE]", start):
                        seen += read(decoder.decode(block[start:]))
        return seen

    async def call(self, protocol: str) -> None:
        """Makes a small call."""
        url = self._url + loopback.PATHS[protocol]
        async with self._session.post(url, data=CALL_BODY, headers=HEADERS) as response:
            msgspec.json.decode(await response.read())

    async def ask(self, protocol: str) -> None:
        """Makes a small call whose answer is streamed."""
        await self.stream("short", protocol)

    async def ask_silent(self, protocol: str) -> None:
        """Makes a small call whose answer is streamed without usage."""
        await self.stream("silent", protocol)

    async def close(self) -> None:
        """Closes the session."""
        await self._session.close()


async def measure(run: Callable[[], Awaitable[object]]) -> float:
    """Returns the processor's seconds that something takes."""
    gc.collect()
    begun = time.process_time()
    await run()
    return time.process_time() - begun


async def measure_streams(subject: Subject, pace: str, protocol: str, count: int) -> float:
    """Returns microseconds a chunk of so many streams at a time."""

    async def read() -> None:
        seen = await subject.stream(pace, protocol)
        if seen != loopback.CHUNKS:
            raise AssertionError(f"{subject.name} saw {seen} chunks of {loopback.CHUNKS}")

    async def run() -> None:
        await asyncio.gather(*(read() for _ in range(count)))

    return await measure(run) / (loopback.CHUNKS * count) * 1e6


async def measure_calls(
    call: Callable[[str], Awaitable[None]], protocol: str, count: int, *, calls: int = CALLS
) -> float:
    """Returns microseconds a call, so many at a time."""

    async def work() -> None:
        for _ in range(calls // count):
            await call(protocol)

    async def run() -> None:
        await asyncio.gather(*(work() for _ in range(count)))

    return await measure(run) / (calls // count * count) * 1e6


async def compare(
    subjects: Sequence[Subject],
    measure: Callable[[Subject], Awaitable[float]],
    *,
    repetitions: int = REPETITIONS,
) -> dict[str, float]:
    """Measures all subjects in turn, several times; returns the best of each."""
    best: dict[str, float] = {}
    for _ in range(repetitions):
        for subject in subjects:
            best[subject.name] = min(best.get(subject.name, 1e9), await measure(subject))
    return best


async def measure_memory(subject: Subject, protocol: str) -> float:
    """Returns how many KB each of many slow streams takes at once; a peak, so best done first."""
    await subject.call(protocol)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    await asyncio.gather(*(subject.stream("slow", protocol) for _ in range(SLOW_STREAMS)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return grown / SLOW_STREAMS


def print_row(what: str, best: dict[str, float], name: str, budget: float | None = None) -> None:
    """Prints a row: all values, and the ratio of one to the floor beside what it may be."""
    values = "  ".join(f"{each} {value:7.1f}" for each, value in best.items())
    aim = "" if budget is None else f"  (at most {budget:g})"
    ratio = best[name] / best["floor"]
    print(f"{what:52} µs {values}  x {ratio:.2f}{aim}", flush=True)


async def print_table(
    produce: Callable[[], Subject],
    url: str,
    *,
    streams: dict[str, float] | None = None,
    calls: dict[tuple[str, int], float] | None = None,
) -> None:
    """Print the cost of a client beside the floor.

    Args:
        streams: What a chunk may cost at each pace, as a ratio to the floor.
        calls: What a call may cost, whole or as it is by default, with so many at a time.
    """
    subjects: list[Subject] = [Floor(), produce()]
    for subject in subjects:
        await subject.open(url)
    name = subjects[-1].name
    for protocol in loopback.PATHS:
        for pace in ("at-once", "paced"):
            for count in (1, FIFTY):
                best = await compare(
                    subjects,
                    lambda subject, pace=pace, count=count, protocol=protocol: measure_streams(
                        subject, pace, protocol, count
                    ),
                )
                budget = None if streams is None else streams[pace]
                print_row(f"{protocol}: a chunk, {pace}, {count} at a time", best, name, budget)
        words = {"call": "a call", "ask": "a call as it is by default"}
        if protocol == "chat" and hasattr(subjects[-1], "ask_silent"):
            words["ask_silent"] = "the same without usage"
        for word, what in words.items():
            for count in (1, 64):
                best = await compare(
                    subjects,
                    lambda subject, count=count, protocol=protocol, word=word: measure_calls(
                        getattr(subject, word), protocol, count
                    ),
                    repetitions=CALL_REPETITIONS,
                )
                budget = None if calls is None else calls[word, count]
                print_row(f"{protocol}: {what}, {count} at a time", best, name, budget)
    for subject in subjects:
        await subject.close()
