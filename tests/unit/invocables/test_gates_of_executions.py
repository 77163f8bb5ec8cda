"""Places are neither lost nor given twice, whoever is cancelled when."""

from __future__ import annotations

import asyncio

import pytest

from vibe_llms.invocables.gates import Gate, GateBlockedError


async def test_a_place_that_is_given_to_one_who_leaves_is_not_lost() -> None:
    """Release and cancellation may fall into the same moment."""
    gate = Gate(1)
    await gate.acquire()
    waiting = asyncio.create_task(gate.acquire())
    await asyncio.sleep(0)
    gate.release()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    await asyncio.wait_for(gate.acquire(), 60)
    assert gate.taken == 1


async def test_places_are_given_in_order() -> None:
    """Who has waited longest is next; a newcomer does not overtake."""
    gate, order = Gate(1), []
    await gate.acquire()

    async def take(name: str) -> None:
        await gate.acquire()
        order.append(name)
        gate.release()

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(take(name))
        await asyncio.sleep(0)
        gate.release()
    assert order == ["a", "b", "c"]
    assert gate.taken == 0


async def test_nobody_waits_for_what_was_given_up() -> None:
    """With all places kept by executions that go on, waiting ends at once; later it is good."""
    gate = Gate(1)
    await gate.acquire()
    waiting = asyncio.create_task(gate.acquire())
    await asyncio.sleep(0)
    gate.abandon()
    with pytest.raises(GateBlockedError):
        await waiting
    with pytest.raises(GateBlockedError):
        await gate.acquire()
    gate.recover()
    await gate.acquire()
    assert gate.taken == 1
