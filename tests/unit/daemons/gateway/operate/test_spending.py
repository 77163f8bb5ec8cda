"""Spending is summed exactly by key, model and day, and long lists end with all others."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.operate.spending import compose_spending, list_days, sum_by_key
from vibe_llms.daemons.keys.charges import KeySpending
from vibe_llms.daemons.keys.ledger import KeyAccount, SpendingBucket

DAYS = list_days(date(2026, 3, 2), 3)


def test_days_are_the_last_ones() -> None:
    assert DAYS == ("2026-02-28", "2026-03-01", "2026-03-02")


SPENT = st.dictionaries(
    st.builds(
        SpendingBucket,
        st.integers(0, 70).map("key{}".format),
        st.sampled_from([*DAYS, "2025-01-01"]),
        st.sampled_from(["a:m", "b:n"]),
    ),
    st.builds(
        KeySpending,
        requests=st.integers(0, 9),
        cents=st.decimals(0, 999, places=4),
        perhaps_requests=st.integers(0, 9),
        perhaps_cents=st.decimals(0, 999, places=4),
    ),
    max_size=90,
)


@given(SPENT, SPENT)
def test_each_list_adds_up_to_the_total(
    spent: dict[SpendingBucket, KeySpending], under_way: dict[SpendingBucket, KeySpending]
) -> None:
    account = KeyAccount(spent, under_way)
    report = compose_spending(account, DAYS, {"key1": "ada"})
    shown = [
        spending
        for part in (spent, under_way)
        for bucket, spending in part.items()
        if bucket.day in DAYS
    ]
    assert Decimal(report.total.cents) == sum(each.cents for each in shown)
    for rows in (report.keys, report.models, (report.total,)):
        assert sum(Decimal(each.cents) for each in rows) == Decimal(report.total.cents)
        assert sum(each.perhaps_requests for each in rows) == report.total.perhaps_requests
        for row in rows:
            assert sum(map(Decimal, row.days)) == Decimal(row.cents)
    assert len(report.keys) <= 51
    listed = [Decimal(each.cents) for each in report.keys if each.id]
    assert listed == sorted(listed, reverse=True)
    assert all(each.name == "ada" for each in report.keys if each.id == "key1")
    sums = sum_by_key(account)
    assert sum(cents for cents, _ in sums.values()) == sum(
        each.cents for part in (spent, under_way) for each in part.values()
    )


def test_one_key_is_selected() -> None:
    spent = {
        SpendingBucket(key, DAYS[0], "a:m"): KeySpending(requests=1, cents=Decimal(cents))
        for key, cents in (("one", 3), ("two", 5))
    }
    report = compose_spending(KeyAccount(spent, {}), DAYS, {}, "two")
    assert [each.id for each in report.keys] == ["two"]
    assert report.total.days == ("5", "0", "0")
