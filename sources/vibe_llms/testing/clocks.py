"""Clock for tests of timeouts, in which sleeping takes no real time."""

from __future__ import annotations

import asyncio

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.clocks import Clock


@define
class HurriedClock(Clock):
    """Clock whose time advances only through sleeps, which return immediately.

    Attributes:
        now: The current time, in seconds.
        slept: The requested duration of each sleep, in seconds, in order.
    """

    now: float = 1_000.0
    slept: list[float] = attrs.field(factory=list)

    def read(self) -> float:
        """Return the current time in seconds."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run once, and advance the time."""
        due = self.now + seconds
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self.now = max(self.now, due)  # others may have slept longer in between
