"""Delay until a server notices a cancelled or abandoned answer: by provider, in milliseconds.

The figure is from the moment of leaving to the moment when the server reads the end of the
connection, both in this process; each row is the median and the worst of several.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from support.network.wire_servers import Connection, serve
from support.vendors.hostility import produce_stream
from support.vendors.shipped import SHIPPED, SURVEYED, ShippedProvider, is_survey
from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.testing.simulator.scripts import Say

REPETITIONS = 20
TARGET_MILLISECONDS = 10.0
REQUEST = Request(canisters=[UserCanister("hello")])
WAYS = ("leaving", "cancelling", "before headers", "not streamed")


async def measure(provider: ShippedProvider, way: str, directory: Path) -> list[float]:
    """Returns the milliseconds of each time."""
    body = produce_stream(provider.protocol, Say("Two words."))
    waiting: asyncio.Queue[Connection] = asyncio.Queue()
    ends: asyncio.Queue[float] = asyncio.Queue()

    async def handle(connection: Connection) -> None:
        while is_survey((await connection.read_request())[0]):
            await connection.answer(SURVEYED)
        if way in ("leaving", "cancelling"):
            await connection.begin(f"Content-Type: {provider.framing}\r\n")
            await connection.send_chunk(body[: len(body) * 4 // 5])
        elif way == "not streamed":
            await connection.begin("Content-Type: application/json\r\n")
            await connection.send_chunk(b"{")
        waiting.put_nowait(connection)
        await connection.wait_closed()
        ends.put_nowait(time.perf_counter())

    times = []
    async with serve(handle) as server:
        model = await provider.access(server.url, directory)
        for _ in range(REPETITIONS):
            if way == "leaving":
                async with model.stream(REQUEST) as events:
                    async for event in events:
                        if isinstance(event, ContentDeltaEvent):
                            break
                    left = time.perf_counter()
            else:
                task = asyncio.create_task(model.converse(REQUEST, stream=way != "not streamed"))
                await waiting.get()
                await asyncio.sleep(0.01)
                left = time.perf_counter()
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            times.append((await ends.get() - left) * 1000)
        await model._client.close()  # type: ignore[attr-defined]
    return times


async def main() -> None:
    """Prints the table."""
    print(f"{'provider':22}" + "".join(f"{way:>20}" for way in WAYS))
    worst = 0.0
    with tempfile.TemporaryDirectory() as directory:
        for name, provider in SHIPPED.items():
            cells = []
            for way in WAYS:
                times = await measure(provider, way, Path(directory) / name)
                worst = max(worst, *times)
                cells.append(f"{statistics.median(times):.2f} / {max(times):.2f}")
            print(f"{name:22}" + "".join(f"{cell:>20}" for cell in cells))
    print(f"median / worst, ms; the target is {TARGET_MILLISECONDS:g}, the worst was {worst:.2f}")


if __name__ == "__main__":
    asyncio.run(main())
