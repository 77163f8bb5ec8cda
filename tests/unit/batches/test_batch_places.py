"""Places of a batch: so many inputs at once, of whichever chunks, each asked once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.batches.places import Places

ERRANDS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 6), st.booleans()), min_size=1, max_size=5
)


@given(count=st.integers(1, 5), errands=ERRANDS, pauses=st.lists(st.integers(0, 3), min_size=1))
def test_each_input_is_asked_once_in_its_turn_and_never_too_many(
    count: int, errands: list[tuple[int, int, bool]], pauses: list[int]
) -> None:
    """Whoever fails loses what is his alone, and nobody waits for ever."""

    async def perform() -> None:
        places = Places(count)
        under_way = [0] * len(errands)
        asked: list[list[int]] = [[] for _ in errands]

        def produce_ask(errand: int) -> Callable[[int], Awaitable[None]]:
            size, most, fails = errands[errand]

            async def ask(number: int) -> None:
                asked[errand].append(number)
                under_way[errand] += 1
                assert sum(under_way) <= count
                assert under_way[errand] <= most
                try:
                    for _ in range(pauses[number % len(pauses)]):
                        await asyncio.sleep(0)
                    if fails and number == size // 2:
                        raise LookupError("unlucky")
                finally:
                    under_way[errand] -= 1

            return ask

        async with asyncio.timeout(60):
            ended = await asyncio.gather(
                *(
                    places.perform(iter(range(size)), produce_ask(errand), most)
                    for errand, (size, most, _) in enumerate(errands)
                ),
                return_exceptions=True,
            )
        for (size, _, fails), numbers, end in zip(errands, asked, ended, strict=True):
            assert numbers == list(range(len(numbers)))
            if fails and size:
                assert isinstance(end, LookupError)
            else:
                assert (end, len(numbers)) == (None, size)
        assert places.errands == 0
        everything = [0] * count
        await places.perform(iter(range(count)), _produce_gate(everything), count)

    asyncio.run(perform())


def _produce_gate(everything: list[int]) -> Callable[[int], Awaitable[None]]:
    """Makes what goes on when all are under way at once, as no place was lost."""
    are_there = asyncio.Event()

    async def ask(number: int) -> None:
        everything[number] = 1
        if all(everything):
            are_there.set()
        async with asyncio.timeout(60):
            await are_there.wait()

    return ask


async def test_a_place_goes_on_with_the_next_chunk_in_the_same_step() -> None:
    """Nobody begins anew: what a request is made of is freed as that of the next one is made."""
    places = Places(4)
    tasks: set[asyncio.Task[None] | None] = set()

    async def ask(number: int) -> None:
        tasks.add(asyncio.current_task())
        await asyncio.sleep(0)

    await asyncio.gather(*(places.perform(iter(range(50)), ask, 50) for _ in range(6)))
    assert len(tasks) == 4


async def test_who_is_cancelled_leaves_his_places_to_others() -> None:
    """Also those that were given to somebody who had not begun yet."""
    places = Places(3)
    asked: list[str] = []
    go_on = asyncio.Event()

    async def wait(number: int) -> None:
        await go_on.wait()

    async def note(name: str) -> None:
        asked.append(name)

    first = asyncio.create_task(places.perform(iter(range(9)), wait, 9))
    await asyncio.sleep(0)  # its places are given, and nobody has begun
    others = asyncio.create_task(places.perform(iter("abc"), note, 3))
    await asyncio.sleep(0)
    assert places.errands == 2
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    async with asyncio.timeout(60):
        await others
        assert asked == ["a", "b", "c"]
        everything = [0] * 3
        await places.perform(iter(range(3)), _produce_gate(everything), 3)
