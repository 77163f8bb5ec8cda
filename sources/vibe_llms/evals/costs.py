"""Costs of a run: forecast before, and budget during it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

import attrs

from vibe_llms.batches.items import BatchItem
from vibe_llms.exceptions import ProviderError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.instruments.estimates import count_money, read_money
from vibe_llms.telemetry.prices import OWN_MACHINES, Price, price_usage

EXPECTED_OUTPUT_TOKENS: Final = 500
"""Tokens that a forecast expects of an answer or a verdict, unless ``max_tokens`` is lower."""


@frozen(kw_only=True)
class EvalForecast:
    """Forecast of a run.

    Attributes:
        trials: Number of trials.
        cached: Number of trials whose answers are cached.
        requests: Number of requests to models, at least; runs with tools and tasks make more.
        dollars: Approximate cost, that of the judges included, as far as prices are known.
        judging: Part of it that is the cost of judges.
        unpriced: Models without a price, and tasks whose cost is not estimated.
        dear_subjects: Subjects whose answer may cost more than the cap, so that it is not asked
            for, with its maximum cost.
        dear_judges: Judges whose verdict may cost more than the cap, with its maximum cost.
    """

    trials: int
    cached: int = 0
    requests: int = 0
    dollars: Decimal = Decimal(0)
    judging: Decimal = Decimal(0)
    unpriced: tuple[str, ...] = ()
    dear_subjects: Mapping[str, Decimal] = attrs.field(factory=dict)
    dear_judges: Mapping[str, Decimal] = attrs.field(factory=dict)


def price_item(item: BatchItem[Any]) -> Decimal | None:
    """Return the cost of an item in dollars; ``None`` if it is unknown."""
    origin, error = item.origin, item.error
    if origin is None:
        # A request that the vendor refused is not billed; an interrupted one may be.
        is_unbilled = not item.sent or error is None or isinstance(error, ProviderError)
        return Decimal(0) if is_unbilled else None
    if origin.provider in OWN_MACHINES:
        return Decimal(0)
    price = price_usage(origin.usage, provider=origin.provider, model=origin.model, tier=item.tier)
    return price.amount if isinstance(price, Price) and price.is_complete else None


class EvalBudget:
    """Budget of a run: the maximum cost of a request is reserved before it is sent.

    Args:
        cap: Maximum cost in dollars; ``None`` for no limit.

    Attributes:
        spent: Known cost so far, in dollars.
        unpriced: Number of requests whose cost is unknown.
        is_exhausted: Whether a request was not sent because it might have cost too much.
    """

    def __init__(self, cap: Decimal | None) -> None:
        self.cap = cap
        self.spent = Decimal(0)
        self.unpriced = 0
        self.is_exhausted = False
        self._committed = 0
        self._in_progress = 0
        self._settled = asyncio.Condition()

    @property
    def left(self) -> Decimal | None:
        """Rest of the budget in dollars; ``None`` without a limit."""
        return None if self.cap is None else self.cap - read_money(self._committed)

    async def reserve(self, amount: int, *, waits: bool = True) -> bool:
        """Reserve an amount, in billionths of a dollar; return whether enough is left.

        Args:
            waits: Whether to wait for requests in progress, which may cost less than was reserved.
        """
        if self.cap is None:
            return True
        limit = count_money(self.cap)
        async with self._settled:
            while self._committed + amount > limit and not self.is_exhausted:
                if not (waits and self._in_progress):
                    self.is_exhausted = True
                    self._settled.notify_all()
                    break
                await self._settled.wait()
            # Free requests are always possible.
            if self._committed + amount > limit and amount:
                return False
            self._committed += amount
            self._in_progress += 1
            return True

    def add(self, cost: Decimal | None) -> None:
        """Count a cost; ``None`` if it is unknown."""
        if cost is None:
            self.unpriced += 1
        else:
            self.spent += cost

    async def settle(self, amount: int, cost: Decimal | None, *, unknown: int = 0) -> None:
        """Replace a reservation by the cost of its request.

        Args:
            amount: Reserved amount, in billionths of a dollar.
            cost: Cost; ``None`` if it is unknown, so that the reservation stays.
            unknown: Part of the reservation that stays, for attempts of unknown cost.
        """
        self.add(cost)
        if self.cap is None:
            return
        async with self._settled:
            if cost is not None:
                self._committed += count_money(cost) + unknown - amount
            self._in_progress -= 1
            self._settled.notify_all()
