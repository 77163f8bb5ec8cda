"""What an odometer measures with: how long something took, and what a stream lets one see."""

from __future__ import annotations

from collections.abc import Callable

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import Origin


@define
class Hearing:
    """What was heard of the answer that one task is receiving.

    Attributes:
        is_in_run: An engine tells of it.
        model, began: Who was asked, and when.
        origin: Who has answered.
        is_streamed: Whether it comes piece by piece: in one piece, it does not tell when it was
            thought.
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
        """Takes note that something else has begun: reasoning, or not."""
        if self._since is not None:
            self._reasoned += now - self._since
        self._since = now if is_reasoning else None
        self._is_seen = True

    @property
    def reasoning_seconds(self) -> float | None:
        """How long the model was seen to reason; ``None`` where that could not be seen."""
        return self._reasoned if self._is_seen and self.is_streamed else None


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
