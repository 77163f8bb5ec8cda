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
        model, started_at: The requested model, and the start.
        origin: The origin of the answer.
        is_streamed: Whether it is streamed; otherwise the duration of its reasoning is unknown.
    """

    is_in_run: bool = False
    model: str = ""
    started_at: float | None = None
    origin: Origin | None = None
    is_streamed: bool = True
    _has_events: bool = False
    _reasoning_since: float | None = None
    _reasoning_total: float = 0.0

    def follow(self, now: float, is_reasoning: bool = False) -> None:
        """Record that the next content has started, and whether it is reasoning."""
        if self._reasoning_since is not None:
            self._reasoning_total += now - self._reasoning_since
        self._reasoning_since = now if is_reasoning else None
        self._has_events = True

    @property
    def reasoning_seconds(self) -> float | None:
        """The duration of visible reasoning; ``None`` if it was not visible."""
        return self._reasoning_total if self._has_events and self.is_streamed else None


class Stopwatch:
    """Measures the total time of overlapping activities; overlaps count once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.seconds: float | None = None  # None until something was measured
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
