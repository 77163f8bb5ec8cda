"""One worker's work at one chunk: each of its inputs that has no result yet is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from vibe_llms.batches.budgets import BatchBudget
from vibe_llms.batches.databases import BatchDatabase
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.making import Items
from vibe_llms.batches.orders import BatchOrder
from vibe_llms.batches.places import Places
from vibe_llms.batches.row_chunks import (
    InputRow,
    Taken,
    begin_alone,
    is_answered,
    read_answered,
)
from vibe_llms.batches.row_journals import RowJournal
from vibe_llms.batches.runs import Due, attempt, rest
from vibe_llms.exceptions import (
    ConverseError,
    Stage,
    StoreError,
    StoreUnavailableError,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.portal import finish

_LOGGER = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""How often a chunk is taken until its inputs are asked one by one, as one may kill workers."""

ALONE: Final = 2
"""How often an input is asked by itself until it is set aside."""

_PAUSE_SECONDS: Final = 1.0


@define(kw_only=True)
class Work:
    """What chunks of a batch share in this process."""

    order: BatchOrder
    items: Items
    places: Places
    budget: BatchBudget | None = None
    users: int = 0


class ChunkRun:
    """One worker's work at one chunk."""

    def __init__(
        self,
        database: BatchDatabase,
        taken: Taken,
        work: Work,
        is_leaving: Callable[[], bool],
    ) -> None:
        self._database = database
        self._taken = taken
        self._work = work
        self._is_leaving = is_leaving
        self._budget = None if taken.cap is None else work.budget
        self._is_careful = taken.attempts > ATTEMPTS
        # What an answer has cost is known when it is kept, and who is capped waits for that. Where
        # an input may end this process, those before it must not be lost with it, and blamed.
        self._waits = taken.cap is not None or self._is_careful
        self._journal = RowJournal(
            database,
            taken,
            settings=work.order.settings,
            room=0 if self._waits else work.order.concurrency,
            is_leaving=is_leaving,
        )
        self._kept: asyncio.Future[Sequence[None]] | None = None
        self._held: list[InputRow] = []
        self._may_hold = False
        self._failure: BaseException | None = None
        self._withheld: StoreError | None = None
        self.is_capped = False

    @property
    def is_done(self) -> bool:
        """Whether all of the chunk is done, and written."""
        return self._journal.is_done

    @property
    def is_lost(self) -> bool:
        """Whether another worker has taken the chunk."""
        return self._journal.is_lost

    @property
    def must_stop(self) -> bool:
        """Whether nothing more is begun."""
        return bool(
            self._journal.must_stop or self.is_capped or self._failure or self._is_leaving()
        )

    async def perform(self) -> None:
        """Asks for all that has no result yet."""
        rows: Sequence[InputRow] = self._taken.rows
        retries = self._work.order.retries
        if self._work.items.keeps and self._taken.epoch > 1:
            await self._forget_left()
        try:
            for turn in range(retries + 1):
                self._held, self._may_hold = [], turn < retries
                await self._ask_all(rows)
                rows = self._held
                if not rows or self.must_stop:
                    break
                await rest(turn)  # whoever leaves meanwhile cancels it
        finally:
            await self._journal.finish()
        if failure := self._failure or self._withheld:
            raise failure

    async def _forget_left(self) -> None:
        """Lets go of what was kept of inputs that have a result, by who had the chunk before."""
        answered = await finish(asyncio.to_thread(read_answered, self._database, self._taken))
        for row in answered:
            await self._work.items.forget(row, is_mine=False)

    async def _ask_all(self, rows: Sequence[InputRow]) -> None:
        most = 1 if self._is_careful else len(rows)
        await self._work.places.perform(self._take(rows), self._ask, most)

    def _take(self, rows: Sequence[InputRow]) -> Iterator[InputRow]:
        """Yields one input after the other, until there are no more, or nobody wants them."""
        for row in rows:
            # Checked again: it may have waited for a place.
            if self.must_stop:
                return
            yield row

    async def _ask(self, row: InputRow) -> None:
        if self._is_careful and not await self._begin(row):
            return
        reserved = await self._reserve(row) if self._budget is not None else 0
        if reserved is None:
            return
        try:
            due = Due(row.number, row.name, row)
            if not self._work.items.keeps:
                await self._keep(row, await attempt(self._work.items.put, due), reserved)
            elif (item := await self._put_kept(due)) is not None:
                await self._keep(row, item, reserved)
            elif self._budget is not None:  # the worker that ends its run accounts for all of it
                with suppress(StoreError):
                    await self._budget.correct(-reserved)
        finally:
            if self._budget is not None:
                self._budget.settle()

    async def _put_kept(self, due: Due) -> BatchItem[Any] | None:
        """Returns what comes of an input; ``None`` where another worker has it, or had it."""
        put = partial(self._work.items.put, is_answered=self._is_answered)
        try:
            return await attempt(put, due, passing=(StoreError,))
        except StoreError as error:
            if self._withheld is None:
                _LOGGER.warning("an input waits: %s", error)
            self._withheld = error
            if isinstance(error, StoreUnavailableError):  # that of the others is no nearer
                self._failure = error
            return None

    def _is_answered(self, row: InputRow) -> bool:
        return is_answered(self._database, self._taken, row.number)

    async def _keep(self, row: InputRow, item: BatchItem[Any], reserved: int) -> None:
        error, budget = item.error, self._budget
        known = 0 if budget is None else budget.measure_known(item, reserved)
        if self._may_hold and error is not None and error.is_retryable:
            self._held.append(row)
            # Answers before it were billed, and what they have cost is written nowhere else, but
            # in a run.
            if budget is not None and (item.origin is None or self._work.items.keeps):
                with suppress(StoreError):  # then it stays reserved
                    await budget.correct(-known)
            return
        if reserved:
            self._journal.reserve(row.number, known)
        await self._write(row, item)

    async def _write(self, row: InputRow, item: BatchItem[Any]) -> None:
        kept = self._journal.put(item, row.digest)
        if kept is not self._kept:  # the first of those that are written together
            self._kept = kept
            kept.add_done_callback(self._note)
        # Nobody is told of it before it is kept; but what waits for the database has a bound, and
        # what it has cost is known only then.
        items = self._work.items
        is_waited_for = self._waits or items.keeps
        if is_waited_for or self._journal.backlog >= self._work.order.concurrency:
            await asyncio.shield(kept)
        if items.keeps:
            await items.forget(row)

    def _note(self, kept: asyncio.Future[Sequence[None]]) -> None:
        """Takes down that a result could not be kept."""
        if not kept.cancelled() and (error := kept.exception()) is not None:
            self._failure = error

    async def _reserve(self, row: InputRow) -> int | None:
        """Reserve the cost of an input; return ``None`` where the cap does not bear it."""
        assert self._budget is not None
        while not self.must_stop:
            try:
                reserved = await self._budget.reserve(row.input)
            except StoreError as error:  # what is under way was paid for, and is not broken off
                _LOGGER.warning("the budget of a batch is out of reach: %s", error)
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self.is_capped = reserved is None
                return reserved
        return None

    async def _begin(self, row: InputRow) -> bool:
        """Begins an input that is asked by itself; sets one aside that was, too often."""
        if row.begun < ALONE:
            batch, chunk = self._taken.batch, self._taken.chunk
            await finish(asyncio.to_thread(begin_alone, self._database, batch, chunk, row.number))
            return True
        error = ConverseError(
            detail=f"It was set aside: it was asked by itself {row.begun} times, and its worker "
            "came to an end each time.",
            remedy="Ask for it again, where it was not the input that ended them.",
            stage=Stage.EXECUTE,
        )
        item: BatchItem[Any] = BatchItem(index=row.number, id=row.name, error=error)
        await self._write(row, item)
        return False
