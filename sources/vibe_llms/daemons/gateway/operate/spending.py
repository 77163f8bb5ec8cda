"""Spending of the last days, by key and by model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from vibe_llms.daemons.gateway.operate.entries import clean
from vibe_llms.daemons.keys.charges import KeySpending, add_cents, add_spending
from vibe_llms.foundation.attrs_classes import frozen

if TYPE_CHECKING:
    from vibe_llms.daemons.keys.ledger import KeyAccount, SpendingBucket

MOST_DAYS: Final = 92
_MOST_ROWS: Final = 50
"""Most keys and models that are listed; the others are one row."""


@frozen(kw_only=True)
class SpendingRow:
    """Spending of a key or a model. Amounts are exact decimals of US cents.

    Attributes:
        id: Public part of the key, or the model; empty for all others together.
        name: Name of the key, or the model.
        requests, input_tokens, output_tokens: Sums of settled requests.
        cents: Their cost.
        perhaps_requests, perhaps_cents: Requests that the vendor may have billed, and most of
            their cost: of ended ones with an unknown outcome, and of those under way.
        unpriced: Requests without a known price, which is in no sum.
        days: Cents by day, in the order of the answer's days.
    """

    id: str
    name: str
    requests: int
    input_tokens: int
    output_tokens: int
    cents: str
    perhaps_requests: int
    perhaps_cents: str
    unpriced: int
    days: tuple[str, ...]


@frozen(kw_only=True)
class SpendingReport:
    """Spending of the last days (UTC).

    Attributes:
        days: The days, oldest first, as ``2026-11-23``.
        total: The sum of all keys.
        keys, models: The sums by key and by model, the most expensive first.
    """

    days: tuple[str, ...]
    total: SpendingRow
    keys: tuple[SpendingRow, ...]
    models: tuple[SpendingRow, ...]


def list_days(today: date, count: int) -> tuple[str, ...]:
    """Return the last days, oldest first."""
    return tuple((today - timedelta(days=each)).isoformat() for each in reversed(range(count)))


def compose_spending(
    account: KeyAccount, days: tuple[str, ...], names: Mapping[str, str], key: str = ""
) -> SpendingReport:
    """Return sums of an account.

    Args:
        days: The days, oldest first.
        names: Names of keys, by their public parts.
        key: Public part of the only key to include; by default all are.
    """
    shown = frozenset(days)
    buckets = [
        (bucket, spending)
        for part in (account.spent, account.under_way)
        for bucket, spending in part.items()
        if bucket.day in shown and key in ("", bucket.key)
    ]
    return SpendingReport(
        days=days,
        total=_sum("", "", buckets, days),
        keys=_group(buckets, days, lambda bucket: bucket.key, names),
        models=_group(buckets, days, lambda bucket: bucket.model, {}),
    )


def sum_by_key(account: KeyAccount) -> dict[str, tuple[Decimal, Decimal]]:
    """Return the cents of each key: those that are settled, and those that may be billed."""
    sums: dict[str, tuple[Decimal, Decimal]] = {}
    for part in (account.spent, account.under_way):
        for bucket, spending in part.items():
            cents, perhaps = sums.get(bucket.key, (Decimal(0), Decimal(0)))
            cents = add_cents(cents, spending.cents)
            sums[bucket.key] = cents, add_cents(perhaps, spending.perhaps_cents)
    return sums


_Buckets = list[tuple["SpendingBucket", KeySpending]]


def _group(
    buckets: _Buckets,
    days: tuple[str, ...],
    choose: Callable[[SpendingBucket], str],
    names: Mapping[str, str],
) -> tuple[SpendingRow, ...]:
    groups: dict[str, _Buckets] = {}
    for bucket, spending in buckets:
        groups.setdefault(choose(bucket), []).append((bucket, spending))
    totals = {name: _add(spending for _, spending in group) for name, group in groups.items()}
    ordered = sorted(
        groups,
        key=lambda name: (-totals[name].cents, -totals[name].perhaps_cents, name),
    )
    rows = [_sum(each, names.get(each, each), groups[each], days) for each in ordered[:_MOST_ROWS]]
    if rest := [pair for each in ordered[_MOST_ROWS:] for pair in groups[each]]:
        rows.append(_sum("", "others", rest, days))
    return tuple(rows)


def _sum(identity: str, name: str, buckets: _Buckets, days: tuple[str, ...]) -> SpendingRow:
    total = _add(spending for _, spending in buckets)
    by_day = dict.fromkeys(days, Decimal(0))
    for bucket, spending in buckets:
        by_day[bucket.day] = add_cents(by_day[bucket.day], spending.cents)
    return SpendingRow(
        id=clean(identity),  # clients choose the names of models
        name=clean(name),
        requests=total.requests,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        cents=f"{total.cents:f}",
        perhaps_requests=total.perhaps_requests,
        perhaps_cents=f"{total.perhaps_cents:f}",
        unpriced=total.unpriced,
        days=tuple(f"{each:f}" for each in by_day.values()),
    )


def _add(spendings: Iterable[KeySpending]) -> KeySpending:
    total = KeySpending()
    for each in spendings:
        total = add_spending(total, each)
    return total
