"""Overhead of our code for a text delta between a provider and a reactor.

A provider that has everything ready is read by a bare loop, and by a stream with assembler,
reactors and the consumer's ``async for``; the difference is ours. CPU time of this process.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence

from vibe_llms.events.conversation import ConversationProgressEvent
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.messages.canisters import StopReason, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import Translation
from vibe_llms.providers.streams import EventSource, ResponseStream

DELTAS = 20_000
REPETITIONS = 7
LIMIT_MICROSECONDS = 5.0


class _Source:
    """Gives one delta a read, as a vendor that sends them one by one."""

    def __init__(self) -> None:
        start = ContentStartedEvent(index=0, kind="text")
        end = ContentFinishedEvent(index=0)
        finish = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)
        self._batches: list[Sequence[StreamEvent] | None] = [[start]]
        self._batches += [[ContentDeltaEvent(0, "word ")] for _ in range(DELTAS)]
        self._batches += [[end], [finish]]
        self._next = iter(self._batches).__next__
        gc.freeze()  # exclude the prepared objects from garbage collection

    async def receive(self) -> Sequence[StreamEvent] | None:
        return self._next()

    async def close(self) -> None:
        return None


async def _read_bare() -> float:
    source = _Source()
    begun = time.process_time()
    received = 0
    while received < DELTAS:
        for event in await source.receive() or ():
            received += event.__class__ is ContentDeltaEvent
    return time.process_time() - begun


async def _read_stream(reactors: ConversationReactors | None) -> float:
    async def open_source() -> Translation[EventSource]:
        return Translation(_Source())

    opened = await open_source()

    async def give() -> Translation[EventSource]:
        return opened

    stream = ResponseStream(
        request=Request(canisters=[UserCanister("x")]),
        assembler=Assembler(provider="p", model="m"),
        open_source=give,
        reactors=reactors,
    )
    begun = time.process_time()
    async for _ in stream:
        pass
    return time.process_time() - begun


def _ignore(event: ConversationProgressEvent) -> None:
    return None


async def _ignore_later(event: ConversationProgressEvent) -> None:
    return None


def main() -> None:
    """Prints one line a way of listening: microseconds a delta, ratio to the bare loop, ours."""
    ways = {
        "bare loop": _read_bare,
        "stream, no reactors": lambda: _read_stream(None),
        "stream, plain reactor": lambda: _read_stream(ConversationReactors(progress=_ignore)),
        "stream, async reactor": lambda: _read_stream(ConversationReactors(progress=_ignore_later)),
    }
    times = {name: float("inf") for name in ways}
    for _ in range(REPETITIONS):
        for name, read in ways.items():
            times[name] = min(times[name], asyncio.run(read()))
    bare = times["bare loop"]
    print(f"{'a text delta, from provider to reactor':40} {'µs':>7} {'x bare':>7} {'ours µs':>8}")
    for name, seconds in times.items():
        micro = seconds / DELTAS * 1e6
        ours = (seconds - bare) / DELTAS * 1e6
        print(f"{name:40} {micro:7.2f} {seconds / bare:7.1f} {ours:8.2f}")
    print(f"(limit for ours: {LIMIT_MICROSECONDS} µs; CPU, best of {REPETITIONS})")


if __name__ == "__main__":
    main()
