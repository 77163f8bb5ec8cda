"""How often a watched turn of a hosted run goes to another thread: each time costs some 100 µs."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acting import say
from gateways import become
from hosted import Premises
from vibe_llms.agents.hosting import HostSettings
from vibe_llms.daemons.agents import feeds as module
from vibe_llms.daemons.agents.feeds import Feeds
from vibe_llms.daemons.agents.streams import follow

HOPS_LIMIT = 8
"""To order it, to read what it says, to take it up, its conversation, and what was before; to store
the answer, and to wait for the disk; and for who watches, to read once."""

QUIET = HostSettings(look_seconds=3_600)


async def test_a_turn_goes_to_so_many_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 3_600)
    hops: Counter[str] = Counter()
    original = asyncio.to_thread

    async def count(work: Callable[..., Any], *given: Any, **more: Any) -> Any:
        hops[getattr(work, "__qualname__", repr(work))] += 1
        return await original(work, *given, **more)

    premises = Premises(tmp_path, settings=QUIET, listener=lambda *said: feeds.hear(*said))
    runs = premises.runs
    feeds = Feeds(runs.index)
    async with premises:

        async def turn() -> bytes:
            order = premises.order([say("Done.")])
            run_id = await premises.start(order)
            last = await runs.count_events(run_id)
            told = follow(feeds, run_id, 0, last, ends=True)
            async with asyncio.timeout(20):
                return b"".join([each async for each in told])

        await turn()  # the first one imports plugins
        await become(lambda: not premises.host.working)
        monkeypatch.setattr(asyncio, "to_thread", count)
        told = await turn()
        await become(lambda: not premises.host.working)
    assert told.count(b"event: step.completed\n") == told.count(b"event: run.completed\n") == 1
    assert hops.total() <= HOPS_LIMIT, hops
