"""Short descriptions of a run's numbers, for diagrams, pages and terminals."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from vibe_llms.events.flow import FlowEndedEvent
from vibe_llms.flows.courses import Sum, VisitState
from vibe_llms.foundation.money import write_dollars
from vibe_llms.runs.summaries import describe_ending

TIMES: Final = "\N{MULTIPLICATION SIGN}"

MARKS: Final = {
    VisitState.DONE: "\N{CHECK MARK}",
    VisitState.RUNNING: "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}",
    VisitState.WAITING: "\N{DOUBLE VERTICAL LINE}",
    VisitState.FAILED: "\N{BALLOT X}",
}
"""Marks that show a state without colour."""


def describe_seconds(seconds: float | None) -> str:
    """Describe a duration; empty if it is unknown or below 0.05 seconds."""
    if seconds is None or seconds < 0.05:
        return ""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    minutes, remaining_seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "min"), (0 if hours else remaining_seconds, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def describe_tokens(tokens: int | None) -> str:
    """Describe a number of tokens with two or three digits; empty if it is unknown."""
    if tokens is None:
        return ""
    if tokens < 1_000:
        return "1 token" if tokens == 1 else f"{tokens} tokens"
    amount, unit = (tokens / 1e6, "M") if tokens >= 999_500 else (tokens / 1e3, "k")
    decimals = 1 if amount < 9.95 else 0
    return f"{amount:.{decimals}f}{unit} tokens"


def describe_cost(cents: float | None) -> str:
    """Describe an amount of money in dollars; empty if it is unknown."""
    if cents is None:
        return ""
    return write_dollars(Decimal(str(cents)) / 100)


def describe_sum(total: Sum) -> list[str]:
    """Describe the sum of visits; a separate text for each known part."""
    return _describe_parts(
        f"{TIMES}{total.visits}" if total.visits > 1 else "", total.seconds, total
    )


def describe_whole(total: Sum, seconds: float | None) -> list[str]:
    """Describe the sum of a run as :func:`describe_sum` does, with its duration."""
    count = "1 visit" if total.visits == 1 else f"{total.visits} visits"
    return _describe_parts(count, seconds, total)


def _describe_parts(count: str, seconds: float | None, total: Sum) -> list[str]:
    words = (
        count,
        describe_seconds(seconds),
        describe_tokens(total.tokens),
        describe_cost(total.cost_cents or None),
    )
    return [each for each in words if each]


def describe_reason(event: FlowEndedEvent) -> str:
    """Describe the end of a run."""
    return describe_ending(event.reason, event.limit, event.goal_met)
