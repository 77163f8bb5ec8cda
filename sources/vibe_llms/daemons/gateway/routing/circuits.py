"""When a target that has failed is asked again: a machine of values, told what time it is."""

from __future__ import annotations

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Count, Seconds
from vibe_llms.tables.reading import require


@frozen(kw_only=True)
class CircuitSettings:
    """When a target is let alone because it fails.

    Attributes:
        failures: So many within the window open the circuit: the target is passed over.
        window_seconds: How long a failure counts.
        pause_seconds: How long the circuit stays open. Then one request is let through as a probe:
            if it is answered the circuit closes, else it stays open as long again.
    """

    failures: Count = 5
    window_seconds: Seconds = 60.0
    pause_seconds: Seconds = 30.0

    def __attrs_post_init__(self) -> None:
        require(self, "circuit")


@frozen
class Circuit:
    """What is known of a target's failures.

    Attributes:
        failed: When it failed lately, oldest first.
        opened: Since when it is passed over; ``None`` while it is asked.
        is_probed: One request is on its way to find out whether it answers again.
    """

    failed: tuple[float, ...] = ()
    opened: float | None = None
    is_probed: bool = False

    def find_wait(self, settings: CircuitSettings, now: float) -> float:
        """Returns how many seconds the target is to be passed over; 0 where it may be asked."""
        if self.opened is None:
            return 0.0
        left = self.opened + settings.pause_seconds - now
        # While a probe is under way nobody knows when it ends: a second is as good as any.
        return max(left, 1.0) if self.is_probed else max(left, 0.0)

    def begin(self) -> Circuit:
        """Returns the circuit when a request goes to the target, which may be asked."""
        return self if self.opened is None else attrs.evolve(self, is_probed=True)

    def end(
        self, settings: CircuitSettings, now: float, has_failed: bool | None, *, is_probe: bool
    ) -> Circuit:
        """Returns the circuit when a request to the target is over.

        Args:
            has_failed: ``None`` where that says nothing of the target, as when a client left.
            is_probe: It was let through while the circuit was open.
        """
        if is_probe:
            if has_failed is None:
                return attrs.evolve(self, is_probed=False)
            return Circuit(opened=now) if has_failed else Circuit()
        if self.opened is not None or not has_failed:
            return self  # what began before it opened decides nothing
        recent = [each for each in self.failed if each > now - settings.window_seconds]
        failed = (*recent, now)
        if len(failed) >= settings.failures:
            return Circuit(opened=now)
        return Circuit(failed)
