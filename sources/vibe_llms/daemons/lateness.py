"""Latency of the event loop: how late its timers fire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

_INTERVAL_SECONDS: Final = 0.25


class LoopWatch:
    """Timer that measures four times a second how late it fires.

    Attributes:
        listeners: Called with each delay in seconds.
    """

    def __init__(self) -> None:
        self.listeners: list[Callable[[float], object]] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start the timer if there are listeners."""
        if self.listeners and self._timer is None:
            self._set_timer(asyncio.get_running_loop())

    def end(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + _INTERVAL_SECONDS
        self._timer = loop.call_at(due, self._measure, loop, due)

    def _measure(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        late = max(loop.time() - due, 0.0)
        for listener in self.listeners:
            listener(late)
        self._set_timer(loop)
