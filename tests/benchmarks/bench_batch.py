"""Cost of a batch of small requests beside a bare client, and growth of its memory.

Throughput by the clock at 256 at a time, journal on, in turns in one process: the floor (a bare
aiohttp, and msgspec), the same model asked without a batch, and the batch. Once against a server
that answers at once, where the client's CPU is all that is measured, and once against one that
takes as long as a vendor does at the very least. The server is a process of its own on the same
machine. A minute; with a number of requests as its argument (10240), more.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import clients
import loopback

from vibe_llms.application import Application
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.instruments.models import Model

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 2_560
CONCURRENCY = 256
ROUNDS = 3
BUDGET = 0.5
"""How much of the bare client's throughput a batch has at least."""

Measure = Callable[[int], Awaitable[None]]


async def repeat(call: Callable[[], Awaitable[object]], count: int) -> None:
    """Makes so many calls, 256 at a time."""

    async def work() -> None:
        for _ in range(count // CONCURRENCY):
            await call()

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))


def read_memory() -> int:
    """Returns the memory that this process has now, in KB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4


class Subjects:
    """The three ways to make many calls."""

    def __init__(self, url: str, folder: Path) -> None:
        self.memory: dict[str, int] = {}
        self._floor = clients.Floor()
        self._url = url
        self._folder = folder
        self._number = 0

    async def open(self) -> None:
        """Makes what lasts."""
        await self._floor.open(self._url)
        settings = self._folder / "config.toml"
        settings.write_text(
            f'[providers.openai_conversations]\nbase_url = "{self._url}/v1"\napi_key = "x"\n'
        )
        configuration = load_configuration(
            environment={"VIBE_LLMS_CONFIG": str(settings), "HOME": str(self._folder)}
        )
        application = Application(configuration)
        self._model = Model("openai_conversations:m", application=application)

    async def run_floor(self, count: int) -> None:
        """A bare aiohttp."""
        await repeat(lambda: self._floor.call("chat"), count)

    async def run_model(self, count: int) -> None:
        """The model, and no batch."""
        await repeat(lambda: self._model.answer("Hello", stream=False), count)

    async def run_batch(self, count: int, *, weighed: bool = False) -> None:
        """A batch with its journal; each prompt is another one. To weigh it takes time."""
        self._number += 1
        journal = self._folder / f"answers-{self._number}.jsonl"
        batch = BatchChannel(self._model, concurrency=CONCURRENCY, journal=journal)
        prompts = (f"Hello {number}" for number in range(count))
        seen = 0
        async with aclosing(batch.run(prompts)) as items:
            async for item in items:
                seen += item.error is None
                if weighed and seen in (count // 10, count):
                    self.memory[f"{seen}/{count}"] = read_memory()
        if seen != count:
            raise AssertionError(f"{seen} of {count} were answered")

    async def close(self) -> None:
        """Closes the connections."""
        await self._floor.close()
        await self._model.close()


async def measure(run: Measure) -> tuple[float, float]:
    """Returns requests a second by the clock, and microseconds of our CPU a request."""
    gc.collect()
    begun, worked = time.perf_counter(), time.process_time()
    await run(REQUESTS)
    seconds, worked = time.perf_counter() - begun, time.process_time() - worked
    return REQUESTS / seconds, worked / REQUESTS * 1e6


async def compare(url: str, what: str) -> None:
    """Prints the rows for one server."""
    with tempfile.TemporaryDirectory() as folder:
        subjects = Subjects(url, Path(folder))
        await subjects.open()
        runs: dict[str, Measure] = {
            "floor": subjects.run_floor,
            "model": subjects.run_model,
            "batch": subjects.run_batch,
        }
        for run in runs.values():
            await run(CONCURRENCY * 4)
        ratios: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(ROUNDS):
            seen = {name: await measure(run) for name, run in runs.items()}
            for name, (rate, cpu) in seen.items():
                ratio = rate / seen["floor"][0]
                ratios[name].append(ratio)
                print(f"{what:8} {name:11} {rate:7.0f}/s  {cpu:6.0f} µs of CPU  x {ratio:.2f}")
        middle = sorted(ratios["batch"])[ROUNDS // 2]
        beside = sorted(
            batch / model for batch, model in zip(ratios["batch"], ratios["model"], strict=True)
        )[ROUNDS // 2]
        print(f"{what:8} batch to floor: {middle:.2f}  (at least {BUDGET})", flush=True)
        print(f"{what:8} batch to the model: {beside:.2f}  (at least {BUDGET})", flush=True)
        await subjects.run_batch(REQUESTS, weighed=True)
        early, late = f"{REQUESTS // 10}/{REQUESTS}", f"{REQUESTS}/{REQUESTS}"
        grown = subjects.memory[late] - subjects.memory[early]
        print(f"{what:8} memory from item {early} to {late}: {grown:+,} KB", flush=True)
        await subjects.close()


def main() -> None:
    """Prints the table."""
    with loopback.run_server() as url:
        asyncio.run(compare(url, "at once"))
        asyncio.run(compare(f"{url}/late", "late"))


if __name__ == "__main__":
    main()
