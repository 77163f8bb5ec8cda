"""A clock for tests of what waits: seconds go by as fast as somebody sleeps them."""

from __future__ import annotations

import asyncio

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.clocks import Clock


@define
class HurriedClock(Clock):
    """A time that passes only while somebody sleeps, and then at once.

    Attributes:
        now: What it shows, in seconds.
        slept: For how many seconds each sleeper wanted to sleep, in order.
    """

    now: float = 1_000.0
    slept: list[float] = attrs.field(factory=list)

    def read(self) -> float:
        """Returns the seconds that it shows."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Lets others run once, and the time pass."""
        due = self.now + seconds
        self.slept.append(seconds)
        await asyncio.sleep(0)
        self.now = max(self.now, due)  # others may have slept longer meanwhile
