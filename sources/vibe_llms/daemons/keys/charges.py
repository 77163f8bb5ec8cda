"""What a request takes from a key: set aside before it is sent, and then what it has used.

Money is exact: decimals of US cents, of which none is rounded.
"""

from __future__ import annotations

from decimal import Context, Decimal, Inexact
from functools import lru_cache
from typing import Final, NamedTuple

_MODEL_CHARACTERS: Final = 200

_EXACT: Final = Context(prec=200, traps=[Inexact])
"""Enough digits for any sum of prices, and an error where they should not be."""

NOTHING: Final = Decimal(0)

MOST_TOKENS: Final = 2**40
"""Of one request, whatever a client wants or a vendor says: millions of these can be summed up."""

MOST_CENTS: Final = Decimal(10**15)
"""The same of money: what is larger has too many digits to be added to what is small."""


class Charge(NamedTuple):
    """What is set aside for one request.

    Not attrs: one is made for each request.

    Attributes:
        key: The public part of the key.
        day: On which it counts, as ``2026-11-23`` (UTC).
        model: As ``provider:name``.
        input_tokens, output_tokens: At most so many, as far as is known.
        cents: At most so much; ``None`` where that is not known.
    """

    key: str
    day: str
    model: str
    input_tokens: int
    output_tokens: int
    cents: Decimal | None


class Used(NamedTuple):
    """What a request has used that was sent; ``None`` where nobody knows."""

    input_tokens: int | None
    output_tokens: int | None
    cents: Decimal | None


UNKNOWN: Final = Used(None, None, None)


class KeySpending(NamedTuple):
    """What requests have used, and what others perhaps have, at most.

    Attributes:
        requests: Whose use is known, at least in part.
        perhaps_requests: Which were sent, or perhaps sent, and of which no more is known: the
            process was killed, or the vendor did not say.
        perhaps_cents: At most so much besides.
        unpriced: Requests whose price nobody knows. Not nothing: it is in no sum.
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
    """Adds what was used to what was used."""
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


def add_cents(one: Decimal, other: Decimal) -> Decimal:
    """Adds amounts of money; nothing is rounded."""
    return _EXACT.add(one, other)


def settle(charge: Charge, used: Used) -> KeySpending:
    """Says what counts of a request that was sent: what it used, else what was set aside."""
    is_known = used != UNKNOWN
    cents = charge.cents if used.cents is None else None
    return KeySpending(
        requests=int(is_known),
        input_tokens=used.input_tokens or 0,
        output_tokens=used.output_tokens or 0,
        cents=used.cents or NOTHING,
        perhaps_requests=int(not is_known),
        perhaps_input_tokens=charge.input_tokens if used.input_tokens is None else 0,
        perhaps_output_tokens=charge.output_tokens if used.output_tokens is None else 0,
        perhaps_cents=cents or NOTHING,
        unpriced=int(used.cents is None and charge.cents is None),
    )


def bound_tokens(count: int) -> int:
    """Returns a count of tokens that can be summed up."""
    return min(max(count, 0), MOST_TOKENS)


def bound_cents(cents: Decimal | None) -> Decimal | None:
    """Returns an amount of money that can be summed up; ``None`` stays."""
    return None if cents is None else min(max(cents, NOTHING), MOST_CENTS)


@lru_cache(4096)
def clean_model(address: str) -> str:
    """Returns a model's address as one word of a line: clients may write anything into it."""
    shown = "".join(letter if letter.isprintable() else "\ufffd" for letter in address)
    return shown[:_MODEL_CHARACTERS] or "?"
