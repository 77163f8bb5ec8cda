"""Semaphore for any threads and event loops, first come first served."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress


class Semaphore:
    """A semaphore that any number of event loops and threads share.

    Unlike ``asyncio.Semaphore``, which belongs to one loop, it can also raise an error in waiting
    tasks and change its number of slots.

    Args:
        count: Maximum number of taken slots.

    Attributes:
        taken: Number of taken slots.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0
        self._lock = threading.Lock()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        """Number of waiting tasks."""
        return len(self._waiting)

    def try_acquire(self) -> bool:
        """Take a slot if one is free and no task waits for it.

        This and :meth:`release` may be called from any thread.

        Returns:
            Whether a slot was taken.
        """
        lock = self._lock
        lock.acquire()  # a context manager takes twice as long
        # While tasks wait, all slots are taken: `release` passes a slot to a waiting task.
        is_free = self.taken < self.count
        if is_free:
            self.taken += 1
        lock.release()
        return is_free

    async def acquire(self) -> None:
        """Wait for a slot and take it; a cancelled task does not take one."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self.taken < self.count:
                self.taken += 1
                return
            turn = loop.create_future()
            self._waiting.append((loop, turn))
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock, suppress(ValueError):
                self._waiting.remove((loop, turn))
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release()  # the slot was passed on just before the cancellation
            raise

    def release(self) -> None:
        """Release a slot: pass it to the task that has waited longest."""
        lock = self._lock
        lock.acquire()  # a context manager takes twice as long
        try:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                if turn.done():  # cancelled, but still in the queue
                    continue
                if _is_running(loop):
                    turn.set_result(None)
                    return
                with suppress(RuntimeError):  # the task's loop is closed: try the next task
                    loop.call_soon_threadsafe(self._grant, turn)
                    return
            self.taken -= 1
        finally:
            lock.release()

    def _grant(self, turn: asyncio.Future[None]) -> None:
        if turn.done():  # cancelled in the meantime
            self.release()
        else:
            turn.set_result(None)

    def resize(self, count: int) -> None:
        """Change the number of slots; taken slots stay taken."""
        self.count = count
        while True:
            with self._lock:
                if not self._waiting or self.taken >= self.count:
                    return
                self.taken += 1
            self.release()

    def fail_waiting(self, produce: Callable[[], Exception]) -> None:
        """Raise an error in all waiting tasks, which must belong to the current event loop."""
        with self._lock:
            waiting, self._waiting = self._waiting, deque()
        for _, turn in waiting:
            if not turn.done():
                turn.set_exception(produce())


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether a loop is the running one."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
