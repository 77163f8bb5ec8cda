"""The clock: what reads the time and waits is given one, so that a test need not wait."""

from __future__ import annotations

import time


class Clock:
    """The time of this machine; a subclass may be any other."""

    def read(self) -> float:
        """Returns the seconds since some moment; they never go backwards."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Waits."""
        import asyncio  # commands that never wait are spared its import

        await asyncio.sleep(seconds)


def double(seconds: float, times: int, longest_seconds: float) -> float:
    """Returns a wait that has doubled so many times, or the longest that there is to be."""
    # Bounded before it is raised: 2.0 ** 1024 is an OverflowError, and some never give up.
    return min(seconds * 2.0 ** min(times, 60), longest_seconds)
