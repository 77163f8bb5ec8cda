"""How a connection ended, for all who have to know."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator


class Ending:
    """The end of one connection: whether it has come, why, and who still waits for an answer.

    Attributes:
        reason: What the server did, as the rest of a sentence.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._event = asyncio.Event()
        self._waiting = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def has_come(self) -> bool:
        """Whether the connection has ended, or is to."""
        return self._event.is_set()

    def report(self, reason: str) -> None:
        """Says that the connection has ended, or that it is of no more use; the first counts.

        Args:
            reason: What the server did, as the rest of a sentence; nothing where it is we who
                end it.
        """
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Says that an answer is waited for."""
        self._waiting += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._idle.set()

    async def settle(self, seconds: float) -> None:
        """Waits, though not longer, until nobody waits for an answer any more."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._idle.wait()

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end; tells whether it has come in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
