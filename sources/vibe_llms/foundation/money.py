"""Amounts of money as text."""

from __future__ import annotations

from decimal import Decimal


def write_dollars(amount: Decimal | float) -> str:
    """Format US dollars: with two decimals, or with three significant digits below one dollar.

    So a small amount is never shown as zero: ``$0.005``, ``$0.50``, ``$1,234.50``.
    """
    exact = Decimal(str(amount))
    if abs(exact) >= Decimal("0.9995"):  # rounded to three digits, it is at least one dollar
        return f"${exact:,.2f}"
    whole, _, digits = f"{Decimal(f'{exact:.2e}'):f}".partition(".")
    return f"${whole}.{digits.rstrip('0').ljust(2, '0')}"
