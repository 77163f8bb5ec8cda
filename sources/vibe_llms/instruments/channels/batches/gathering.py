"""Asking a database for many at once: whatever comes while it is busy goes together, next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from vibe_llms.asynchrony import finish

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class Gatherer(Generic[_In, _Out]):
    """Performs what many tasks ask for, in one call of a thread for all who wait.

    Args:
        perform: Answers all of them, in their order. What it raises is raised to each.
    """

    def __init__(self, perform: Callable[[Sequence[_In]], Sequence[_Out]]) -> None:
        self._perform = perform
        self._waiting: list[tuple[_In, asyncio.Future[_Out]]] = []
        self._working: asyncio.Task[None] | None = None

    @property
    def backlog(self) -> int:
        """How many wait until the database has been asked for those before them."""
        return len(self._waiting)

    async def ask(self, what: _In) -> _Out:
        """Returns what came of it. Who is cancelled has asked all the same."""
        return await self.put(what)

    def put(self, what: _In) -> asyncio.Future[_Out]:
        """Asks, and returns where the answer will be."""
        answer: asyncio.Future[_Out] = asyncio.get_running_loop().create_future()
        self._waiting.append((what, answer))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return answer

    async def close(self) -> None:
        """Waits until all that was asked is done."""
        while self._working is not None:
            await finish(asyncio.wait([self._working]))

    async def _work(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._answer(taken)
        finally:
            self._working = None

    async def _answer(self, taken: list[tuple[_In, asyncio.Future[_Out]]]) -> None:
        try:
            answers = await asyncio.to_thread(self._perform, [what for what, _ in taken])
        except Exception as error:
            for _, waiting in taken:
                if not waiting.done():
                    waiting.set_exception(error)
            return
        for (_, waiting), answer in zip(taken, answers, strict=True):
            if not waiting.done():
                waiting.set_result(answer)
