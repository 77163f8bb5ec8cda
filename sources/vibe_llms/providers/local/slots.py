"""A bound on how many requests run at once, across event loops and threads."""

from __future__ import annotations

import asyncio
import threading
from collections import deque

from vibe_llms.exceptions import LimitError


class Slots:
    """So many seats, taken in the order of asking. One value serves any number of event loops.

    ``asyncio.Semaphore`` belongs to one loop, but a loaded model is shared by the whole process.

    Args:
        count: How many may be taken at once.
        waiting: How many requests may wait for one.
    """

    def __init__(self, count: int, waiting: int) -> None:
        self._limit = waiting
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    async def take(self) -> None:
        """Waits for a seat; whoever is cancelled while waiting has taken none.

        Raises:
            LimitError: Too many wait already.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            if len(self._waiting) >= self._limit:
                raise LimitError(limit="waiting_requests", value=self._limit)
            seat = loop.create_future()
            self._waiting.append((loop, seat))
        try:
            await seat
        except asyncio.CancelledError:
            with self._lock:
                try:
                    self._waiting.remove((loop, seat))
                except ValueError:
                    granted = True  # the seat was given in the same moment
                else:
                    granted = False
            if granted:
                self.give()
            raise

    def give(self) -> None:
        """Gives a seat back, to whoever has waited longest. From any thread."""
        with self._lock:
            while self._waiting:
                loop, seat = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(_grant, seat)
                except RuntimeError:  # that loop is closed, and whoever waited in it is gone
                    continue
                return
            self._free += 1


def _grant(seat: asyncio.Future[None]) -> None:
    # One who was cancelled in the meantime gives the seat on by itself.
    if not seat.done():
        seat.set_result(None)
