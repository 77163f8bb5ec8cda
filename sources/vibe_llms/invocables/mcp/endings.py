"""How a connection ended, for all who have to know."""

from __future__ import annotations

import asyncio


class Ending:
    """The end of one connection: whether it has come, and why.

    Attributes:
        reason: What the server did, as the rest of a sentence.
    """

    def __init__(self) -> None:
        self.reason = ""
        self._event = asyncio.Event()

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

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits for the end; tells whether it has come in time."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
