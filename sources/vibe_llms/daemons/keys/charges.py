"""Charge of a request: reserved before it is sent, settled afterwards.

Money is exact: decimals of US cents, never rounded.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Context, Decimal, Inexact
from functools import lru_cache
from typing import Final, NamedTuple

from vibe_llms.foundation.secrets import redact_name

DAY_SECONDS: Final = 86_400
_MODEL_CHARACTERS: Final = 200

_EXACT: Final = Context(prec=200, traps=[Inexact])
"""Enough digits for any sum of prices; an error if there are more."""

NOTHING: Final = Decimal(0)

MAX_TOKENS: Final = 2**40
"""Upper bound for one request, so that the sum of millions of requests does not overflow."""

MAX_CENTS: Final = Decimal(10**15)
"""Bound for one request: larger amounts have too many digits to be added exactly."""


class Charge(NamedTuple):
    """Reservation of one request.

    A named tuple, which is faster to create than an attrs class: there is one for each request.

    Attributes:
        key: Public part of the key.
        day: As ``2026-11-23`` (UTC).
        model: As ``provider:name``.
        input_tokens, output_tokens: Bounds, as far as known.
        cents: Bound; ``None`` if unknown.
    """

    key: str
    day: str
    model: str
    input_tokens: int
    output_tokens: int
    cents: Decimal | None


class ActualUsage(NamedTuple):
    """Actual usage of a request; ``None`` where unknown."""

    input_tokens: int | None
    output_tokens: int | None
    cents: Decimal | None


UNKNOWN: Final = ActualUsage(None, None, None)


class KeySpending(NamedTuple):
    """Sums of settled requests, and of requests with an unknown outcome.

    Attributes:
        requests: Requests whose usage is known, at least in part.
        perhaps_requests: Requests that were perhaps sent: their process was killed, or the vendor
            reported no usage.
        perhaps_cents: Bound on the cost of these.
        unpriced: Requests with an unknown price, which is in no sum.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cents: Decimal = NOTHING
    perhaps_requests: int = 0
    perhaps_input_tokens: int = 0
    perhaps_output_tokens: int = 0
    perhaps_cents: Decimal = NOTHING
    unpriced: int = 0


def add_spending(one: KeySpending, other: KeySpending) -> KeySpending:
    """Return the sum of two spendings."""
    return KeySpending(
        requests=one.requests + other.requests,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        cents=add_cents(one.cents, other.cents),
        perhaps_requests=one.perhaps_requests + other.perhaps_requests,
        perhaps_input_tokens=one.perhaps_input_tokens + other.perhaps_input_tokens,
        perhaps_output_tokens=one.perhaps_output_tokens + other.perhaps_output_tokens,
        perhaps_cents=add_cents(one.perhaps_cents, other.perhaps_cents),
        unpriced=one.unpriced + other.unpriced,
    )


def subtract_spending(one: KeySpending, other: KeySpending) -> KeySpending:
    """Return the difference of two spendings; its parts may be negative."""
    negative = (_EXACT.minus(each) if isinstance(each, Decimal) else -each for each in other)
    return add_spending(one, KeySpending(*negative))  # type: ignore[arg-type]  # the types of its fields


def add_cents(one: Decimal, other: Decimal) -> Decimal:
    """Return the exact sum of two amounts."""
    return _EXACT.add(one, other)


def settle(charge: Charge, usage: ActualUsage) -> KeySpending:
    """Return the actual usage of a sent request; where unknown, its reservation."""
    is_known = usage != UNKNOWN
    reserved_cents = charge.cents if usage.cents is None else None
    return KeySpending(
        requests=int(is_known),
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        cents=usage.cents or NOTHING,
        perhaps_requests=int(not is_known),
        perhaps_input_tokens=charge.input_tokens if usage.input_tokens is None else 0,
        perhaps_output_tokens=charge.output_tokens if usage.output_tokens is None else 0,
        perhaps_cents=reserved_cents or NOTHING,
        unpriced=int(usage.cents is None and charge.cents is None),
    )


def bound_tokens(count: int) -> int:
    """Return a token count that can be added safely."""
    return min(max(count, 0), MAX_TOKENS)


def bound_cents(cents: Decimal | None) -> Decimal | None:
    """Return an amount that can be added safely; ``None`` stays."""
    return None if cents is None else min(max(cents, NOTHING), MAX_CENTS)


@lru_cache(4)
def write_day(number: int) -> str:
    """Return the date (UTC) of a day, from its number since 1970."""
    return datetime.fromtimestamp(number * DAY_SECONDS, UTC).date().isoformat()


def clean_model(address: str) -> str:
    """Return a model's address as one word of a line: clients may send any text."""
    return _make_printable(redact_name(address, _MODEL_CHARACTERS))


@lru_cache(4096)
def _make_printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text) or "?"
