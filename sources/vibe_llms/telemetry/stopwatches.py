"""Stopwatches of an odometer, and the timing of one streamed answer."""

from __future__ import annotations

from collections.abc import Callable

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import Origin


@define
class AnswerTiming:
    """State of the answer that one task is receiving.

    Attributes:
        is_in_run: Whether an engine reports it.
        model, began: The requested model, and the start.
        origin: The origin of the answer.
        is_streamed: Whether it is streamed: otherwise the time of its reasoning is unknown.
    """

    is_in_run: bool = False
    model: str = ""
    began: float | None = None
    origin: Origin | None = None
    is_streamed: bool = True
    _is_seen: bool = False
    _since: float | None = None
    _reasoned: float = 0.0

    def follow(self, now: float, is_reasoning: bool = False) -> None:
        """Note that another content has begun: reasoning, or not."""
        if self._since is not None:
            self._reasoned += now - self._since
        self._since = now if is_reasoning else None
        self._is_seen = True

    @property
    def reasoning_seconds(self) -> float | None:
        """The duration of visible reasoning; ``None`` if it was not visible."""
        return self._reasoned if self._is_seen and self.is_streamed else None


class Stopwatch:
    """Measures the total time of overlapping activities; overlaps count once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.seconds: float | None = None  # nothing was measured yet
        self._clock = clock
        self._running: set[str] = set()
        self._since = 0.0

    def start(self, key: str) -> None:
        """Start measuring an activity of this name."""
        if not self._running:
            self._since = self._clock()
        self._running.add(key)

    def stop(self, key: str) -> None:
        """Stop measuring it; ignored if it was not started."""
        if key in self._running:
            self._running.discard(key)
            if not self._running:
                self.seconds = (self.seconds or 0.0) + self._clock() - self._since

    def stop_all(self) -> None:
        """Stop measuring all activities."""
        for key in tuple(self._running):
            self.stop(key)
