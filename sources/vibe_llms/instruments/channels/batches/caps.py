"""The cap of a batch that this process performs by itself, without a database.

What is put down before an input is asked, and what stays of that, is as where workers share a
batch; what earlier runs have cost is read from the journal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Generator, Iterable
from decimal import Decimal
from typing import Any, TypeVar

from vibe_llms.exceptions import LimitError
from vibe_llms.instruments.channels.batches.items import BatchItem
from vibe_llms.instruments.channels.batches.lines import decode_item
from vibe_llms.instruments.channels.batches.purses import AnyEstimator, count_known
from vibe_llms.instruments.channels.batches.row_journals import account_item
from vibe_llms.instruments.channels.batches.tables import count_money, read_money

T = TypeVar("T")


class Cap:
    """What one run of a batch may cost yet.

    Args:
        cap: What the whole batch may cost, in dollars.
        estimator: Says what an input costs at most, each time it is sent.

    Attributes:
        is_reached: Whether an input was not asked, as it might have cost more than was left.
    """

    def __init__(self, cap: Decimal, estimator: AnyEstimator) -> None:
        self._cap = count_money(cap)
        self._estimator = estimator
        self._committed = self._cost = 0
        self._out = 0
        self._waiting: list[asyncio.Future[None]] = []
        self.is_reached = False

    def count_stored(self, lines: Iterable[bytes]) -> None:
        """Counts what earlier runs have cost, by the lines of their journal."""
        costs = (account_item(decode_item(each)).cost for each in lines)
        self._cost += sum(costs)
        self._committed = self._cost

    async def ask(
        self, said: str, perform: Callable[[], Awaitable[BatchItem[Any]]]
    ) -> BatchItem[Any] | None:
        """Has an input asked; returns ``None`` where the cap does not bear it.

        Args:
            said: The input, as it would be kept.

        Raises:
            ConfigurationError: Nobody knows what the model costs, or how much is behind a URL.
        """
        amount = self._estimator.estimate(said) * self._estimator.tries
        if self.is_reached or not await self._acquire(amount):
            self.is_reached = True
            return None
        item: BatchItem[Any] | None = None
        try:
            item = await perform()
        finally:
            self._settle(amount, item)
        return item

    async def _acquire(self, amount: int) -> bool:
        """Puts an amount down; where there is not as much, what is under way is waited for."""
        while self._committed + amount > self._cap:
            if not self._out or self.is_reached:
                return False
            change = asyncio.get_running_loop().create_future()
            self._waiting.append(change)
            await change
        self._committed += amount
        self._out += 1
        return True

    def _settle(self, amount: int, item: BatchItem[Any] | None) -> None:
        """Replaces what was put down by what it has cost, where that is known."""
        self._out -= 1
        if item is not None:
            account = account_item(item)
            change = account.cost - count_known(item, amount, self._estimator)
            self._committed += max(change, 0) if account.unpriced else change
            self._cost += account.cost
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    def explain(self) -> LimitError:
        """Says why the batch has ended before all of it was done."""
        cost, cap = read_money(self._cost), read_money(self._cap)
        return LimitError(
            limit="cap",
            value=float(cap),
            detail=f"The batch has cost ${cost:,.4f}, and what it asks next might cost more than "
            f"its cap of ${cap:,.4f} leaves.",
            remedy="Give it a higher cap, and it goes on, where it has a journal.",
        )

    def limit(
        self, inputs: Iterable[T] | AsyncIterable[T], has_stored: Callable[[], bool]
    ) -> Iterable[T] | AsyncIterable[T]:
        """Yields inputs until it is reached.

        Args:
            has_stored: Tells whether the journal has results yet that come behind.
        """
        if isinstance(inputs, AsyncIterable):
            return self._limit_meanwhile(inputs, has_stored)
        return self._limit(inputs, has_stored)

    def _limit(self, inputs: Iterable[T], has_stored: Callable[[], bool]) -> Generator[T]:
        for each in inputs:
            if self.is_reached and not has_stored():
                return
            yield each

    async def _limit_meanwhile(
        self, inputs: AsyncIterable[T], has_stored: Callable[[], bool]
    ) -> AsyncGenerator[T]:
        source = aiter(inputs)
        try:
            async for each in source:
                if self.is_reached and not has_stored():
                    return
                yield each
        finally:
            if isinstance(source, AsyncGenerator):
                await source.aclose()
