"""Bounded concurrency: a pool of workers over one source of inputs.

Backpressure: an input is taken only when there is room for its result. A source of any length takes
the same memory, and a slow reader slows the work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
)
from typing import Generic, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")

Perform = Callable[[int, _In], Awaitable[_Out | None]]
"""Function that processes one input, given its index; a result of ``None`` is not yielded."""


async def perform_all(
    source: Iterable[_In] | AsyncIterable[_In],
    perform: Perform[_In, _Out],
    *,
    concurrency: int,
    ordered: bool,
    window: int,
) -> AsyncGenerator[_Out, None]:
    """Process each input; yield the results, in order or as they come.

    An error of the work ends everything at once. After an error of the source, the pool stops
    taking inputs; inputs in progress are finished and yielded before it is raised. Leaving early
    cancels the inputs in progress.

    Args:
        concurrency: Number of inputs in progress at once.
        ordered: Whether to yield results in the order of the inputs.
        window: Maximum number of inputs taken but not yet yielded; at least ``concurrency``.
    """
    pool = _Workers(source, perform, ordered=ordered, window=max(window, concurrency))
    workers = [asyncio.ensure_future(pool.work()) for _ in range(concurrency)]
    for worker in workers:
        worker.add_done_callback(pool.leave)
    pool.working = concurrency
    try:
        while True:
            while pool.ready and not pool.must_stop:
                result = pool.ready.popleft()
                pool.make_room()
                if result is not None:
                    yield result
            if pool.is_over:
                break
            await pool.wait()
        if pool.failure is not None:
            raise pool.failure
    finally:
        for worker in workers:
            worker.cancel()
        # Wait for the workers, so that none is running when the source is closed.
        await asyncio.gather(*workers, return_exceptions=True)
        await pool.close()


class _Workers(Generic[_In, _Out]):
    """State that the workers of a pool share."""

    def __init__(
        self,
        source: Iterable[_In] | AsyncIterable[_In],
        perform: Perform[_In, _Out],
        *,
        ordered: bool,
        window: int,
    ) -> None:
        self._perform = perform
        self._loop = asyncio.get_running_loop()
        self._room = window  # number of further inputs that may be taken
        self._queue: deque[asyncio.Future[None]] = deque()
        # An asynchronous generator must not be advanced concurrently.
        self._source_lock = asyncio.Lock()
        self._plain: Iterator[_In] | None = None
        self._asynchronous: AsyncIterator[_In] | None = None
        if isinstance(source, AsyncIterable):
            self._asynchronous = aiter(source)
        else:
            self._plain = iter(source)
        self._count = 0
        self._has_more = True
        self._next = 0 if ordered else None
        self._finished: dict[int, _Out | None] = {}
        self.ready: deque[_Out | None] = deque()
        self._wake = asyncio.Event()
        self.working = 0
        self.failure: BaseException | None = None
        self.must_stop = False

    @property
    def is_over(self) -> bool:
        """True if no further result will be yielded."""
        return self.must_stop or not (self.working or self.ready)

    async def work(self) -> None:
        """Process one input after another until the source is exhausted."""
        while self._has_more:
            if self._room:
                self._room -= 1
            else:
                waiter = self._loop.create_future()
                self._queue.append(waiter)
                await waiter  # the freed slot belongs to this worker
            numbered = await self._take()
            if numbered is None:
                self.make_room()
                return
            place, value = numbered
            self._hand_out(place, await self._perform(place, value))

    def make_room(self) -> None:
        """Let the worker that has waited longest take an input."""
        while self._queue:
            waiter = self._queue.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._room += 1

    def leave(self, worker: asyncio.Future[None]) -> None:
        """Record that a worker has ended, and why."""
        self.working -= 1
        if not worker.cancelled() and (error := worker.exception()) is not None:
            self._fail(error)
        # Also if nothing is ready: the last worker to leave marks the end.
        self._wake.set()

    async def _take(self) -> tuple[int, _In] | None:
        if not self._has_more:
            return None
        try:
            if self._plain is not None:
                value = next(self._plain)
            else:
                async with self._source_lock:
                    return await self._take_next()
        except (StopIteration, StopAsyncIteration):
            # Caught here, because Python turns a StopIteration that leaves a coroutine into a
            # RuntimeError.
            self._has_more = False
            return None
        except Exception as error:
            self._has_more = False
            self.failure = error
            return None
        return self._number_input(value)

    async def _take_next(self) -> tuple[int, _In] | None:
        if not self._has_more:  # another worker has reached the end while this one waited
            return None
        assert self._asynchronous is not None
        return self._number_input(await anext(self._asynchronous))

    def _number_input(self, value: _In) -> tuple[int, _In]:
        place = self._count
        self._count += 1
        return place, value

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        self._has_more, self.must_stop = False, True

    def _hand_out(self, place: int, result: _Out | None) -> None:
        if self._next is None:
            self.ready.append(result)
        else:
            self._finished[place] = result
            while self._next in self._finished:
                self.ready.append(self._finished.pop(self._next))
                self._next += 1
        self._wake.set()

    async def wait(self) -> None:
        """Return when something may be ready."""
        await self._wake.wait()
        self._wake.clear()

    async def close(self) -> None:
        """Close an asynchronous generator."""
        if isinstance(self._asynchronous, AsyncGenerator):
            await self._asynchronous.aclose()
