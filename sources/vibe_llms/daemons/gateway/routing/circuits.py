"""Circuit breaker of a target: an immutable state machine that is given the time."""

from __future__ import annotations

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Count, Seconds
from vibe_llms.tables.reading import require


@frozen(kw_only=True)
class CircuitSettings:
    """When to stop asking a failing target.

    Attributes:
        failures: Failures within the window that open the circuit, so that the target is skipped.
        window_seconds: How long a failure counts.
        pause_seconds: How long the circuit stays open. Then one request is let through as a probe:
            if it succeeds, the circuit closes, else it stays open as long again.
    """

    failures: Count = 5
    window_seconds: Seconds = 60.0
    pause_seconds: Seconds = 30.0

    def __attrs_post_init__(self) -> None:
        require(self, "circuit")


@frozen
class Circuit:
    """State of a target's circuit.

    Attributes:
        failed: Times of recent failures, oldest first.
        opened: Time when it opened; ``None`` while it is closed.
        is_probed: Whether a probe is under way.
    """

    failed: tuple[float, ...] = ()
    opened: float | None = None
    is_probed: bool = False

    def find_wait(self, settings: CircuitSettings, now: float) -> float:
        """Return the seconds for which to skip the target; 0 if it is available."""
        if self.opened is None:
            return 0.0
        left = self.opened + settings.pause_seconds - now
        # The duration of a probe is unknown; one second is an estimate.
        return max(left, 1.0) if self.is_probed else max(left, 0.0)

    def begin(self) -> Circuit:
        """Return the state after a request was sent to the target."""
        return self if self.opened is None else attrs.evolve(self, is_probed=True)

    def end(
        self, settings: CircuitSettings, now: float, has_failed: bool | None, *, is_probe: bool
    ) -> Circuit:
        """Return the state after a request to the target has ended.

        Args:
            has_failed: ``None`` if the target is not responsible, as when a client disconnects.
            is_probe: Whether the request was sent while the circuit was open.
        """
        if is_probe:
            if has_failed is None:
                return attrs.evolve(self, is_probed=False)
            return Circuit(opened=now) if has_failed else Circuit()
        if self.opened is not None or not has_failed:
            return self  # requests from before it opened do not count
        recent = [each for each in self.failed if each > now - settings.window_seconds]
        failed = (*recent, now)
        if len(failed) >= settings.failures:
            return Circuit(opened=now)
        return Circuit(failed)
