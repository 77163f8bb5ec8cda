"""Concurrency limits of executions, including executions that never end."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.semaphores import Semaphore


class GateBlockedError(Exception):
    """All places are held by executions that were abandoned and have not ended."""


class Gate(Semaphore):
    """Semaphore with a fixed number of places in one event loop.

    An abandoned execution that cannot be stopped keeps its place. When all places are kept so, no
    caller waits for one.
    """

    stuck = 0

    async def acquire(self) -> None:
        """Acquire a place, waiting for it.

        Raises:
            GateBlockedError: No place will become free in a foreseeable time.
        """
        if not self.try_acquire():
            if self.stuck >= self.count:
                raise GateBlockedError
            await super().acquire()

    def give_up(self) -> None:
        """Mark an execution as abandoned; it keeps its place."""
        self.stuck += 1
        if self.stuck >= self.count:
            self.fail_waiting(GateBlockedError)

    def recover(self) -> None:
        """Mark an abandoned execution as ended."""
        self.stuck -= 1
        self.release()


@define(eq=False)
class Gates:
    """One gate per event loop: an endless execution of a closed loop blocks no other."""

    limit: int
    _gates: WeakKeyDictionary[asyncio.AbstractEventLoop, Gate] = attrs.field(
        factory=WeakKeyDictionary, init=False
    )

    def access(self) -> Gate:
        """Return the gate of the running loop."""
        loop = asyncio.get_running_loop()
        gate = self._gates.get(loop)
        if gate is None:
            gate = self._gates[loop] = Gate(self.limit)
        return gate
