"""How many executions run at once, and what becomes of the others when one never ends."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

import attrs

from vibe_llms.values import define


class GateBlockedError(Exception):
    """All places are held by executions that were given up and have not ended."""


class Gate:
    """So many places; who finds none waits, in order.

    An execution that was given up but cannot be stopped keeps its place. When all places are
    kept so, nobody waits for them any more.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0
        self.stuck = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Takes a place, when there is one.

        Raises:
            GateBlockedError: None will become free in a time that could be told.
        """
        # Who comes later does not overtake those who wait, though a place may be free.
        if self.taken < self.limit and not self._waiting:
            self.taken += 1
            return
        if self.stuck >= self.limit:
            raise GateBlockedError
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.release()  # the place was given and is not wanted any more
            raise
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)

    def release(self) -> None:
        """Gives a place back: to whoever has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                # From hand to hand: it is never free in between, and nobody can snatch it.
                turn.set_result(None)
                return
        self.taken -= 1

    def give_up(self) -> None:
        """Says that an execution has been given up and keeps its place."""
        self.stuck += 1
        if self.stuck >= self.limit:
            for turn in self._waiting:
                if not turn.done():
                    turn.set_exception(GateBlockedError())
            self._waiting.clear()

    def recover(self) -> None:
        """Says that an execution that had been given up has ended after all."""
        self.stuck -= 1
        self.release()


@define(eq=False)
class Gates:
    """One gate for each event loop: futures belong to loops."""

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
