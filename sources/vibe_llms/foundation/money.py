"""Amounts of money as text."""

from __future__ import annotations

from decimal import Decimal


def write_dollars(amount: Decimal | float) -> str:
    """Format US dollars: in cents from one dollar on, below with three significant digits.

    So a small amount is never shown as nothing: ``$0.005``, ``$0.50``, ``$1,234.50``.
    """
    exact = Decimal(str(amount))
    if abs(exact) >= Decimal("0.9995"):  # three digits of less could be a whole dollar
        return f"${exact:,.2f}"
    whole, _, digits = f"{Decimal(f'{exact:.2e}'):f}".partition(".")
    return f"${whole}.{digits.rstrip('0').ljust(2, '0')}"
