"""Asking inputs one by one: so many at once, also by several backends, and what ends it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from vibe_llms.batches.direct_backend import DirectBackend
from vibe_llms.batches.functions import FunctionWork
from vibe_llms.batches.items import BatchItem, BatchTally
from vibe_llms.batches.runs import BatchRun
from vibe_llms.batches.sources import InputSource
from vibe_llms.exceptions import ConfigurationError


class Asked:
    """Counts what is asked at once."""

    def __init__(self) -> None:
        self.now = self.maximum = 0
        self.seen: list[int] = []

    async def ask(self, number: int) -> BatchItem[Any]:
        """Answer after some turns of the event loop."""
        self.now += 1
        self.maximum = max(self.maximum, self.now)
        self.seen.append(number)
        for _ in range(number % 3 + 1):
            await asyncio.sleep(0)
        self.now -= 1
        return BatchItem(value=number)


async def perform(backend: DirectBackend, inputs: Any) -> list[Any]:
    async def never(_: Any) -> None:
        raise AssertionError

    source = InputSource(FunctionWork(never), None, retries_failed=False)
    run: BatchRun[Any] = BatchRun(source, None, backend, BatchTally())
    async with aclosing(run.perform(inputs)) as items:
        return [item.value async for item in items]


async def test_several_chunks_of_a_batch_ask_no_more_at_once_than_one() -> None:
    asked, room = Asked(), asyncio.Semaphore(4)
    backends = [DirectBackend(asked.ask, concurrency=4, room=room) for _ in range(3)]
    found = await asyncio.gather(
        *(perform(each, range(10 * n, 10 * n + 10)) for n, each in enumerate(backends))
    )
    assert asked.maximum == 4
    assert [sorted(each) for each in found] == [[*range(10 * n, 10 * n + 10)] for n in range(3)]
    assert sorted(asked.seen) == [*range(30)]


async def test_a_backend_that_fails_leaves_the_room_to_the_others() -> None:
    asked, room = Asked(), asyncio.Semaphore(2)

    async def refuse(number: int) -> BatchItem[Any]:
        raise ConfigurationError.at("model", "None.")

    failing = DirectBackend(refuse, concurrency=2, room=room)
    with pytest.raises(ConfigurationError):
        await perform(failing, range(10))
    assert sorted(await perform(DirectBackend(asked.ask, concurrency=2, room=room), range(6))) == [
        *range(6)
    ]


async def test_a_backend_that_must_stop_begins_nothing_more() -> None:
    asked = Asked()
    backend = DirectBackend(asked.ask, concurrency=2, must_stop=lambda: len(asked.seen) >= 3)
    assert sorted(await perform(backend, range(100))) == [0, 1, 2]
    assert len(asked.seen) == 3


async def test_what_another_has_is_not_yielded() -> None:
    async def ask(number: int) -> BatchItem[Any] | None:
        return None if number == 1 else BatchItem(value=number)

    backend = DirectBackend(ask, concurrency=2, ordered=True)
    assert await perform(backend, range(4)) == [0, 2, 3]
