"""What many ask for while it is busy goes together, and each has its own answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from vibe_llms.foundation.coalescing import Coalescer


async def test_whoever_leaves_takes_nothing_from_those_who_asked_with_it() -> None:
    """A cancelled one has asked all the same; an error is raised to each."""
    begun, go_on = threading.Event(), threading.Event()
    asked: list[Sequence[int]] = []

    def double(given: Sequence[int]) -> list[int]:
        asked.append(given)
        begun.set()
        go_on.wait()
        if 13 in given:
            raise LookupError("unlucky")
        return [2 * each for each in given]

    gatherer: Coalescer[int, int] = Coalescer(double)
    first = asyncio.create_task(gatherer.ask(1))
    await asyncio.to_thread(begun.wait)
    others = [asyncio.create_task(gatherer.ask(number)) for number in (2, 3, 4)]
    await asyncio.sleep(0)
    others[1].cancel()
    await asyncio.sleep(0)
    go_on.set()
    told = await asyncio.gather(first, *others, return_exceptions=True)
    assert [each for each in told if isinstance(each, int)] == [2, 4, 8]
    assert isinstance(told[2], asyncio.CancelledError)
    assert asked == [[1], [2, 3, 4]]
    failed = await asyncio.gather(*map(gatherer.ask, (13, 5)), return_exceptions=True)
    assert [str(each) for each in failed] == ["unlucky", "unlucky"]


async def test_what_can_wait_is_gathered_until_there_is_enough_of_it() -> None:
    """The first is not kept waiting, enough go at once, and who closes waits for no more."""
    asked: list[int] = []

    def note(given: Sequence[int]) -> list[int]:
        asked.append(len(given))
        return list(given)

    gatherer: Coalescer[int, int] = Coalescer(note, pause_seconds=3600, enough=10)
    async with asyncio.timeout(60):
        assert await gatherer.ask(0) == 0
        told = [gatherer.put(number) for number in range(10)]
        assert all(each is told[0] for each in told)
        assert await told[0] == list(range(10))
        last = gatherer.put(10)
        await asyncio.sleep(0.01)
        assert asked == [1, 10]
        await gatherer.close()
    assert (asked, last.result()) == ([1, 10, 1], [10])
