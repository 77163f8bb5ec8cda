"""Clock: code that reads the time or waits takes one, so that tests need not wait."""

from __future__ import annotations

import time


class Clock:
    """The time of this machine; subclasses may return any other."""

    def read(self) -> float:
        """Return the seconds of a monotonic clock."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        import asyncio  # commands that never wait need not import it

        await asyncio.sleep(seconds)


def double(seconds: float, times: int, longest_seconds: float) -> float:
    """Return a wait that was doubled so many times, up to the maximum."""
    # Bounded before the power: 2.0 ** 1024 is an OverflowError, and some callers never give up.
    return min(seconds * 2.0 ** min(times, 60), longest_seconds)
