"""What a key may do: decided from what it is known to have used. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final, NamedTuple

from vibe_llms.daemons.keys.charges import Charge, add_cents
from vibe_llms.daemons.keys.register import Key
from vibe_llms.exceptions import AccessError, ProviderFault

WINDOW_SECONDS: Final = 60
DAY_SECONDS: Final = 86_400


class Slot(NamedTuple):
    """What was begun within one second.

    Attributes:
        second: Which one, by a clock that never goes back.
        requests, tokens: How many.
    """

    second: int
    requests: int
    tokens: int


def select_window(slots: Iterable[Slot], now: float) -> list[Slot]:
    """Returns those that count at a moment, the oldest first.

    A second counts until none of its moments is less than a minute ago, so that no minute ever
    has more than it may. What seems to lie ahead is of before the machine was started anew: it
    counts as of now, which neither opens the door nor keeps it closed.
    """
    second = int(now)
    kept = [
        slot._replace(second=min(slot.second, second))
        for slot in slots
        if slot.second + 1 + WINDOW_SECONDS > now
    ]
    return sorted(kept)


def find_refusal(
    key: Key, charge: Charge, window: list[Slot], now: float, spent: Decimal, day_left: float
) -> AccessError | None:
    """Says why a request cannot be let in; ``None`` where it can.

    Args:
        key: Whose it is.
        charge: What it would take.
        window: From :func:`select_window`.
        now: By the clock of the window.
        spent: What counts of the day so far, in US cents.
        day_left: The seconds until the day is over.
    """
    tokens = charge.input_tokens + charge.output_tokens
    return (
        _find_excess(key, tokens)
        # A day is longer than a minute: who has spent his budget need not come back after one.
        or _find_overspending(key, charge, spent, day_left)
        or _find_rate(key, tokens, window, now)
    )


def _find_excess(key: Key, tokens: int) -> AccessError | None:
    """A request that can never be let in, however long it waits."""
    limit = key.tokens_per_minute
    if limit is None or tokens <= limit:
        return None
    return AccessError(
        fault=ProviderFault.PERMISSION,
        subject=key.name,
        detail=f"The request asks for up to {tokens} tokens, and the key {key.name!r} has {limit}"
        " a minute.",
        remedy="Send less, or let the model write fewer tokens.",
    )


def _find_rate(key: Key, tokens: int, window: list[Slot], now: float) -> AccessError | None:
    wait, words = 0.0, ""
    for limit, wanted, counts, word in (
        (key.requests_per_minute, 1, [slot.requests for slot in window], "requests"),
        (key.tokens_per_minute, tokens, [slot.tokens for slot in window], "tokens"),
    ):
        if limit is None:
            continue
        excess = sum(counts) + wanted - limit
        for slot, count in zip(window, counts, strict=True):
            if excess <= 0:
                break
            excess -= count
            until = slot.second + 1 + WINDOW_SECONDS - now
            if until > wait:
                wait, words = until, f"{limit} {word}"
    if not words:
        return None
    return AccessError(
        fault=ProviderFault.RATE_LIMITED,
        subject=key.name,
        retry_after_seconds=wait,
        detail=f"The key {key.name!r} has had its {words} of this minute.",
        remedy=f"Wait {wait:.0f} s, and send it again.",
    )


def _find_overspending(
    key: Key, charge: Charge, spent: Decimal, day_left: float
) -> AccessError | None:
    budget = key.cents_per_day
    if budget is None:
        return None
    if charge.cents is None:
        return AccessError(
            fault=ProviderFault.PERMISSION,
            subject=key.name,
            detail=f"Nobody knows what {charge.model} costs at most, and the key {key.name!r} has "
            f"{budget} cents a day.",
            remedy="Ask a model whose price is known, and say how much it may write.",
        )
    if add_cents(spent, charge.cents) <= budget:
        return None
    fits_a_day = charge.cents <= budget
    return AccessError(
        fault=ProviderFault.QUOTA,
        subject=key.name,
        retry_after_seconds=day_left if fits_a_day else None,
        detail=f"The key {key.name!r} has spent {spent.normalize():f} of its {budget} cents of "
        f"{charge.day}, and the request can come to {charge.cents.normalize():f}.",
        remedy="Let the model write fewer tokens, or wait until midnight (UTC)."
        if fits_a_day
        else "Let the model write fewer tokens.",
    )
