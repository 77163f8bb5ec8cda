"""Places at what answers: so many inputs of a batch are asked at once, of whichever chunks.

Whoever has a place goes from one input to the next without giving it up, also from a chunk to that
behind it. A request is made of some fifty objects: where they are freed as those of the next one
are made, Python's collector has nothing to do. Where all requests of a chunk end before those of
the next begin, it looks through what is alive a dozen times for each chunk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

Ask: TypeAlias = Callable[[Any], Awaitable[None]]


class Places:
    """So many inputs are asked at once.

    Args:
        count: How many.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._errands: list[_Errand] = []

    @property
    def errands(self) -> int:
        """How many have inputs here."""
        return len(self._errands)

    async def perform(self, due: Iterator[Any], ask: Ask, most: int) -> None:
        """Asks for all that is due, behind what others have given before.

        Args:
            due: Is taken from whenever there is a place.
            ask: Asks for one. What it raises ends the rest, and is raised.
            most: How many are asked for at once.
        """
        errand = _Errand(due, ask, most)
        self._errands.append(errand)
        self._fill()
        try:
            await errand.ended.wait()
        finally:
            self._errands.remove(errand)
            errand.is_over = True
            under_way = list(errand.tasks)
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
        if errand.failure is not None:
            raise errand.failure

    def _fill(self) -> None:
        while self._free and (errand := self._choose()) is not None:
            self._free -= 1
            task = asyncio.create_task(self._work(errand))
            errand.tasks.add(task)  # before it begins, so that it counts
            task.add_done_callback(self._leave)

    def _choose(self) -> _Errand | None:
        return next((each for each in self._errands if each.has_room), None)

    async def _work(self, errand: _Errand | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        while errand is not None:
            errand.tasks.add(task)
            await errand.perform()
            errand.leave(task)
            errand = self._choose()

    def _leave(self, task: asyncio.Task[None]) -> None:
        """Notes that a place is free, also where whoever had it was cancelled before he began."""
        self._free += 1
        for errand in self._errands:
            errand.leave(task)
        self._fill()


class _Errand:
    """What somebody wants to have asked.

    Attributes:
        tasks: Those who are at it.
        is_over: Whether no more is taken.
    """

    def __init__(self, due: Iterator[Any], ask: Ask, most: int) -> None:
        self._due = due
        self._ask = ask
        self._most = most
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_over = False
        self.failure: Exception | None = None
        self.ended = asyncio.Event()

    @property
    def has_room(self) -> bool:
        """Whether one more may be at it."""
        return not self.is_over and len(self.tasks) < self._most

    async def perform(self) -> None:
        """Asks for one after the other, as long as there are any."""
        try:
            for given in self._due:
                await self._ask(given)
                if self.is_over:
                    return
        except Exception as error:
            self.failure = self.failure or error
            self.ended.set()
        self.is_over = True

    def leave(self, task: asyncio.Task[None]) -> None:
        """Notes that somebody is at it no more; the last one ends it."""
        self.tasks.discard(task)
        if self.is_over and not self.tasks:
            self.ended.set()
