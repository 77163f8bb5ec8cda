"""Circuit breaker of a target: an immutable state machine; each method receives the time."""

from __future__ import annotations

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Count, Seconds
from vibe_llms.tables.reading import require


@frozen(kw_only=True)
class CircuitSettings:
    """Limits after which a failing target is skipped for a time.

    Attributes:
        failures: Failures within the window that open the circuit, so that the target is skipped.
        window_seconds: How long a failure counts.
        pause_seconds: How long the circuit stays open. Then one request is let through as a probe:
            if the request succeeds, the circuit closes; if not, the circuit stays open for the same
            time again.
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
        failure_times: Times of recent failures, oldest first.
        opened_at: Time when it opened; ``None`` while it is closed.
        is_probing: Whether a probe is under way.
    """

    failure_times: tuple[float, ...] = ()
    opened_at: float | None = None
    is_probing: bool = False

    def find_wait(self, settings: CircuitSettings, now: float) -> float:
        """Return the seconds for which to skip the target; 0 if it is available."""
        if self.opened_at is None:
            return 0.0
        remaining = self.opened_at + settings.pause_seconds - now
        # The duration of a probe is unknown; one second is an estimate.
        return max(remaining, 1.0) if self.is_probing else max(remaining, 0.0)

    def begin(self) -> Circuit:
        """Return the state after a request was sent to the target."""
        return self if self.opened_at is None else attrs.evolve(self, is_probing=True)

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
                return attrs.evolve(self, is_probing=False)
            return Circuit(opened_at=now) if has_failed else Circuit()
        if self.opened_at is not None or not has_failed:
            return self  # requests from before it opened do not count
        recent = [time for time in self.failure_times if time > now - settings.window_seconds]
        failure_times = (*recent, now)
        if len(failure_times) >= settings.failures:
            return Circuit(opened_at=now)
        return Circuit(failure_times)
