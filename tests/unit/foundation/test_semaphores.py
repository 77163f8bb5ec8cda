"""Slots are neither lost nor taken twice, also if waiting tasks are cancelled, in any loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from vibe_llms.foundation.semaphores import Semaphore


async def test_slots_are_given_in_the_order_of_asking() -> None:
    """Whoever asks first has one first, and never more than there are slots."""
    slots, order = Semaphore(1), []

    async def use(number: int) -> None:
        await slots.acquire()
        order.append(number)
        await asyncio.sleep(0)
        slots.release()

    await asyncio.gather(*(use(number) for number in range(4)))

    assert order == [0, 1, 2, 3]


@pytest.mark.parametrize("given", ["before", "at once", "later"])
async def test_whoever_is_cancelled_takes_no_slot(given: str) -> None:
    """Also one whose slot was given in the very moment of the cancellation."""
    slots = Semaphore(1)
    await slots.acquire()
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)

    if given == "before":
        slots.release()
    waiting.cancel()
    if given == "at once":
        slots.release()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert slots.waiting == 0
    if given == "later":
        slots.release()

    assert slots.taken == 0


def test_a_slot_passes_from_one_event_loop_to_another() -> None:
    """One loaded model serves the loops of several threads, also after one is closed."""
    slots, taken = Semaphore(1), []

    async def use() -> None:
        await slots.acquire()
        taken.append(threading.get_ident())
        await asyncio.sleep(0.001)
        slots.release()

    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(taken) == 6


async def test_a_slot_that_a_thread_gives_to_one_who_leaves_is_not_lost() -> None:
    """It is on its way to them while they are cancelled."""
    slots = Semaphore(1)
    await slots.acquire()
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    thread = threading.Thread(target=slots.release)
    thread.start()
    thread.join()
    assert (slots.taken, slots.waiting) == (1, 0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)

    assert slots.taken == 0


async def test_whoever_waited_in_a_loop_that_is_closed_is_passed_over() -> None:
    slots = Semaphore(1)
    assert slots.try_acquire()

    def leave() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(slots.acquire())
        loop.run_until_complete(asyncio.sleep(0))
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is left on purpose
        loop.close()

    await asyncio.to_thread(leave)
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    assert slots.waiting == 2

    slots.release()

    await asyncio.wait_for(waiting, 60)


async def test_who_waits_hears_of_more_slots_and_that_there_will_be_none() -> None:
    slots = Semaphore(1)
    await slots.acquire()
    first, second = (asyncio.create_task(slots.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    assert not slots.try_acquire()

    slots.resize(2)
    await asyncio.wait_for(first, 60)
    slots.fail_waiting(LookupError)

    with pytest.raises(LookupError):
        await second
    assert (slots.taken, slots.waiting) == (2, 0)
