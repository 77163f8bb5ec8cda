"""Deadlines cancel their tasks, and no others."""

from __future__ import annotations

import asyncio
import operator

import pytest

from vibe_llms.foundation.deadlines import Deadlines


async def wait(deadlines: Deadlines, seconds: float, work: float = 60.0) -> str:
    """Works within a deadline; returns how it ended."""
    deadline = deadlines.begin(deadlines.loop.time() + seconds)
    try:
        await asyncio.sleep(work)
    except asyncio.CancelledError:
        if not deadline.uncancel():
            raise
        return "over"
    finally:
        deadline.end()
    return "done"


async def test_tasks_end_at_their_deadlines_in_any_order() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    loop = asyncio.get_running_loop()

    async def measure(seconds: float) -> float:
        start = loop.time()
        assert await wait(deadlines, seconds) == "over"
        return loop.time() - start

    late = asyncio.create_task(wait(deadlines, 60.0))
    await asyncio.sleep(0)  # its deadline is the first
    passed = await asyncio.gather(*map(measure, (0.06, 0.02, 0.04)))
    assert all(map(operator.ge, passed, (0.06, 0.02, 0.04)))
    assert not late.done()
    late.cancel()
    await asyncio.wait([late])
    assert not deadlines.open


async def test_a_task_that_is_done_is_not_cancelled() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    assert await wait(deadlines, 0.02, work=0.0) == "done"
    await asyncio.sleep(0.05)  # in which the timer runs
    assert await wait(deadlines, 0.02) == "over"


async def test_another_cancellation_stays_one() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    task = asyncio.create_task(wait(deadlines, 60.0))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not deadlines.open


async def test_a_cancellation_at_the_deadline_is_not_lost() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    task = asyncio.create_task(wait(deadlines, 60.0))
    await asyncio.sleep(0)
    (deadline,) = deadlines.open
    deadline.expire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
