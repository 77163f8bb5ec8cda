"""Performing a chunk of a batch: each of its inputs that has no result yet is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final

from vibe_llms.agents.batches.submitting import settle
from vibe_llms.application import Application
from vibe_llms.asynchrony import finish
from vibe_llms.exceptions import ConverseError, ParseError, ProviderError, Stage, StoreError
from vibe_llms.instruments.channels.batches.databases import BatchDatabase
from vibe_llms.instruments.channels.batches.items import BatchItem
from vibe_llms.instruments.channels.batches.orders import BatchOrder, decode_order, read_input
from vibe_llms.instruments.channels.batches.purses import Estimator, Purse
from vibe_llms.instruments.channels.batches.row_chunks import (
    Row,
    Taken,
    begin_alone,
    leave,
    take_up,
)
from vibe_llms.instruments.channels.batches.row_journals import RowJournal
from vibe_llms.instruments.channels.batches.runs import Due, attempt, encode
from vibe_llms.instruments.channels.batches.tables import WORKING, BatchState
from vibe_llms.instruments.channels.batches.work import Ask, ModelWork, Wording
from vibe_llms.instruments.channels.batches.workers import perform_all
from vibe_llms.instruments.inputs import gather_canisters
from vibe_llms.instruments.models import Model
from vibe_llms.messages.codec.errors import encode_error
from vibe_llms.messages.requests import Request, replace_canisters
from vibe_llms.values import define

_LOGGER = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""How often a chunk is taken until its inputs are asked one by one, as one may kill workers."""

ALONE: Final = 2
"""How often an input is asked by itself until it is set aside."""

_BATCHES: Final = 16
"""How many batches are kept ready to be asked for."""

_PAUSE_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 30.0


@define(kw_only=True)
class _Work:
    """What chunks of a batch share in this process."""

    order: BatchOrder
    work: ModelWork
    ask: Ask
    pattern: Request
    purse: Purse
    room: asyncio.Semaphore
    tries: int  # of each request, every one of which may be billed
    estimator: Estimator | None = None
    users: int = 0

    def compose(self, row: Row) -> Request:
        """Makes the request of an input."""
        said = gather_canisters(read_input(row.input))
        return replace_canisters(self.pattern, (*self.pattern.canisters[:-1], *said))


class ChunkPerformer:
    """Performs chunks of batches.

    Args:
        database: Has the rows.
        application: Where models are found.
    """

    def __init__(self, database: BatchDatabase, application: Application) -> None:
        self.database = database
        self._application = application
        self._works: dict[str, _Work] = {}
        self._door = asyncio.Lock()

    async def perform(self, batch: str, chunk: int, is_leaving: Callable[[], bool]) -> None:
        """Performs a chunk, until all of it is done or nobody wants it any more.

        Args:
            is_leaving: Says whether nothing more is to be begun.
        """
        database = self.database
        taken = await _insist(lambda: take_up(database, batch, chunk), is_leaving)
        if taken is None:
            return
        is_capped = False
        try:
            work = await self._access(batch, taken)
            run = _ChunkRun(database, batch, chunk, taken, work, is_leaving)
            work.users += 1
            try:
                await run.perform()
            finally:
                work.users -= 1
            is_capped = run.is_capped
            await self._leave(batch, chunk, taken)
        except (StoreError, asyncio.CancelledError):
            await self._leave(batch, chunk, taken)
            raise
        except ConverseError as error:
            await self._leave(batch, chunk, taken)
            await self._stop(batch, "failed", encode_error(error).decode())
        if is_capped:
            await self._stop(batch, "capped", "")

    async def _leave(self, batch: str, chunk: int, taken: Taken) -> None:
        """Lets others have the chunk.

        Who dies over it does not come here, nor does a mistake of ours: it counts as an attempt.
        """
        with suppress(StoreError):
            await finish(asyncio.to_thread(leave, self.database, batch, chunk, taken.epoch))

    async def close(self) -> None:
        """Frees the models."""
        works, self._works = self._works, {}
        for each in works.values():
            await each.work.close()

    async def _access(self, batch: str, taken: Taken) -> _Work:
        """Returns what a batch's chunks share.

        Raises:
            ConverseError: The model cannot be asked, or not be held to a cap.
        """
        async with self._door:
            work = self._works.get(batch)
            if work is None:
                work = self._works[batch] = await self._prepare(batch, decode_order(taken.order))
                await self._make_room()
            if taken.cap is not None and work.estimator is None:
                model = await self._application.access_model(work.order.model)
                parser = work.work.parser
                work.estimator = Estimator(
                    model.descriptor, work.pattern, 1 if parser is None else parser.attempts
                )
            return work

    async def _prepare(self, batch: str, order: BatchOrder) -> _Work:
        model = Model(order.model, application=self._application)
        work = ModelWork(model, {}, Wording(), order.produce_parser(), is_owner=True)
        ask = await work.prepare()
        purse = Purse(self.database, batch)
        return _Work(
            order=order,
            work=work,
            ask=ask,
            pattern=order.pattern,
            purse=purse,
            room=asyncio.Semaphore(order.concurrency),
            tries=self._application.configuration.limits.attempts,
        )

    async def _make_room(self) -> None:
        idle = [name for name, each in self._works.items() if not each.users]
        for name in idle[: max(0, len(self._works) - _BATCHES)]:
            await self._works.pop(name).work.close()

    async def _stop(self, batch: str, state: BatchState, detail: str) -> None:
        def note() -> None:
            with self.database.transact() as transaction:
                transaction.change(
                    "UPDATE vibe_batches SET state = ?, detail = ? WHERE id = ?"
                    f" AND state IN ({', '.join('?' for _ in WORKING)})",
                    state,
                    detail,
                    batch,
                    *WORKING,
                )

        await finish(asyncio.to_thread(note))


class _ChunkRun:
    """One worker's work at one chunk."""

    def __init__(
        self,
        database: BatchDatabase,
        batch: str,
        chunk: int,
        taken: Taken,
        work: _Work,
        is_leaving: Callable[[], bool],
    ) -> None:
        self._database = database
        self._batch = batch
        self._taken = taken
        self._work = work
        self._is_leaving = is_leaving
        self._journal = RowJournal(database, batch, chunk, taken.epoch, is_leaving=is_leaving)
        self._is_careful = taken.attempts > ATTEMPTS
        self._held: list[Row] = []
        self._may_hold = False
        self._failure: BaseException | None = None
        self.is_capped = False

    @property
    def must_stop(self) -> bool:
        """Whether nothing more is begun."""
        return bool(
            self._journal.must_stop or self.is_capped or self._failure or self._is_leaving()
        )

    async def perform(self) -> None:
        """Asks for all that has no result yet."""
        rows: Sequence[Row] = self._taken.rows
        retries = self._work.order.retries
        try:
            for turn in range(retries + 1):
                self._held, self._may_hold = [], turn < retries
                await self._ask_all(rows)
                rows = self._held
                if not rows or self.must_stop:
                    break
                # Whoever leaves meanwhile cancels it.
                await asyncio.sleep(min(_PAUSE_SECONDS * 2.0**turn, _LONGEST_SECONDS))
        finally:
            await self._journal.finish()
        if self._failure is not None:
            raise self._failure
        await finish(asyncio.to_thread(self._settle))

    async def _ask_all(self, rows: Sequence[Row]) -> None:
        concurrency = 1 if self._is_careful else self._work.order.concurrency
        items: AsyncGenerator[None] = perform_all(
            rows, self._ask, _pass, concurrency=concurrency, ordered=False, window=concurrency
        )
        async with aclosing(items):
            async for _ in items:
                pass

    async def _ask(self, place: int, row: Row) -> None:
        amount: int | None = None
        try:
            # Room first: who has waited for it begins nothing that nobody wants any more.
            async with self._work.room:
                if self.must_stop or (self._is_careful and not await self._begin(row)):
                    return
                amount = await self._put_down(row)
                if amount is None:
                    return
                due = Due(index=row.number, id=row.name, value=None)
                item = await attempt(lambda _: self._work.ask(self._work.compose(row)), due)
            await self._keep(row, item, amount)
        finally:
            if amount:
                self._work.purse.settle()

    async def _keep(self, row: Row, item: BatchItem[Any], amount: int) -> None:
        error = item.error
        # What the vendor itself has refused is not billed, and what did not fit the schema is
        # accounted for; of what broke off nobody knows, nor of what was sent again why it was.
        is_known = error is None or isinstance(error, ProviderError | ParseError)
        known = amount - amount // self._work.tries * (item.sent - is_known)
        if self._may_hold and error is not None and error.is_retryable:
            self._held.append(row)
            # Answers before it were billed, and what they have cost is written nowhere else.
            if known > 0 and item.origin is None:
                with suppress(StoreError):  # then it stays put down
                    await self._work.purse.release(known)
            return
        if amount:
            self._journal.reserve(row.number, known)
        await self._write(row, item)

    async def _write(self, row: Row, item: BatchItem[Any]) -> None:
        item, line = encode(item, self._work.order.settings, row.digest)
        kept = self._journal.put(item, line)
        # Nobody is told of it before it is kept; but what waits for the database has a bound, and
        # what it has cost is known only then.
        if self._taken.cap is not None or self._journal.backlog >= self._work.order.concurrency:
            await kept
        else:
            kept.add_done_callback(self._note)

    def _note(self, kept: asyncio.Future[None]) -> None:
        """Takes down that a result could not be kept."""
        if not kept.cancelled() and (error := kept.exception()) is not None:
            self._failure = error

    async def _put_down(self, row: Row) -> int | None:
        """Returns what was put down for an input; ``None`` where the cap does not bear it."""
        estimator = self._work.estimator
        if estimator is None or self._taken.cap is None:
            return 0
        amount = estimator.estimate(row.input) * self._work.tries
        while amount:
            try:
                if await self._work.purse.acquire(amount):
                    return amount
                self.is_capped = True
                return None
            except StoreError as error:  # what is under way was paid for, and is not broken off
                _LOGGER.warning("nothing can be put down now: %s", error)
            if self.must_stop:
                return None
            await asyncio.sleep(_PAUSE_SECONDS)
        return 0

    async def _begin(self, row: Row) -> bool:
        """Begins an input that is asked by itself; sets one aside that was, too often."""
        if row.begun < ALONE:
            await finish(asyncio.to_thread(begin_alone, self._database, self._batch, row.number))
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

    def _settle(self) -> None:
        with self._database.transact() as transaction:
            settle(transaction, self._batch)


async def _insist(look: Callable[[], Taken | None], is_leaving: Callable[[], bool]) -> Taken | None:
    """Takes a chunk, also where the database is away for a while."""
    while not is_leaving():
        try:
            return await finish(asyncio.to_thread(look))
        except StoreError as error:
            _LOGGER.warning("a chunk cannot be taken now: %s", error)
        await asyncio.sleep(_PAUSE_SECONDS)
    return None


def _pass(results: Sequence[None]) -> Sequence[None]:
    """Tells nobody: whoever follows the batch reads its rows."""
    return results
