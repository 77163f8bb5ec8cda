"""Runs a batch again and again in processes that are killed: ``FOLDER ROUNDS COUNT CONCURRENCY``.

Each process writes down what it begins and what it was told of, unbuffered. After each death the
lines of the journal are noted. At the end the batch is let run to its end.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from vibe_llms.batches.channel import BatchChannel


def run_batch(folder: Path, count: int, concurrency: int) -> None:
    """Runs the batch to its end, or until it is killed."""
    begun = os.open(folder / "begun", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    told = os.open(folder / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def work(number: int) -> int:
        os.write(begun, b"%d\n" % number)
        await asyncio.sleep(random.random() * 0.004)
        if number % 100 == 7:
            raise ValueError("always")
        return number * 2

    async def perform() -> None:
        channel = BatchChannel(work, concurrency=concurrency, journal=folder / "answers.jsonl")
        async for item in channel.run(range(count), stored=False):
            os.write(told, b"%d\n" % item.index)

    asyncio.run(perform())


def read_whole_lines(path: Path) -> list[int]:
    """Returns the items that the journal has, without a torn end."""
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line)["index"] for line in whole.splitlines()]


def await_beginning(path: Path, process: int) -> None:
    """Waits until a process begins something more, or has ended."""
    before = path.stat().st_size if path.exists() else 0
    while not path.exists() or path.stat().st_size == before:
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            return
        time.sleep(0.0005)


def main() -> None:
    """Kills the batch so many times, then lets it end."""
    folder = Path(sys.argv[1])
    rounds, count, concurrency = map(int, sys.argv[2:])
    history = []
    for _ in range(rounds):
        process = os.fork()
        if process == 0:
            with suppress(BaseException):
                run_batch(folder, count, concurrency)
            os._exit(0)
        if random.random() < 0.75:  # else it may hit what comes before the first, too
            await_beginning(folder / "begun", process)
        time.sleep(random.random() * 0.02)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        begun = (folder / "begun").read_text().count("\n") if (folder / "begun").exists() else 0
        history.append({"begun": begun, "lines": read_whole_lines(folder / "answers.jsonl")})
    run_batch(folder, count, concurrency)
    (folder / "history.json").write_text(json.dumps(history))


if __name__ == "__main__":
    main()
