"""Deadlines of many tasks, kept by one timer of their event loop.

``asyncio.timeout`` sets and cancels a timer for each task, which costs more than the rest of a
small request. Most tasks end long before their deadline, so one timer for all of them suffices.
"""

from __future__ import annotations

import asyncio
from math import inf


class Deadline:
    """Deadline of one task. Call :meth:`end` when the task is done.

    Attributes:
        due: Time of expiry, by the clock of the event loop.
    """

    __slots__ = ("_deadlines", "_is_expired", "_task", "due")

    def __init__(self, deadlines: Deadlines, task: asyncio.Task[object], due: float) -> None:
        self._deadlines, self._task, self.due = deadlines, task, due
        self._is_expired = False

    def expire(self) -> None:
        """Cancel the task."""
        self._is_expired = True
        self._task.cancel()

    def uncancel(self) -> bool:
        """Withdraw the cancellation by this deadline, so that the task can continue.

        Returns:
            Whether this deadline alone had cancelled the task.
        """
        return self._is_expired and self._task.uncancel() == 0

    def end(self) -> None:
        """Remove the deadline. May be called twice."""
        self._deadlines.open.discard(self)


class Deadlines:
    """Open deadlines of one event loop.

    Attributes:
        open: Deadlines of tasks that are not done.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.open: set[Deadline] = set()
        self._timer_due = inf

    def begin(self, due: float, task: asyncio.Task[object] | None = None) -> Deadline:
        """Start a deadline: cancel a task at a time, unless the deadline is ended before.

        Args:
            due: Time of expiry, by the clock of the event loop.
            task: The task; by default the current one.
        """
        if task is None:
            task = asyncio.current_task(
                self.loop
            )  # without the loop, it takes a call of the system
            assert task is not None
        deadline = Deadline(self, task, due)
        self.open.add(deadline)
        if due < self._timer_due:
            self._timer_due = due
            self.loop.call_at(due, self._expire_due)
        return deadline

    def _expire_due(self) -> None:
        now = self.loop.time()
        if now < self._timer_due:  # another timer was set for a deadline that is due earlier
            return
        for deadline in [each for each in self.open if each.due <= now]:
            self.open.discard(deadline)
            deadline.expire()
        self._timer_due = min((each.due for each in self.open), default=inf)
        if self.open:
            self.loop.call_at(self._timer_due, self._expire_due)
