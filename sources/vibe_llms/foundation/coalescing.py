"""Coalescing: requests that arrive during a call are combined into the next call.

A call is, for example, a transaction in a database, which costs the same for many rows as for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from vibe_llms.foundation.portal import finish

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Coalescer(Generic[_In, _Out]):
    """Performs the requests of many tasks together, in one call that runs in a thread.

    Args:
        perform: Answers all requests, in their order. Its errors are raised to all callers.
        pause_seconds: Wait after each call for more requests, if there may be any: a call costs
            the same for many as for a few.
        enough: Number of requests that ends the wait.
    """

    def __init__(
        self,
        perform: Callable[[Sequence[_In]], Sequence[_Out]],
        *,
        pause_seconds: float = 0.0,
        enough: int = 1,
    ) -> None:
        self._perform = perform
        self._pause_seconds = pause_seconds
        self._enough = enough
        self._waiting: list[_In] = []
        self._answers: asyncio.Future[Sequence[_Out]] | None = None
        self._worker: asyncio.Task[None] | None = None
        self._end_of_pause = asyncio.Event()
        self._is_closing = False

    @property
    def backlog(self) -> int:
        """Number of requests that wait for the call in progress."""
        return len(self._waiting)

    async def ask(self, request: _In) -> _Out:
        """Return the answer to a request. If the caller is cancelled, it is still performed."""
        place = len(self._waiting)
        answers = await asyncio.shield(self.put(request))  # others wait for them, too
        return answers[place]

    def put(self, request: _In) -> asyncio.Future[Sequence[_Out]]:
        """Add a request, and return the future of all answers of its call, including others'."""
        if self._answers is None:
            self._answers = asyncio.get_running_loop().create_future()
        self._waiting.append(request)
        if len(self._waiting) >= self._enough:
            self._end_of_pause.set()
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return self._answers

    async def close(self) -> None:
        """Wait until all requests are done."""
        self._is_closing = True
        self._end_of_pause.set()
        while self._worker is not None:
            await finish(asyncio.wait([self._worker]))

    async def _work(self) -> None:
        try:
            while self._answers is not None:
                requests, answers = self._waiting, self._answers
                self._waiting, self._answers = [], None
                self._end_of_pause.clear()
                await self._perform_batch(requests, answers)
                await self._pause()
        finally:
            self._worker = None

    async def _perform_batch(
        self, requests: list[_In], answers: asyncio.Future[Sequence[_Out]]
    ) -> None:
        try:
            results = await asyncio.to_thread(self._perform, requests)
        except Exception as error:
            answers.set_exception(error)
        else:
            answers.set_result(results)

    async def _pause(self) -> None:
        if not self._pause_seconds or self._is_closing:
            return
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._pause_seconds, self._end_of_pause.set)
        try:
            await self._end_of_pause.wait()
        finally:
            timer.cancel()
