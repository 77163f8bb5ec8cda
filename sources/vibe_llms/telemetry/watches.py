"""What an odometer measures with: how long something took, and what a stream lets one see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from vibe_llms.messages.canisters import Origin

_ONE_PIECE_SECONDS: Final = 0.005
"""What arrives within this came in one piece, and tells nothing about when it was thought."""


@attrs.define
class Hearing:
    """What was heard of the answer that one task is receiving.

    Attributes:
        is_in_run: An engine tells of it.
        model, began: Who was asked, and when.
        origin: Who has answered.
    """

    is_in_run: bool = False
    model: str = ""
    began: float | None = None
    origin: Origin | None = None
    _first: float | None = None
    _last: float = 0.0
    _since: float | None = None
    _reasoned: float = 0.0

    def follow(self, now: float, is_reasoning: bool) -> None:
        """Takes note that something else has begun: reasoning, or not."""
        if self._since is not None:
            self._reasoned += now - self._since
        self._since = now if is_reasoning else None
        self._first, self._last = now if self._first is None else self._first, now

    @property
    def reasoning_seconds(self) -> float | None:
        """How long the model was seen to reason; ``None`` where that could not be seen."""
        if self._first is None or self._last - self._first < _ONE_PIECE_SECONDS:
            return None
        return self._reasoned


class Stopwatch:
    """Measures how long anything at all went on; what overlaps counts once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.seconds: float | None = None  # nothing was measured yet
        self._clock = clock
        self._running: set[str] = set()
        self._since = 0.0

    def start(self, key: str) -> None:
        """Begins to measure something under a name of its own."""
        if not self._running:
            self._since = self._clock()
        self._running.add(key)

    def stop(self, key: str) -> None:
        """Ends that; what was not begun is let be."""
        if key in self._running:
            self._running.discard(key)
            if not self._running:
                self.seconds = (self.seconds or 0.0) + self._clock() - self._since

    def stop_all(self) -> None:
        """Ends all that is still going on."""
        for key in tuple(self._running):
            self.stop(key)
