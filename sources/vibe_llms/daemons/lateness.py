"""How long the event loop stood still: whatever it does at once, everybody else waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_EVERY_SECONDS: Final = 0.25


class LoopWatch:
    """Looks four times a second how late the event loop comes.

    Attributes:
        listeners: Hear of each time how many seconds late it was.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[float], object]] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Begin to look, if somebody listens."""
        if self.listeners and self._timer is None:
            self._wait(asyncio.get_running_loop())

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _EVERY_SECONDS
        self._timer = loop.call_at(due, self._look, loop, due)

    def _look(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = max(loop.time() - due, 0.0)
        for listener in self.listeners:
            listener(late)
        self._wait(loop)
