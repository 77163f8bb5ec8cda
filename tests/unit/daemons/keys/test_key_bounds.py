"""What a key may do is decided exactly: never more than it may, and let in as soon as told."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.keys.bounds import Slot, find_refusal, select_window
from vibe_llms.daemons.keys.charges import Charge
from vibe_llms.daemons.keys.register import Key
from vibe_llms.exceptions import AccessError, ProviderFault


def make_key(**bounds: Any) -> Key:
    return Key(name="ada", digest="0" * 64, created=datetime.now(UTC), **bounds)


def charge(tokens: int = 1, cents: Any = "1") -> Charge:
    price = None if cents is None else Decimal(cents)
    return Charge("k", "2026-11-24", "a:b", tokens, 0, price)


def ask(
    key: Key, wanted: Charge, slots: list[Slot], now: float, spent: Any = 0
) -> AccessError | None:
    window = select_window(slots, now)
    return find_refusal(key, wanted, window, now, Decimal(spent), 3600.0)


@given(
    limit=st.integers(1, 6),
    tokens_limit=st.integers(1, 40),
    waits=st.lists(st.tuples(st.floats(0, 40), st.integers(0, 15)), max_size=60),
)
def test_no_minute_has_more_than_it_may_and_waiting_as_told_is_enough(
    limit: int, tokens_limit: int, waits: list[tuple[float, int]]
) -> None:
    """Whenever requests come."""
    key = make_key(requests_per_minute=limit, tokens_per_minute=tokens_limit)
    slots: list[Slot] = []
    let_in: list[tuple[float, int]] = []
    now = 100.0
    for wait, tokens in waits:
        now += wait
        refusal = ask(key, charge(tokens), slots, now)
        if refusal is not None and refusal.fault is ProviderFault.RATE_LIMITED:
            pause = refusal.retry_after_seconds or 0.0
            assert 0 < pause <= 61
            assert ask(key, charge(tokens), slots, now + pause + 1e-6) is None
            assert ask(key, charge(tokens), slots, now + pause * 0.999 - 1e-6) is not None
        elif refusal is None:
            slots.append(Slot(int(now), 1, tokens))
            let_in.append((now, tokens))
    for moment, _ in let_in:
        minute = [tokens for at, tokens in let_in if moment <= at <= moment + 60]
        assert len(minute) <= limit
        assert sum(minute) <= tokens_limit


@given(
    slots=st.lists(st.builds(Slot, st.integers(0, 10_000), st.integers(1, 3), st.integers(0, 9))),
    now=st.floats(0, 10_000),
)
def test_a_clock_that_went_back_neither_opens_nor_jams_the_door(
    slots: list[Slot], now: float
) -> None:
    """What lies ahead counts as of now, and is gone a minute later."""
    window = select_window(slots, now)

    ahead = [slot for slot in slots if slot.second > now]
    assert sum(slot.requests for slot in window) >= sum(slot.requests for slot in ahead)
    assert all(slot.second <= now for slot in window)
    assert select_window(window, now + 61) == []


def test_a_request_that_no_minute_has_room_for_need_not_wait() -> None:
    """It would be refused for ever."""
    refusal = ask(make_key(tokens_per_minute=10), charge(11), [], 100.0)

    assert refusal is not None
    assert refusal.fault is ProviderFault.PERMISSION
    assert refusal.retry_after_seconds is None


@pytest.mark.parametrize(
    ("spent", "cents", "fault", "retry"),
    [
        ("0", "10", None, None),
        ("9.5", "0.5", None, None),
        ("9.5", "0.500000000000000000000000001", ProviderFault.QUOTA, 3600.0),
        ("10", "0", None, None),
        ("0", "10.1", ProviderFault.QUOTA, None),
        ("0", None, ProviderFault.PERMISSION, None),
    ],
)
def test_a_budget_is_kept_to_the_last_digit(
    spent: str, cents: str | None, fault: ProviderFault | None, retry: float | None
) -> None:
    """What is refused says until when; a price that nobody knows is not nothing."""
    refusal = ask(make_key(cents_per_day=10), charge(1, cents), [], 100.0, spent)

    assert (refusal.fault if refusal else None) is fault
    if refusal is not None:
        assert refusal.retry_after_seconds == retry
        assert refusal.subject == "ada"
        assert refusal.remedy


def test_a_key_without_bounds_is_never_refused() -> None:
    """Whatever it asks for."""
    assert ask(make_key(), charge(10**9, None), [Slot(100, 10**6, 10**9)], 100.0) is None
