"""Cost of a batch on a runner: on SQLite beside one in memory, and the gain of another worker.

First, against a server that answers at once: the same 20,000 inputs in this process by a plain
``BatchChannel`` without a journal, and handed over to a runner on SQLite whose only worker this
process is, from the first input to the last result that is read back. In turns; requests a second
by the clock and of our CPU, whose ratio others on the machine disturb less. Then, against one that
takes as long as a vendor does at the very least, a batch on PostgreSQL with one worker, and with
two, each a process of its own that has 64 inputs under way; the memory of the workers at a tenth
of the way and at its end. Some minutes; with a number of inputs as its argument (2000), fewer.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import loopback
import psutil

from support.stores.postgresql_programs import find_missing
from vibe_llms.agents.batches import open_batches
from vibe_llms.application import Application
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.instruments.models import Model

INPUTS = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
LATE_INPUTS = max(1_000, INPUTS // 2)
ROUNDS = 3
CONCURRENCY = 128
UNDER_WAY = 64
SQLITE_AIM, WORKERS_AIM, GROWTH_AIM_KB = 0.5, 1.7, 8_000
ADDRESS = "openai_conversations:m"
VIBE = [sys.executable, "-c", "from vibe_llms.interfaces.cli.entry import main; main()"]


def write_configuration(folder: Path, url: str) -> dict[str, str]:
    """Write a configuration; return the environment variables that name it."""
    path = folder / "config.toml"
    path.write_text(
        f'[providers.openai_conversations]\nbase_url = "{url}/v1"\napi_key = "x"\n', "utf-8"
    )
    return {"VIBE_LLMS_CONFIG": str(path), "HOME": str(folder)}


@asynccontextmanager
async def asking(folder: Path, url: str) -> AsyncIterator[Model]:
    """Lends a model behind a server."""
    environment = write_configuration(folder, url)
    application = Application(load_configuration(environment=environment))
    async with Model(ADDRESS, application=application) as model:
        yield model
    await application.close()


async def perform(batch: BatchChannel[str], inputs: int) -> tuple[float, float]:
    """Performs a batch; returns inputs a second by the clock, and by our CPU."""
    gc.collect()
    begun, worked = time.perf_counter(), time.process_time()
    seen = 0
    async with aclosing(batch.run(f"Hello {number}" for number in range(inputs))) as items:
        async for item in items:
            seen += item.error is None
    if seen != inputs:
        raise AssertionError(f"{seen} of {inputs} were answered")
    return inputs / (time.perf_counter() - begun), inputs / (time.process_time() - worked)


def tell(what: str, value: float, aim: float) -> None:
    """Prints one line of the table."""
    print(f"{what}: {value:.2f}  (aim {aim}, {'met' if value >= aim else 'not met'})", flush=True)


async def compare_sqlite(url: str) -> None:
    """Prints the rows for SQLite beside memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with asking(folder, url) as model:
            runner_url = f"sqlite:///{folder}/runner.db"
            async with open_batches(runner_url, application=model.application) as runner:
                shared = {"runner": runner, "concurrency": CONCURRENCY}
                await perform(BatchChannel(model, concurrency=CONCURRENCY), 1_000)
                await perform(BatchChannel(model, **shared), 1_000)
                ratios: list[tuple[float, float]] = []
                for _ in range(ROUNDS):
                    plain = await perform(BatchChannel(model, concurrency=CONCURRENCY), INPUTS)
                    rows = await perform(BatchChannel(model, **shared), INPUTS)
                    ratios.append((rows[0] / plain[0], rows[1] / plain[1]))
                    print(
                        f"memory {plain[0]:6.0f}/s {1e6 / plain[1]:5.0f} µs of CPU   "
                        f"SQLite {rows[0]:6.0f}/s {1e6 / rows[1]:5.0f} µs of CPU",
                        flush=True,
                    )
        by_clock, by_cpu = (statistics.median(each) for each in zip(*ratios, strict=True))
        tell("SQLite beside memory, by the clock", by_clock, SQLITE_AIM)
        tell("SQLite beside memory, by CPU", by_cpu, SQLITE_AIM)


def start_worker(folder: Path, url: str) -> subprocess.Popen[str]:
    """Starts a worker and waits until it takes work."""
    process = subprocess.Popen(
        [*VIBE, "worker", "--runner", url, "--queues", "batches"],
        env={**os.environ, "VIBE_LLMS_CONFIG": str(folder / "config.toml"), "HOME": str(folder)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "Worker for" not in process.stderr.readline():
        pass
    return process


async def measure_workers(
    runner: Batches, model: Model, workers: list[subprocess.Popen[str]], inputs: int
) -> tuple[float, int]:
    """Returns inputs a second, and how much the workers' memory grew, in KB."""
    batch: BatchChannel[str] = BatchChannel(model, runner=runner, concurrency=UNDER_WAY)
    begun, seen, early = time.perf_counter(), 0, 0
    async with aclosing(batch.run(f"Hello {number}" for number in range(inputs))) as items:
        async for _ in items:
            seen += 1
            if seen == inputs // 10:
                early = read_memory(workers)
    return inputs / (time.perf_counter() - begun), read_memory(workers) - early


def read_memory(workers: list[subprocess.Popen[str]]) -> int:
    """Returns the memory of the workers together, in KB."""
    return sum(psutil.Process(each.pid).memory_info().rss for each in workers) // 1024


async def compare_workers(url: str) -> None:
    """Prints the rows for one worker and two on PostgreSQL."""
    from support.stores.postgresql_server import access_server, produce_url

    access_server()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runner_url = produce_url(folder)
        async with (
            asking(folder, url) as model,
            open_batches(runner_url, application=model.application, queues=()) as runner,
        ):
            assert runner is not None
            workers = [start_worker(folder, runner_url)]
            try:
                await measure_workers(runner, model, workers, 1_000)  # connections, and caches
                alone, grown = await measure_workers(runner, model, workers, LATE_INPUTS)
                print(f"one worker  {alone:6.0f}/s, {grown:+,} KB", flush=True)
                workers.append(start_worker(folder, runner_url))
                await measure_workers(runner, model, workers, 1_000)
                both, grown = await measure_workers(runner, model, workers, LATE_INPUTS)
                print(f"two workers {both:6.0f}/s, {grown:+,} KB", flush=True)
            finally:
                for each in workers:
                    each.send_signal(signal.SIGTERM)
                for each in workers:
                    each.communicate()
        tell("two workers beside one on PostgreSQL, by the clock", both / alone, WORKERS_AIM)
        met = "met" if grown <= GROWTH_AIM_KB else "not met"
        print(f"memory of two workers: {grown:+,} KB  (aim {GROWTH_AIM_KB:,}, {met})", flush=True)


def main() -> None:
    """Prints the table."""
    with loopback.run_server() as url:
        asyncio.run(compare_sqlite(url))
        if lack := find_missing():
            print(f"PostgreSQL is left out: {lack}")
        else:
            asyncio.run(compare_workers(f"{url}/late"))


if __name__ == "__main__":
    main()
