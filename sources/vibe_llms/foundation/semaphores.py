"""So many at once: whoever finds no slot free waits, in the order of asking."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Slots:
    """So many slots. One value serves any number of event loops and threads.

    ``asyncio.Semaphore`` belongs to one loop, and nobody can say to those who wait that there will
    be nothing, nor that there is more.

    Args:
        count: How many may be taken at once.

    Attributes:
        taken: How many are.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0
        self._lock = threading.Lock()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return len(self._waiting)

    def enter(self) -> bool:
        """Takes a slot, if one is free: none is while anybody waits, whom nobody overtakes.

        Whoever waits is in an event loop; this and :meth:`give` may be called from any thread.
        """
        with self._lock:
            return self._enter()

    def _enter(self) -> bool:
        if self.taken >= self.count:  # as long as anybody waits
            return False
        self.taken += 1
        return True

    async def take(self) -> None:
        """Takes a slot, when there is one; whoever is cancelled while waiting has taken none."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._enter():
                return
            turn = loop.create_future()
            self._waiting.append((loop, turn))
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock, suppress(ValueError):
                self._waiting.remove((loop, turn))
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.give()  # it was given at the last moment, and is not wanted any more
            raise

    def give(self) -> None:
        """Gives a slot back: from hand to hand, to whoever has waited longest."""
        with self._lock:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                if turn.done():  # cancelled, and about to say so
                    continue
                if _is_running(loop):
                    turn.set_result(None)
                    return
                with suppress(RuntimeError):  # that loop is closed, and whoever waited in it gone
                    loop.call_soon_threadsafe(self._grant, turn)
                    return
            self.taken -= 1

    def _grant(self, turn: asyncio.Future[None]) -> None:
        if turn.done():  # cancelled meanwhile
            self.give()
        else:
            turn.set_result(None)

    def resize(self, count: int) -> None:
        """Lets another count hold from now on; who has a slot keeps it."""
        self.count = count
        while True:
            with self._lock:
                if not self._waiting or self.taken >= self.count:
                    return
                self.taken += 1
            self.give()

    def refuse(self, produce: Callable[[], Exception]) -> None:
        """Raises an error to all who wait in this event loop."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for _, turn in waiting:
            if not turn.done():
                turn.set_exception(produce())


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Tells whether a loop is the one that this is called in."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
