"""A cache of results stays within its bounds, and its callers share running work."""

from __future__ import annotations

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.foundation.result_caches import ResultCache

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "find"]),
        st.sampled_from("abcde"),
        st.integers(0, 12),
        st.integers(0, 4),
    ),
    max_size=80,
)


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def read(self) -> float:
        return self.now


def produce(clock: Clock | None = None, *, entries: int = 3, **options: bool) -> ResultCache[bytes]:
    """Create a small cache of bytes."""
    clock = clock or Clock()
    return ResultCache(
        seconds=10,
        max_bytes=20,
        max_entries=entries,
        measure=len,
        read_clock=clock.read,
        **options,
    )


@given(STEPS)
def test_it_is_a_bounded_table_of_the_results_used_last(
    steps: list[tuple[str, str, int, int]],
) -> None:
    clock = Clock()
    cache = produce(clock)
    known: dict[str, tuple[float, bytes]] = {}  # in the order of their use
    for step, key, size, after in steps:
        clock.now += after
        if step == "add":
            result = b"x" * size
            cache.add(key, result)
            known.pop(key, None)
            known[key] = clock.now, result
            while len(known) > 3 or sum(len(each) for _, each in known.values()) > 20:
                del known[next(iter(known))]
        else:
            stored = known.pop(key, None)
            is_fresh = stored is not None and clock.now - stored[0] < 10
            if stored is not None and is_fresh:
                known[key] = stored
            assert cache.find(key) is (stored[1] if stored and is_fresh else None)
        assert len(cache) == len(known)
        assert cache.size_bytes == sum(len(each) for _, each in known.values())


def test_a_result_that_is_too_large_replaces_nothing() -> None:
    cache = produce()
    cache.add("a", b"x" * 10)
    cache.add("b", b"x" * 21)
    assert cache.find("a") == b"x" * 10
    assert cache.find("b") is None


def test_a_cache_without_entries_stores_nothing() -> None:
    cache = produce(entries=0)
    cache.add("a", b"x")
    assert cache.find("a") is None
    assert cache.size_bytes == 0


async def test_equal_requests_wait_for_the_running_one() -> None:
    cache = produce()
    assert await cache.await_flight("a") is None
    end = cache.begin_flight("a")
    assert end is not None
    assert cache.begin_flight("a") is None
    waiting = [asyncio.create_task(cache.await_flight("a")) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # the others wait on
    end(b"x")

    with pytest.raises(asyncio.CancelledError):
        await waiting[0]
    assert [await each for each in waiting[1:]] == [b"x", b"x"]
    assert await cache.await_flight("a") is None


async def test_requests_are_not_shared_if_this_is_switched_off() -> None:
    assert produce(is_sharing=False).begin_flight("a") is None


async def test_event_loops_have_their_own_requests() -> None:
    cache = produce()
    assert cache.begin_flight("a") is not None
    found: list[object] = []

    async def look() -> None:
        found.append(await cache.await_flight("a"))
        found.append(cache.begin_flight("a") is not None)

    thread = threading.Thread(target=lambda: asyncio.run(look()))
    thread.start()
    await asyncio.to_thread(thread.join)
    assert found == [None, True]
