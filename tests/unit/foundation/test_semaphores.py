"""Slots are neither lost nor given twice, whoever is cancelled when, and wherever they wait."""

from __future__ import annotations

import asyncio
import threading

import pytest

from vibe_llms.foundation.semaphores import Slots


async def test_slots_are_given_in_the_order_of_asking() -> None:
    """Whoever asks first has one first, and never more than there are slots."""
    slots, order = Slots(1), []

    async def use(number: int) -> None:
        await slots.take()
        order.append(number)
        await asyncio.sleep(0)
        slots.give()

    await asyncio.gather(*(use(number) for number in range(4)))

    assert order == [0, 1, 2, 3]


@pytest.mark.parametrize("given", ["before", "at once", "later"])
async def test_whoever_is_cancelled_takes_no_slot(given: str) -> None:
    """Also one whose slot was given in the very moment of the cancellation."""
    slots = Slots(1)
    await slots.take()
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)

    if given == "before":
        slots.give()
    waiting.cancel()
    if given == "at once":
        slots.give()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert slots.waiting == 0
    if given == "later":
        slots.give()

    assert slots.taken == 0


def test_a_slot_passes_from_one_event_loop_to_another() -> None:
    """One loaded model serves the loops of several threads, also after one is closed."""
    slots, taken = Slots(1), []

    async def use() -> None:
        await slots.take()
        taken.append(threading.get_ident())
        await asyncio.sleep(0.001)
        slots.give()

    threads = [threading.Thread(target=lambda: asyncio.run(use())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(taken) == 6


async def test_a_slot_that_a_thread_gives_to_one_who_leaves_is_not_lost() -> None:
    """It is on its way to them while they are cancelled."""
    slots = Slots(1)
    await slots.take()
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    thread = threading.Thread(target=slots.give)
    thread.start()
    thread.join()
    assert (slots.taken, slots.waiting) == (1, 0)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(0)

    assert slots.taken == 0


async def test_whoever_waited_in_a_loop_that_is_closed_is_passed_over() -> None:
    slots = Slots(1)
    assert slots.enter()

    def leave() -> None:
        loop = asyncio.new_event_loop()
        task = loop.create_task(slots.take())
        loop.run_until_complete(asyncio.sleep(0))
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is left on purpose
        loop.close()

    await asyncio.to_thread(leave)
    waiting = asyncio.create_task(slots.take())
    await asyncio.sleep(0)
    assert slots.waiting == 2

    slots.give()

    await asyncio.wait_for(waiting, 60)


async def test_who_waits_hears_of_more_slots_and_that_there_will_be_none() -> None:
    slots = Slots(1)
    await slots.take()
    first, second = (asyncio.create_task(slots.take()) for _ in range(2))
    await asyncio.sleep(0)
    assert not slots.enter()

    slots.resize(2)
    await asyncio.wait_for(first, 60)
    slots.refuse(LookupError)

    with pytest.raises(LookupError):
        await second
    assert (slots.taken, slots.waiting) == (2, 0)
