"""Processes that share what a vendor allows send no more together than one of them may."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import threading
from pathlib import Path

import pytest

from support.batches.batching import BASES, choose_url
from vibe_llms.batches.databases import open_database
from vibe_llms.batches.rates import RowBudgets
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.limits import Limits
from vibe_llms.providers.rates import RateLimiter, Rates
from vibe_llms.providers.shared_limits import Lease, SharedLimiter, produce_limiter


class FastClock(Clock):
    """A time that goes on when all who share it wait."""

    def __init__(self) -> None:
        self.now = 100.0
        self._sleeping: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def read(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleeping, (self.now + seconds, next(self._numbers), waiting))
        await waiting

    @property
    def is_waited_for(self) -> bool:
        return bool(self._sleeping)

    def advance(self) -> bool:
        """Goes on to when the next one wakes; tells whether anybody waits."""
        if not self._sleeping:
            return False
        self.now, _, waiting = heapq.heappop(self._sleeping)
        if not waiting.done():
            waiting.set_result(None)
        return True


class Line:
    """Budgets by a clock of the test's own."""

    def __init__(self, clock: FastClock) -> None:
        self.clock, self.next, self.asked = clock, 0.0, 0
        self.failures = 0
        self._lock = threading.Lock()

    def reserve(self, name: str, seconds: float) -> float:
        with self._lock:
            if self.failures:
                self.failures -= 1
                raise StoreError(detail="away")
            self.asked += 1
            begins = max(self.next, self.clock.now)
            self.next = begins + seconds
            return begins - self.clock.now


async def run(clock: FastClock, *tasks: asyncio.Task[None]) -> None:
    while not all(task.done() for task in tasks):
        pending = [task for task in tasks if not task.done()]
        await asyncio.wait(pending, timeout=0.002)
        clock.advance()
    for task in tasks:
        task.result()


def produce(name: str, line: Line, **rates: int) -> SharedLimiter:
    return SharedLimiter(
        name, Rates(**rates), line, longest_seconds=60.0, clock=line.clock, obeys=True
    )


def measure_maximum(sent: list[float], window: float) -> int:
    return max(sum(begun <= each < begun + window for each in sent) for begun in sent)


async def test_two_processes_send_no_more_than_one_may() -> None:
    """In no minute more than was allowed and a second's worth; and hardly less, while they can."""
    clock = FastClock()
    line = Line(clock)
    sent: list[float] = []

    async def work(limiter: SharedLimiter) -> None:
        for _ in range(25):
            await limiter.acquire(0.0)
            sent.append(clock.now)

    limiters = [produce("v", line, requests_per_minute=120) for _ in range(2)]
    await run(clock, *(asyncio.create_task(work(each)) for each in limiters for _ in range(2)))
    assert len(sent) == 100
    assert measure_maximum(sent, 10.0) <= 20 + 2
    assert max(sent) - min(sent) == pytest.approx(50.0, abs=2.0)
    assert line.asked <= 52  # a second's worth at a time, which is two requests


async def test_tokens_are_put_down_and_corrected_by_what_was_used() -> None:
    """What was used beyond is made up for; what was not used is free for others."""
    for share, seconds in ((2.0, 120.0), (0.5, 30.0)):
        clock = FastClock()
        line = Line(clock)
        limiters = [produce("v", line, tokens_per_minute=6_000) for _ in range(2)]

        async def work(limiter: SharedLimiter, share: float = share) -> None:
            for _ in range(30):
                await limiter.acquire(100.0)
                limiter.settle(100.0, 100.0 * share, 0.0)

        assert limiters[0].counts_tokens
        begun = clock.now
        await run(clock, *(asyncio.create_task(work(each)) for each in limiters))
        assert line.next - begun == pytest.approx(seconds, abs=3.0)


async def test_an_answer_teaches_the_estimate_of_others() -> None:
    limiter = produce("v", Line(FastClock()), tokens_per_minute=6_000)
    assert limiter.estimate(400) == 100.0
    limiter.settle(100.0, 180.0, 80.0)
    assert limiter.estimate(400) == 110.0


async def test_what_nobody_waits_for_any_more_is_given_back() -> None:
    clock = FastClock()
    line = Line(clock)
    limiter = produce("v", line, tokens_per_minute=60)
    first = asyncio.create_task(limiter.acquire(10.0))
    await run(clock, first)
    waiting = asyncio.create_task(limiter.acquire(30.0))
    while not clock.is_waited_for:  # noqa: ASYNC110  # the turn has been drawn by then
        await asyncio.sleep(0.001)
    waiting.cancel()
    await asyncio.wait([waiting])
    await run(clock, asyncio.create_task(limiter.acquire(10.0)))
    assert line.next - 100.0 == pytest.approx(20.0, abs=1.5)


async def test_a_lease_whose_time_has_gone_by_is_not_made_up_for() -> None:
    clock = FastClock()
    line = Line(clock)
    lease = Lease(line, "v", 600, clock)
    assert await lease.acquire(1.0) == 100.0
    clock.now += 30.0
    assert lease.use(1.0) is None
    assert await lease.acquire(1.0) == 130.0


async def test_budgets_that_are_out_of_reach_are_waited_for() -> None:
    """And nothing is forgotten of what was owed."""
    clock = FastClock()
    line = Line(clock)
    line.failures = 3
    lease = Lease(line, "v", 60, clock)
    lease.correct(5.0)
    task = asyncio.create_task(lease.acquire(1.0))
    while not task.done():
        await asyncio.wait([task], timeout=0.002)
        clock.advance()
    assert line.next - clock.now == pytest.approx(6.0, abs=2.0)


def test_without_budgets_or_rates_there_is_nothing_to_share() -> None:
    line, clock = Line(FastClock()), Clock()
    for rates, budgets in ((Rates(), line), (Rates(requests_per_minute=5), None)):
        assert type(produce_limiter("v", Limits(), rates, clock, budgets)) is RateLimiter


@pytest.mark.parametrize("base", BASES)
async def test_rows_keep_budgets(tmp_path: Path, base: str) -> None:
    """Each line by itself, by the clock of the database; whoever asks comes behind the others."""
    databases = [open_database(choose_url(base, tmp_path)) for _ in range(2)]
    first, second = map(RowBudgets, databases)
    # The clock runs on meanwhile: what is asked for is long beside what asking takes.
    assert first.reserve("v/requests", 1000.0) == 0.0
    assert second.reserve("v/requests", 1000.0) == pytest.approx(1000.0, abs=100.0)
    assert second.reserve("v/tokens", 500.0) == 0.0
    assert first.reserve("v/requests", -1500.0) == pytest.approx(2000.0, abs=100.0)
    assert first.reserve("v/requests", 0.0) == pytest.approx(500.0, abs=100.0)
    told = await asyncio.gather(
        *(
            asyncio.to_thread(each.reserve, "w", 100.0)
            for each in (first, second)
            for _ in range(10)
        )
    )
    assert sorted(round(each / 100.0) for each in told) == list(range(20))
    for each in databases:
        each.close()
