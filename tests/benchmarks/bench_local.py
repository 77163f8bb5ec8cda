"""Cost of the embedded model for the process in which it runs.

    python tests/benchmarks/bench_local.py [WEIGHTS] [EXITS]

WEIGHTS is a GGUF file, by default the embedded model's, which must have been fetched; EXITS is
how often a process loads, asks and ends (50). Prints the lag of the event loop while tokens come,
how long a stop takes in an answer and in a long prompt, the memory, and the exits that were
clean: code 0, the answer, and nothing on standard error. Other work on the machine shows in all of
them but the last two.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil

from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.local import produce_provider
from vibe_llms.providers.local.client import LocalClient, LocalModel

STOPS = 7
TICK_SECONDS = 0.001

PROGRAM = """
import asyncio, sys
sys.path.insert(0, sys.argv[1])
import bench_local
async def main():
    client = bench_local.produce_client(sys.argv[2])
    model = await client.access_model()
    response = await model.converse(bench_local.produce_request("Hi.", max_tokens=8))
    print(len(response.canisters))
    await client.close()
asyncio.run(main())
"""


def produce_client(weights: str) -> LocalClient:
    """Makes a client of the provider as it is set up by default."""
    nobody: Any = None
    folder = Path(tempfile.gettempdir())
    context = ProviderContext(
        name="local",
        settings={"path": weights},
        data_directory=folder,
        cache_directory=folder,
        consent=nobody,
        progress=nobody,
        produce_attributes=lambda: Catalogue().access_integrator("local"),
    )
    client = produce_provider(context).produce_client()
    assert isinstance(client, LocalClient)
    return client


def produce_request(text: str, **controls: int) -> Request:
    """Makes a request."""
    return Request(canisters=[UserCanister(text)], controls=controls)


async def measure_lag(work: Callable[[], Awaitable[object]]) -> list[float]:
    """Returns how late each tick of the loop was while the work ran, in milliseconds."""
    lags: list[float] = []

    async def tick() -> None:
        while True:
            due = time.perf_counter() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            lags.append((time.perf_counter() - due) * 1000)

    ticking = asyncio.create_task(tick())
    await work()
    ticking.cancel()
    return sorted(lags)


async def measure_stop_in_answer(model: LocalModel, tokens: int) -> float:
    """Returns the milliseconds from closing a stream to llama.cpp having stopped."""
    seen = 0
    async with model.stream(produce_request("Tell me a long story.")) as stream:
        async for event in stream:
            seen += isinstance(event, ContentDeltaEvent)
            if seen >= tokens:
                break
        begin = time.perf_counter()
        await stream.close()
    return (time.perf_counter() - begin) * 1000


async def measure_stop_in_prompt(model: LocalModel, after_seconds: float) -> float:
    """Returns the milliseconds from cancelling to the end, while a long prompt is read."""
    text = f"{after_seconds} " + "word " * 1800  # nothing of it is in the cache
    task = asyncio.create_task(model.converse(produce_request(text)))
    await asyncio.sleep(after_seconds)
    begin = time.perf_counter()
    task.cancel()
    await asyncio.wait({task})
    return (time.perf_counter() - begin) * 1000


def count_clean_exits(weights: str, times: int) -> int:
    """Runs processes that load, ask and end; returns how many did so cleanly."""
    command = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), weights]
    clean = 0
    for _ in range(times):
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        clean += (outcome.returncode, outcome.stdout, outcome.stderr) == (0, "1\n", "")
    return clean


async def measure(weights: str) -> None:
    """Measures what happens inside one process, and prints it."""
    client = produce_client(weights)
    model = await client.access_model()
    begin = time.perf_counter()
    await model.converse(produce_request("Hi.", max_tokens=1))
    print(f"{'load and first token':<34}{(time.perf_counter() - begin) * 1000:>10.0f} ms")

    request = produce_request("Tell me a long story.", max_tokens=200, seed=1)
    lags = await measure_lag(lambda: model.converse(request))
    print(f"{'loop lag, 99 in 100':<34}{lags[len(lags) * 99 // 100]:>10.1f} ms")
    print(f"{'loop lag, worst':<34}{lags[-1]:>10.1f} ms    target  20")

    stops = [await measure_stop_in_answer(model, 5 + n) for n in range(STOPS)]
    print(f"{'stop in an answer, median':<34}{statistics.median(stops):>10.1f} ms")
    print(f"{'stop in an answer, worst':<34}{max(stops):>10.1f} ms    target  50")

    stops = [await measure_stop_in_prompt(model, 0.5 + n / 10) for n in range(STOPS)]
    print(f"{'stop in a prompt, median':<34}{statistics.median(stops):>10.0f} ms")
    print(f"{'stop in a prompt, worst':<34}{max(stops):>10.0f} ms    target 500")

    memory = psutil.Process().memory_info().rss / 1e6
    print(f"{'memory':<34}{memory:>10.0f} MB    target 260")
    await client.close()


def main() -> None:
    """Measures and prints the table."""
    from vibe_llms.providers.local.pins import SMOLLM2
    from vibe_llms.providers.local.weights import find_installed

    weights = sys.argv[1] if len(sys.argv) > 1 else str(find_installed(SMOLLM2) or "")
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    if not Path(weights).is_file():
        sys.exit("Give the path of a GGUF file.")
    asyncio.run(measure(weights))
    print(f"{'clean exits':<34}{count_clean_exits(weights, times):>10} of {times}")


if __name__ == "__main__":
    main()
