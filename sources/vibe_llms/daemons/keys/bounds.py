"""Limits of a key, as pure functions of its usage so far."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final, NamedTuple

from vibe_llms.daemons.keys.charges import Charge, add_cents
from vibe_llms.daemons.keys.register import Key
from vibe_llms.exceptions import AccessError, ProviderFault

WINDOW_SECONDS: Final = 60


class Slot(NamedTuple):
    """Usage within one second.

    Attributes:
        second: The second, by a monotonic clock.
        requests, tokens: Sums of this second.
    """

    second: int
    requests: int
    tokens: int


def select_window(slots: Iterable[Slot], now: float) -> list[Slot]:
    """Return the slots of the last minute, oldest first.

    A slot counts until its second ended more than a minute ago, so no minute exceeds the limit.
    Slots in the future were written before the machine restarted, when the clock was ahead; they
    count as of now.
    """
    second = int(now)
    recent = [
        slot._replace(second=min(slot.second, second))
        for slot in slots
        if slot.second + 1 + WINDOW_SECONDS > now
    ]
    return sorted(recent)


def find_refusal(
    key: Key, charge: Charge, window: list[Slot], now: float, spent: Decimal, seconds_left: float
) -> AccessError | None:
    """Return why a request is refused; ``None`` if it is admitted.

    Args:
        key: The key.
        charge: The most that the request may use.
        window: From :func:`select_window`.
        now: Present time, by the clock of the window.
        spent: Cents of the day so far.
        seconds_left: Seconds until the day ends.
    """
    tokens = charge.input_tokens + charge.output_tokens
    return (
        _find_excess(key, tokens)
        # Check the day first: retrying after a minute would not help.
        or _find_overspending(key, charge, spent, seconds_left)
        or _find_rate(key, tokens, window, now)
    )


def _find_excess(key: Key, tokens: int) -> AccessError | None:
    """Return the limit that a request alone exceeds."""
    limit = key.tokens_per_minute
    if limit is None or tokens <= limit:
        return None
    return AccessError(
        fault=ProviderFault.PERMISSION,
        subject=key.name,
        detail=f"The request may use {tokens} tokens; the key {key.name!r} has {limit} a minute.",
        remedy="Send less, or set a lower output limit.",
    )


def _find_rate(key: Key, tokens: int, window: list[Slot], now: float) -> AccessError | None:
    """Return the limit of requests or tokens per minute for which the request must wait longest."""
    wait, reached_limit = 0.0, ""
    for limit, requested, counts, unit in (
        (key.requests_per_minute, 1, [slot.requests for slot in window], "requests"),
        (key.tokens_per_minute, tokens, [slot.tokens for slot in window], "tokens"),
    ):
        if limit is None:
            continue
        excess = sum(counts) + requested - limit
        for slot, count in zip(window, counts, strict=True):
            if excess <= 0:
                break
            excess -= count
            expires_in = slot.second + 1 + WINDOW_SECONDS - now
            if expires_in > wait:
                wait, reached_limit = expires_in, f"{limit} {unit}"
    if not reached_limit:
        return None
    return AccessError(
        fault=ProviderFault.RATE_LIMITED,
        subject=key.name,
        retry_after_seconds=wait,
        detail=f"The key {key.name!r} has used its {reached_limit} of this minute.",
        remedy=f"Wait {wait:.0f} s and retry.",
    )


def _find_overspending(
    key: Key, charge: Charge, spent: Decimal, seconds_left: float
) -> AccessError | None:
    budget = key.cents_per_day
    if budget is None:
        return None
    if charge.cents is None:
        return AccessError(
            fault=ProviderFault.PERMISSION,
            subject=key.name,
            detail=f"The maximum cost of {charge.model} is unknown, and the key {key.name!r} has a "
            f"budget of {budget} cents a day.",
            remedy="Use a model with a known price, and set an output limit.",
        )
    if add_cents(spent, charge.cents) <= budget:
        return None
    fits_a_day = charge.cents <= budget
    return AccessError(
        fault=ProviderFault.QUOTA,
        subject=key.name,
        retry_after_seconds=seconds_left if fits_a_day else None,
        detail=f"The key {key.name!r} has spent {spent.normalize():f} of its {budget} cents of "
        f"{charge.day}, and the request may cost {charge.cents.normalize():f}.",
        remedy="Set a lower output limit, or wait until midnight (UTC)."
        if fits_a_day
        else "Set a lower output limit.",
    )
