"""How many executions run at once, and what becomes of the others when one never ends."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.semaphores import Slots


class GateBlockedError(Exception):
    """All places are held by executions that were given up and have not ended."""


class Gate(Slots):
    """So many places in one event loop.

    An execution that was given up but cannot be stopped keeps its place. When all places are
    kept so, nobody waits for them any more.
    """

    stuck = 0

    async def take(self) -> None:
        """Takes a place, when there is one.

        Raises:
            GateBlockedError: None will become free in a time that could be told.
        """
        if not self.enter():
            if self.stuck >= self.count:
                raise GateBlockedError
            await super().take()

    def give_up(self) -> None:
        """Says that an execution has been given up and keeps its place."""
        self.stuck += 1
        if self.stuck >= self.count:
            self.refuse(GateBlockedError)

    def recover(self) -> None:
        """Says that an execution that had been given up has ended after all."""
        self.stuck -= 1
        self.give()


@define(eq=False)
class Gates:
    """One gate for each event loop: what never ends in one that is over holds up no other."""

    limit: int
    _gates: WeakKeyDictionary[asyncio.AbstractEventLoop, Gate] = attrs.field(
        factory=WeakKeyDictionary, init=False
    )

    def access(self) -> Gate:
        """Returns the gate of the running loop."""
        loop = asyncio.get_running_loop()
        gate = self._gates.get(loop)
        if gate is None:
            gate = self._gates[loop] = Gate(self.limit)
        return gate
