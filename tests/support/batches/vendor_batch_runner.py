"""Runs a batch by its vendor's batches in processes that die: ``PROVIDER URL FOLDER DEATHS``.

At each point the batch is begun in a process that kills itself there, and gone on with in others,
until one comes to its end. What it had told of when it died stands in ``told``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program of its own finds `support`

from support.batches.vendor_batching import advance_all, is_looked_for, open_channel
from vibe_llms.batches.file_journals import FileJournal
from vibe_llms.batches.submitting import ChunkNews
from vibe_llms.batches.vendor_chunks import ChunkLog
from vibe_llms.providers.batching import ModelBatches

TEXTS = [f"Question {number}." for number in range(12)]

POINTS: dict[str, tuple[type, str, bool]] = {
    "before the intent": (ChunkLog, "intend", False),
    "after the intent": (ChunkLog, "intend", True),
    "after submitting": (ModelBatches, "submit", True),
    "after the vendor's name": (ChunkLog, "name", True),
    "after a look": (ModelBatches, "poll", True),
    "in the middle of reading": (FileJournal, "write", True),
    "after reading": (FileJournal, "secure", True),
    "after the last line": (ChunkLog, "end", True),
    "before it is forgotten": (ChunkLog, "forget", False),
    "after it is forgotten": (ChunkLog, "forget", True),
}
"""Where a process is killed: before or after the n-th time that something is done."""


def install(kind: type, name: str, is_after: bool, times: int = 1) -> None:
    """Lets this process die before or after something is done for the n-th time."""
    performed: Callable[..., Any] = getattr(kind, name)
    count = 0

    def is_due() -> bool:
        nonlocal count
        count += 1
        return count == times

    async def perform_async(*given: Any, **more: Any) -> Any:
        dies = is_due()
        if dies and not is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await performed(*given, **more)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def perform(*given: Any, **more: Any) -> Any:
        dies = is_due()
        if dies and not is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = performed(*given, **more)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    chosen = perform_async if asyncio.iscoroutinefunction(performed) else perform
    setattr(kind, name, chosen)


async def run_batch(provider: str, url: str, output: Path, told: Path) -> None:
    """Runs the batch to its end, or until it is killed."""

    def hear(news: ChunkNews) -> None:
        if is_looked_for(news):
            advance_all(url.partition("/simulate/")[0])

    with told.open("ab", buffering=0) as file:
        async with open_channel(provider, url, output, listener=hear) as channel:
            async for item in channel.run(TEXTS, stored=False):
                file.write(b"%d\n" % item.index)


def main() -> None:
    """Kills a batch of each point in its turn."""
    provider, url, folder, most = sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])
    # Once without dying, so that no child has to import anything.
    asyncio.run(run_batch(provider, url, folder / "whole.jsonl", folder / "whole.told"))
    for number, point in enumerate(POINTS):
        output, told = folder / f"{number}.jsonl", folder / f"{number}.told"
        dying = partial(install, *POINTS[point], 3 if "middle" in point else 1)
        deaths = outlive(dying, partial(run_batch, provider, url, output, told), most)
        assert deaths, point


def outlive(
    install: Callable[[], None], perform: Callable[[], Coroutine[Any, Any, None]], most: int
) -> int:
    """Performs something in one process after the other, until one comes to its end.

    Args:
        install: Lets a process die; the first ones.
        most: How many: who goes on dies there, too, if it comes so far.

    Returns:
        How many died.
    """
    deaths = 0
    while True:
        process = os.fork()
        if process == 0:
            try:
                if deaths < most:
                    install()
                asyncio.run(perform())
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        _, status = os.waitpid(process, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0
            return deaths
        deaths += 1


if __name__ == "__main__":
    main()
