"""Work that is begun at once, and is a task like any other where it has to wait."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from vibe_llms.invocables.eagerness import start_eagerly

_said: contextvars.ContextVar[str] = contextvars.ContextVar("said", default="nothing")


async def test_what_waits_for_nothing_is_done_at_once() -> None:
    """Before anything else can happen in the loop; and nothing of it is left there."""

    async def work() -> str:
        return "done"

    begun = start_eagerly(work())

    assert begun.done()
    assert begun.result() == "done"
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_what_waits_goes_on_as_the_task_that_began() -> None:
    """So that time limits and groups, which hold on to their task, work in it."""
    own: list[asyncio.Task[object] | None] = []

    async def work() -> str:
        own.append(asyncio.current_task())
        await asyncio.sleep(0)
        own.append(asyncio.current_task())
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.sleep(10)
        return "done"

    begun = start_eagerly(work())

    assert await begun == "done"
    assert own == [begun, begun]
    assert asyncio.current_task() not in own


async def test_what_it_sets_in_its_context_nobody_else_sees() -> None:
    """And it goes on seeing it itself."""

    async def work() -> str:
        _said.set("something")
        await asyncio.sleep(0)
        return _said.get()

    assert await start_eagerly(work()) == "something"
    assert _said.get() == "nothing"


async def test_an_error_is_raised_where_it_is_waited_for() -> None:
    """Whether it comes at once or later."""

    async def fail(pauses: int) -> None:
        for _ in range(pauses):
            await asyncio.sleep(0)
        raise ValueError(pauses)

    for pauses in (0, 1):
        begun = start_eagerly(fail(pauses))
        with pytest.raises(ValueError, match=str(pauses)):
            await begun


@pytest.mark.parametrize("turns", [0, 1])
async def test_it_is_cancelled_with_what_it_waits_for(turns: int) -> None:
    """Before the loop has come to it, and after."""
    below: list[asyncio.Task[None]] = []
    seen: list[str] = []

    async def work() -> None:
        below.append(asyncio.create_task(asyncio.sleep(10)))
        try:
            await below[0]
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("cleaned up")
            raise

    begun = start_eagerly(work())
    for _ in range(turns):
        await asyncio.sleep(0)
    begun.cancel()

    with pytest.raises(asyncio.CancelledError):
        await begun
    assert below[0].cancelled()
    assert seen == ["cancelled", "cleaned up"]


async def test_work_that_cancels_itself_is_cancelled() -> None:
    """Also in its first steps."""

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await start_eagerly(work())
