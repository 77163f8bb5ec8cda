"""The bound on requests that run at once."""

from __future__ import annotations

import asyncio
import threading

import pytest

from vibe_llms.exceptions import LimitError
from vibe_llms.providers.local.slots import Slots


async def test_seats_are_given_in_the_order_of_asking() -> None:
    """Whoever asks first sits first, and never more than there are seats."""
    seats, order = Slots(1, 8), []

    async def sit(number: int) -> None:
        await seats.take()
        order.append(number)
        await asyncio.sleep(0)
        seats.give()

    await asyncio.gather(*(sit(number) for number in range(4)))

    assert order == [0, 1, 2, 3]


@pytest.mark.parametrize("granted", [False, True])
async def test_whoever_is_cancelled_takes_no_seat(granted: bool) -> None:
    """Also one whose seat was given in the very moment of the cancellation."""
    seats = Slots(1, 8)
    await seats.take()
    waiting = asyncio.create_task(seats.take())
    await asyncio.sleep(0)

    if granted:
        seats.give()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not granted:
        seats.give()

    await asyncio.wait_for(seats.take(), 5)


async def test_no_more_wait_than_the_limit_allows() -> None:
    """The error names the limit."""
    seats = Slots(1, 1)
    await seats.take()
    waiting = asyncio.create_task(seats.take())
    await asyncio.sleep(0)

    with pytest.raises(LimitError, match="waiting_requests = 1"):
        await seats.take()

    seats.give()
    await waiting


def test_a_seat_passes_from_one_event_loop_to_another() -> None:
    """One loaded model serves the loops of several threads, also after one is closed."""
    seats, taken = Slots(1, 8), []

    async def sit() -> None:
        await seats.take()
        taken.append(threading.get_ident())
        await asyncio.sleep(0.001)
        seats.give()

    threads = [threading.Thread(target=lambda: asyncio.run(sit())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(taken) == 6
