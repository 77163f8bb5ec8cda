"""Budget of a batch: reserve the maximum cost of an input before it is sent, then correct it.

Reservations cover the inputs in progress, so a batch never exceeds its cap. If a worker dies, the
reservation of its request stays, since the request may have been billed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from vibe_llms.batches.databases import BatchDatabase
from vibe_llms.batches.item_lines import decode_item
from vibe_llms.batches.items import BUCKETS, BatchItem, read_buckets
from vibe_llms.exceptions import LimitError, ParseError, ProviderError
from vibe_llms.foundation.coalescing import Coalescer
from vibe_llms.foundation.money import write_dollars
from vibe_llms.instruments.estimates import AnyEstimator, count_money, read_money
from vibe_llms.messages.canisters import Usage
from vibe_llms.telemetry.prices import Price, price_usage

_MAX_TOKENS: Final = 1 << 36
_MAX_COST: Final = 1 << 43
"""Upper bounds of the tokens and the cost that one answer counts as; 2⁴³ billionths of a dollar are
$8,796. The sum of a million answers fits into a column."""

_HOUR_SECONDS: Final = 3600


class ItemAccount(NamedTuple):
    """Tokens and cost of an item; ``unpriced`` is 1 if its full price is unknown."""

    input_tokens: int
    output_tokens: int
    cost: int
    unpriced: int

    def replace(self, reserved: int) -> int:
        """Return the change of the spent sum when the cost replaces a reservation.

        If the price is unknown, the reservation stays: the item may have cost that much.
        """
        change = self.cost - reserved
        return max(change, 0) if self.unpriced else change


def account_item(item: BatchItem[Any]) -> ItemAccount:
    """Return the tokens and cost of an item."""
    origin = item.origin
    if origin is None:
        return ItemAccount(0, 0, 0, 0)
    if origin.usage is None:
        return ItemAccount(0, 0, 0, 1)
    hour = int(time.time() // _HOUR_SECONDS)  # prices change daily, and workers run for a long time
    return _account_counts(hour, origin.provider, origin.model, *read_buckets(origin.usage))


@lru_cache(4096)
def _account_counts(hour: int, provider: str, model: str, *counts: int | None) -> ItemAccount:
    counted: dict[str, Any] = dict(zip(BUCKETS, counts, strict=True))
    usage = Usage(**counted)
    tokens = (
        min(usage.total_input_tokens or 0, _MAX_TOKENS),
        min(usage.total_output_tokens or 0, _MAX_TOKENS),
    )
    price = price_usage(usage, provider=provider, model=model)
    if not isinstance(price, Price):
        return ItemAccount(*tokens, 0, 1)
    cost = min(count_money(price.amount), _MAX_COST)
    return ItemAccount(*tokens, cost, int(not price.is_complete))


class BudgetLedger(Protocol):
    """Cap of a batch, with the sum of its spending and reservations.

    Attributes:
        is_in_journal: Whether the journal corrects the sum with each result.
    """

    is_in_journal: bool

    def reserve(self, amount: int) -> asyncio.Future[bool]:
        """Begin to reserve an amount; the result tells whether enough was left."""

    def correct(self, change: int) -> asyncio.Future[bool]:
        """Begin to change the sum."""

    async def account(self, account: ItemAccount, replaced: int, *, is_kept: bool = False) -> None:
        """Replace a reservation by the cost of an item. Raises StoreError."""

    def explain(self) -> LimitError:
        """Return the error of a batch that has reached its cap."""


class MemoryLedger:
    """Ledger of a batch that this process executes alone.

    Attributes:
        cap: Maximum cost of the whole batch.
        cost: Cost of its items so far.
    """

    is_in_journal = False

    def __init__(self, cap: Decimal) -> None:
        self.cap = count_money(cap)
        self.cost = self._committed = 0

    def count_stored(self, lines: Iterable[bytes]) -> None:
        """Add the cost of earlier runs, from the lines of their journal."""
        self.cost += sum(account_item(decode_item(each)).cost for each in lines)
        self._committed = self.cost

    def reserve(self, amount: int) -> asyncio.Future[bool]:
        """Reserve an amount."""
        fits = self._committed + amount <= self.cap
        change = amount if fits else 0
        return self.correct(change, fits)

    def correct(self, change: int, result: bool = True) -> asyncio.Future[bool]:
        """Change the sum."""
        self._committed += change
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        done.set_result(result)
        return done

    async def account(self, account: ItemAccount, replaced: int, *, is_kept: bool = False) -> None:
        """Replace a reservation by the cost of an item."""
        self.cost += account.cost
        self.correct(account.replace(replaced))

    def explain(self) -> LimitError:
        """Return the error of a batch that has reached its cap."""
        cost, cap = read_money(self.cost), read_money(self.cap)
        return LimitError(
            limit="cap",
            value=float(cap),
            detail=f"The batch has cost {write_dollars(cost)}; the next request could exceed its "
            f"cap of {write_dollars(cap)}.",
            remedy="Raise the cap to continue, if the batch has a journal.",
        )


class RowLedger:
    """Ledger of a batch that workers share: two columns of its row.

    Args:
        database: Database with the batch.
        batch: Its id.
    """

    is_in_journal = True

    def __init__(self, database: BatchDatabase, batch: str) -> None:
        self._database = database
        self._batch = batch
        self._coalescer: Coalescer[int, bool] = Coalescer(self._change)

    def reserve(self, amount: int) -> asyncio.Future[bool]:
        """Begin to reserve an amount."""
        return asyncio.ensure_future(self._coalescer.ask(amount))

    correct = reserve

    async def account(self, account: ItemAccount, replaced: int, *, is_kept: bool = False) -> None:
        """Replace a reservation by the cost of an item that is not journaled."""
        if change := -replaced if is_kept else account.replace(replaced):
            await self.correct(change)

    def explain(self) -> LimitError:
        """Return the error of a batch that has reached its cap; the batch's row has details."""
        return LimitError(limit="cap", detail=f"Batch {self._batch} has reached its cap.")

    def _change(self, amounts: Sequence[int]) -> list[bool]:
        with self._database.transact() as transaction:
            rows = transaction.fetch(
                "UPDATE vibe_batches SET committed = committed WHERE id = ?"
                " RETURNING cap, committed",
                self._batch,
            )
            if not rows:
                return [False] * len(amounts)
            cap, committed = rows[0]
            granted = []
            for amount in amounts:
                fits = cap is None or amount <= 0 or committed + amount <= cap
                granted.append(fits)
                committed += amount if fits else 0
            transaction.change(
                "UPDATE vibe_batches SET committed = ? WHERE id = ?", committed, self._batch
            )
        return granted


class BatchBudget:
    """Remaining budget of a batch, for all of its inputs in this process.

    Args:
        ledger: Ledger with the sums.
        estimator: Estimates the maximum cost of an input, each time it is sent.
    """

    def __init__(self, ledger: BudgetLedger, estimator: AnyEstimator) -> None:
        self._ledger = ledger
        self._estimator = estimator
        self._in_progress = 0
        self._settled = 0
        self._waiting: list[asyncio.Future[None]] = []

    async def reserve(self, stored_input: str) -> int | None:
        """Reserve the maximum cost of an input; return ``None`` if less is left.

        Args:
            stored_input: The input in its stored form.

        Raises:
            ConfigurationError: The price of the model or the size of a URL's content is unknown.
            StoreError: The ledger is unreachable.
        """
        amount = self._estimator.estimate(stored_input) * self._estimator.tries
        return amount if await self.acquire(amount) else None

    async def acquire(self, amount: int) -> bool:
        """Reserve an amount until :meth:`settle`; return whether enough was left.

        If not, wait for inputs in progress in this process: they may have cost less.
        """
        while amount:
            settled = self._settled
            granted = self._ledger.reserve(amount)
            try:
                was_granted = await asyncio.shield(granted)
            except asyncio.CancelledError:  # the ledger reserves it anyway
                granted.add_done_callback(lambda reservation: self._give_back(reservation, amount))
                raise
            if was_granted:
                break
            if settled != self._settled:
                continue
            if not self._in_progress:
                return False
            change = asyncio.get_running_loop().create_future()
            self._waiting.append(change)
            await change
        self._in_progress += 1
        return True

    async def account(self, item: BatchItem[Any], reserved: int, *, is_kept: bool) -> None:
        """Replace a reservation by the cost of an item that is retried. Raises StoreError.

        Args:
            is_kept: Whether the run of the input continues; a run reports its total cost at the
                end.
        """
        replaced = self.measure_replaced(item, reserved)
        await self._ledger.account(account_item(item), replaced, is_kept=is_kept)

    async def account_journaled(self, item: BatchItem[Any], replaced: int) -> None:
        """Replace a reservation by the cost of an item whose result is journaled."""
        if not self._ledger.is_in_journal:
            await self._ledger.account(account_item(item), replaced)

    def refuse(self) -> NoReturn:
        """Raise the LimitError of a batch that has reached its cap."""
        raise self._ledger.explain()

    def _give_back(self, reservation: asyncio.Future[bool], amount: int) -> None:
        """Return the reservation of a task that was cancelled."""
        if not reservation.cancelled() and reservation.exception() is None and reservation.result():
            correction = self._ledger.correct(-amount)
            correction.add_done_callback(_ignore_error)  # otherwise it stays reserved
            self._wake_waiting()

    def settle(self) -> None:
        """Record that an input has ended and that its cost is written."""
        self._in_progress -= 1
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        self._settled += 1
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def correct(self, change: int) -> None:
        """Change the sum of spending and reservations. Raises StoreError."""
        if change:
            await self._ledger.correct(change)

    def measure_replaced(self, item: BatchItem[Any], reserved: int) -> int:
        """Return the part of a reservation that the cost of its item replaces.

        A request that the vendor refused is not billed, and an answer that did not fit the schema
        is accounted for. The cost of an interrupted request is unknown, and so is the reason for a
        resend. A run reports its usage, even if it failed.
        """
        error = item.error
        is_known = error is None or isinstance(error, (ProviderError, ParseError))
        if self._estimator.is_run and item.origin is not None:
            is_known = True
        unknown_attempts = item.sent - 1 if is_known else item.sent
        reserved_per_attempt = reserved // self._estimator.tries
        return reserved - reserved_per_attempt * max(0, unknown_attempts)


def _ignore_error(correction: asyncio.Future[bool]) -> None:
    if not correction.cancelled():
        correction.exception()
