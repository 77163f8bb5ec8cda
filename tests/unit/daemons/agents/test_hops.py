"""What a watched turn of a hosted run costs beside its work: how often it goes to another thread,
waits for the disk and opens a file. Each of these costs some 100 µs, but for the last."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.gateways.gateways import wait_until
from support.runs.acting import say
from support.runs.hosted import Premises
from vibe_llms.agents.workers import WorkerSettings
from vibe_llms.conversations import DirectoryStore
from vibe_llms.daemons.agents.frames import EVENT_STREAM
from vibe_llms.daemons.agents.streams import follow, pass_on
from vibe_llms.logs.disk import Disk
from vibe_llms.runs import subscriptions as module
from vibe_llms.runs.subscriptions import LogSubscriptions

HOPS_LIMIT = 5
"""To order it, to read what it says, to wait for the disk, to store the answer; and for who
watches, to read once."""

WAITS_LIMIT = 8
"""For the three files and the folder of the conversation that was ordered, for its shard and, the
first time, for that above; before the model is asked, and for the answer."""

OPENS_LIMIT = 22
"""Of files and folders, those of a new conversation in a new shard included; there were 53 once."""

QUIET = WorkerSettings(scan_seconds=3_600)


class CountingDisk(Disk):
    """Counts how often it is waited for."""

    waits = 0

    def synchronize(self, descriptor: int) -> None:
        super().synchronize(descriptor)
        self.waits += 1

    def synchronize_folder(self, path: str) -> None:
        super().synchronize_folder(path)
        self.waits += 1


async def test_a_turn_costs_so_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 3_600)
    hops: Counter[str] = Counter()
    original = asyncio.to_thread

    async def count(work: Callable[..., Any], *given: Any, **more: Any) -> Any:
        hops[getattr(work, "__qualname__", repr(work))] += 1
        return await original(work, *given, **more)

    opened: Counter[str] = Counter()
    original_open = os.open

    def count_opened(path: Any, *given: Any, **more: Any) -> int:
        opened[str(path).rpartition("/")[2]] += 1
        return original_open(path, *given, **more)

    disk = CountingDisk()
    premises = Premises(
        tmp_path,
        settings=QUIET,
        shared=DirectoryStore(tmp_path / "store", disk=disk),
        listener=lambda *said: pass_on(subscriptions, *said),
    )
    runs = premises.runs
    subscriptions = LogSubscriptions(runs.index, EVENT_STREAM)
    async with premises:

        async def turn() -> bytes:
            spec = premises.spec([say("Done.")])
            run_id = await premises.start(spec)
            last = await runs.count_events(run_id)
            told = follow(subscriptions, run_id, 0, last, ends=True)
            async with asyncio.timeout(60):
                return b"".join([each async for each in told])

        await turn()  # the first one imports plugins
        await wait_until(lambda: not premises.host.working)
        monkeypatch.setattr(asyncio, "to_thread", count)
        monkeypatch.setattr(os, "open", count_opened)
        disk.waits = 0
        told = await turn()
        await wait_until(lambda: not premises.host.working)
    assert told.count(b"event: step.completed\n") == told.count(b"event: run.completed\n") == 1
    assert hops.total() <= HOPS_LIMIT, hops
    assert disk.waits <= WAITS_LIMIT
    assert opened.total() <= OPENS_LIMIT, opened
