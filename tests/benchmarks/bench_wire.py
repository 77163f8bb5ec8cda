"""What our transport and framer add to a bare aiohttp, a split and msgspec: the floor.

CPU time of this process, against a server in another; the ratio to the floor is what counts.
Rows: a chunk of a stream that arrives at once and one by one, alone and fifty at a time, and a
small call alone and 64 at a time, by each of the three protocols.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from collections.abc import Awaitable, Callable

import aiohttp
import loopback
import msgspec

from vibe_llms.limits import Limits
from vibe_llms.wire.direct import DirectTransport
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.sse import SseFramer

CALLS = 1_000
REPETITIONS = 4
FIFTY = 50
SLOW_STREAMS = 500

STREAM_BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hello"}]}'
CALL_BODY = b'{"model":"m","messages":[{"role":"user","content":"Hello"}]}'
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer x"}


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

    async def open(self) -> None:
        """Makes the session."""
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def stream(self, url: str, protocol: str) -> int:
        """Reads a stream to its end; returns how many chunks of text it had."""
        kind, read = READERS[protocol]
        decoder = msgspec.json.Decoder(kind)
        seen = 0
        rest = b""
        async with self._session.post(url, data=STREAM_BODY, headers=HEADERS) as response:
            while data := await response.content.readany():
                *blocks, rest = (rest + data).split(b"\n\n")
                for block in blocks:
                    start = block.find(b"data: ") + 6
                    if not block.startswith(b"[DONE]", start):
                        seen += read(decoder.decode(block[start:]))
        return seen

    async def call(self, url: str) -> None:
        """Makes a small call."""
        async with self._session.post(url, data=CALL_BODY, headers=HEADERS) as response:
            msgspec.json.decode(await response.read())

    async def close(self) -> None:
        """Closes the session."""
        await self._session.close()


class Wire:
    """The same by our transport and framer."""

    name = "wire"

    async def open(self) -> None:
        """Makes the transport."""
        self._limits = Limits()
        self._transport = DirectTransport(limits=self._limits)

    async def stream(self, url: str, protocol: str) -> int:
        """Reads a stream to its end; returns how many chunks of text it had."""
        kind, read = READERS[protocol]
        decoder = msgspec.json.Decoder(kind)
        framer = SseFramer(self._limits)
        seen = 0
        request = WireRequest(url=url, body=STREAM_BODY, headers=HEADERS)
        async with await self._transport.send(request) as exchange:
            while data := await exchange.receive():
                for frame in framer.feed(data):
                    if frame.data != b"[DONE]":
                        seen += read(decoder.decode(frame.data))
        return seen

    async def call(self, url: str) -> None:
        """Makes a small call."""
        request = WireRequest(url=url, body=CALL_BODY, headers=HEADERS)
        async with await self._transport.send(request) as exchange:
            msgspec.json.decode(await exchange.read())

    async def close(self) -> None:
        """Closes the transport."""
        await self._transport.close()


SUBJECTS = (Floor, Wire)


async def _measure(run: Callable[[], Awaitable[object]]) -> float:
    gc.collect()
    begun = time.process_time()
    await run()
    return time.process_time() - begun


async def _stream(subject: Floor | Wire, url: str, protocol: str, count: int) -> float:
    """Returns microseconds a chunk of so many streams at a time."""

    async def read() -> None:
        seen = await subject.stream(url + loopback.PATHS[protocol], protocol)
        if seen != loopback.CHUNKS:
            raise AssertionError(f"{subject.name} saw {seen} chunks of {loopback.CHUNKS}")

    async def run() -> None:
        await asyncio.gather(*(read() for _ in range(count)))

    return await _measure(run) / (loopback.CHUNKS * count) * 1e6


async def _call(subject: Floor | Wire, url: str, protocol: str, count: int) -> float:
    """Returns microseconds a call, so many at a time."""

    async def work() -> None:
        for _ in range(CALLS // count):
            await subject.call(url + loopback.PATHS[protocol])

    async def run() -> None:
        await asyncio.gather(*(work() for _ in range(count)))

    return await _measure(run) / (CALLS // count * count) * 1e6


async def _compare(measure: Callable[[Floor | Wire], Awaitable[float]]) -> dict[str, float]:
    """Measures all subjects in turn, several times; returns the best of each."""
    best: dict[str, float] = {}
    subjects = [produce() for produce in SUBJECTS]
    for subject in subjects:
        await subject.open()
    for _ in range(REPETITIONS):
        for subject in subjects:
            best[subject.name] = min(best.get(subject.name, 1e9), await measure(subject))
    for subject in subjects:
        await subject.close()
    return best


def _print(what: str, unit: str, best: dict[str, float]) -> None:
    values = "  ".join(f"{name} {value:7.1f}" for name, value in best.items())
    print(f"{what:34} {unit:4} {values}  x {best['wire'] / best['floor']:.2f}", flush=True)


async def _measure_memory(url: str) -> None:
    """Prints how much more memory slow streams take at once; peaks, so ours alone."""
    subject = Wire()
    await subject.open()
    await subject.call(url + loopback.PATHS["chat"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = f"{url}/slow{loopback.PATHS['chat']}"
    await asyncio.gather(*(subject.stream(path, "chat") for _ in range(SLOW_STREAMS)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    await subject.close()
    print(f"{SLOW_STREAMS} slow streams: {grown / SLOW_STREAMS:.0f} KB each")


async def _main(url: str) -> None:
    await _measure_memory(url)
    for protocol in loopback.PATHS:
        for pace in ("at-once", "paced"):
            for count in (1, FIFTY):
                best = await _compare(
                    lambda subject, pace=pace, count=count, protocol=protocol: _stream(
                        subject, f"{url}/{pace}", protocol, count
                    )
                )
                _print(f"{protocol}: a chunk, {pace}, {count} at a time", "µs", best)
        for count in (1, 64):
            best = await _compare(
                lambda subject, count=count, protocol=protocol: _call(subject, url, protocol, count)
            )
            _print(f"{protocol}: a call, {count} at a time", "µs", best)


def main() -> None:
    """Prints the table."""
    with loopback.run_server() as url:
        asyncio.run(_main(url))


if __name__ == "__main__":
    main()
