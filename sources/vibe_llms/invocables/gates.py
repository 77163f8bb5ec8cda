"""Concurrency limits of executions that may never end."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.semaphores import Semaphore


class GateBlockedError(Exception):
    """All places are held by abandoned executions that have not ended."""


class Gate(Semaphore):
    """Semaphore with a fixed number of places in one event loop.

    An abandoned execution that cannot be stopped keeps its place. When such executions hold all
    places, callers get an error instead of waiting.
    """

    abandoned = 0

    async def acquire(self) -> None:
        """Acquire a place; wait until one is free.

        Raises:
            GateBlockedError: Abandoned executions hold all places.
        """
        if not self.try_acquire():
            if self.abandoned >= self.count:
                raise GateBlockedError
            await super().acquire()

    def abandon(self) -> None:
        """Mark an execution as abandoned; the execution keeps its place."""
        self.abandoned += 1
        if self.abandoned >= self.count:
            self.fail_waiting(GateBlockedError)

    def recover(self) -> None:
        """Mark an abandoned execution as ended."""
        self.abandoned -= 1
        self.release()


@define(eq=False)
class Gates:
    """One gate per event loop, so that executions of a closed loop do not block other loops."""

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
