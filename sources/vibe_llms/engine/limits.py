"""Resource usage of a run, compared to its limits."""

from __future__ import annotations

import attrs

from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import Usage


@define(kw_only=True)
class Readings:
    """Resource usage of a run so far.

    Attributes:
        steps: Generations.
        invocations: Executed invocations.
        seconds: Working time, without the time spent waiting for approvals.
        tokens: Input and output tokens of all responses, as far as vendors report them.
        cents: Cost of the responses in US cents; ``None`` while no price is known.
        faults: Invocations that failed or were invalid.
    """

    steps: int = 0
    invocations: int = 0
    seconds: float = 0.0
    tokens: int = 0
    cents: float | None = None
    faults: int = 0

    def count(self, usage: Usage | None, cents: float | None) -> int:
        """Count the usage and cost of a response, if known; return its tokens."""
        if cents is not None:
            self.cents = (self.cents or 0.0) + cents
        if usage is None:
            return 0
        tokens = (usage.total_input_tokens or 0) + (usage.total_output_tokens or 0)
        self.tokens += tokens
        return tokens

    def export(self) -> dict[str, float | None]:
        """Return the readings by the names of their limits."""
        return {f"run_{name}": getattr(self, name) for name in NAMES}


NAMES = tuple(field.name for field in attrs.fields(Readings))


def find_reached(readings: Readings, limits: Limits) -> str:
    """Return the name of a reached limit that forbids another generation; empty without one."""
    for name in ("steps", "tokens", "cents", "faults", "seconds"):
        used, limit = getattr(readings, name), f"run_{name}"
        if used is not None and used >= getattr(limits, limit):
            return limit
    return ""


def find_remaining(readings: Readings, limits: Limits) -> tuple[int, str]:
    """Return the number of remaining invocations, and the name of the limit if there are none."""
    if readings.seconds >= limits.run_seconds:
        return 0, "run_seconds"
    remaining = limits.run_invocations - readings.invocations
    return (remaining, "") if remaining > 0 else (0, "run_invocations")


def export_limits(limits: Limits) -> dict[str, int]:
    """Return the limits of a run by name."""
    return {f"run_{name}": getattr(limits, f"run_{name}") for name in NAMES}
