"""Amounts of money as text."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.foundation.money import write_dollars


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (0, "$0.00"),
        (Decimal("0.005"), "$0.005"),
        (0.0000045, "$0.0000045"),
        (Decimal("0.0123456"), "$0.0123"),
        (0.1, "$0.10"),
        (0.125, "$0.125"),
        (0.9996, "$1.00"),
        (Decimal(1), "$1.00"),
        (1234.5, "$1,234.50"),
    ],
)
def test_small_amounts_keep_their_digits(amount: Decimal | float, shown: str) -> None:
    """At least the cents are shown, and no amount is shown as nothing."""
    assert write_dollars(amount) == shown


@given(st.decimals(min_value="0.000000001", max_value="1000000", places=9))
def test_the_shown_amount_is_near(amount: Decimal) -> None:
    """It differs by at most half a cent, and by at most half a hundredth."""
    shown = Decimal(write_dollars(amount).removeprefix("$").replace(",", ""))
    assert abs(shown - amount) <= min(Decimal("0.005"), amount / 200)
