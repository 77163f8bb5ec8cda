"""Timeout that is paused while a person is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import attrs

from vibe_llms.foundation.attrs_classes import define


@define(eq=False)
class PausableTimeout:
    """Limits a duration, excluding the time that a person took.

    Attributes:
        is_waiting: True while a person is being asked.
    """

    is_waiting: bool = attrs.field(default=False, init=False)
    _timers: set[asyncio.Timeout] = attrs.field(factory=set, init=False)

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncIterator[None]:
        """Raise TimeoutError if the block takes longer, excluding a person's time."""
        async with asyncio.timeout(seconds) as timer:
            self._timers.add(timer)
            try:
                yield
            finally:
                self._timers.discard(timer)

    @contextmanager
    def wait_for_person(self) -> Iterator[None]:
        """Pause all limits during the block, which must have a separate limit."""
        now = asyncio.get_running_loop().time()
        deadlines = {timer: timer.when() for timer in self._timers}
        for timer in deadlines:
            timer.reschedule(None)
        self.is_waiting = True
        try:
            yield
        finally:
            self.is_waiting = False
            paused_seconds = asyncio.get_running_loop().time() - now
            for timer, deadline in deadlines.items():
                # A block that has ended in the meantime must not get a deadline.
                if timer in self._timers and deadline is not None:
                    timer.reschedule(deadline + paused_seconds)
