"""Program whose processes die during a batch at its vendor: ``PROVIDER URL FOLDER DEATHS``.

For each point, start a batch in a process that kills itself there, and continue it in others until
one succeeds. The indices of the items that they received are in a ``.told`` file.
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

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that `support` can be imported

from support.batches.vendor_batching import advance_all, is_lost_batch, open_channel
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
"""From the points at which a process is killed to class, method, and whether after the call."""


def install_kill(kind: type, name: str, is_after: bool, call_number: int = 1) -> None:
    """Let this process kill itself before or after a certain call of a method."""
    method: Callable[..., Any] = getattr(kind, name)
    count = 0

    def is_due() -> bool:
        nonlocal count
        count += 1
        return count == call_number

    async def perform_async(*arguments: Any, **options: Any) -> Any:
        is_last = is_due()
        if is_last and not is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await method(*arguments, **options)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def perform(*arguments: Any, **options: Any) -> Any:
        is_last = is_due()
        if is_last and not is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = method(*arguments, **options)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    replacement = perform_async if asyncio.iscoroutinefunction(method) else perform
    setattr(kind, name, replacement)


async def run_batch(provider: str, url: str, output: Path, received: Path) -> None:
    """Perform the batch to its end, or until the process is killed."""

    def listen(news: ChunkNews) -> None:
        if is_lost_batch(news):
            advance_all(url.partition("/simulate/")[0])

    with received.open("ab", buffering=0) as file:
        async with open_channel(provider, url, output, listener=listen) as channel:
            async for item in channel.run(TEXTS, stored=False):
                file.write(b"%d\n" % item.index)


def main() -> None:
    """Kill a batch at each point in turn."""
    provider, url, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    max_deaths = int(sys.argv[4])
    # The first batch, without a kill, imports everything before the forks.
    asyncio.run(run_batch(provider, url, folder / "whole.jsonl", folder / "whole.told"))
    for number, point in enumerate(POINTS):
        output, received = folder / f"{number}.jsonl", folder / f"{number}.told"
        arrange = partial(install_kill, *POINTS[point], 3 if "middle" in point else 1)
        perform = partial(run_batch, provider, url, output, received)
        deaths = perform_in_processes(arrange, perform, max_deaths)
        assert deaths, point


def perform_in_processes(
    arrange: Callable[[], None],
    perform: Callable[[], Coroutine[Any, Any, None]],
    max_deaths: int,
) -> int:
    """Perform something in one process after the other until one of them succeeds.

    Args:
        arrange: Prepares the kill of a process.
        perform: What to perform; the next process continues it.
        max_deaths: How many processes to prepare for a kill.

    Returns:
        How many processes died.
    """
    deaths = 0
    while True:
        process = os.fork()
        if process == 0:
            try:
                if deaths < max_deaths:
                    arrange()
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
