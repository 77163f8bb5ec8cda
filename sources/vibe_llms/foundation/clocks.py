"""Clock: passed to code that reads the time or sleeps, so that tests can replace it."""

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


def compute_backoff(first_seconds: float, doublings: int, longest_seconds: float) -> float:
    """Return the wait of an exponential backoff, up to the maximum.

    Args:
        first_seconds: The first wait.
        doublings: How often it was doubled since.
    """
    # Bounded before the power: 2.0 ** 1024 is an OverflowError, and some callers never give up.
    return min(first_seconds * 2.0 ** min(doublings, 60), longest_seconds)
