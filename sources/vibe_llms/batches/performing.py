"""Performing a chunk of a batch: each of its inputs that has no result yet is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

from vibe_llms.batches.budgets import BatchBudget, RowLedger
from vibe_llms.batches.chunk_runs import ChunkRun, Work
from vibe_llms.batches.databases import BatchDatabase
from vibe_llms.batches.making import WorkMaker
from vibe_llms.batches.orders import BatchOrder, decode_order
from vibe_llms.batches.places import Places
from vibe_llms.batches.row_chunks import Taken, leave
from vibe_llms.batches.tables import WORKING, BatchState
from vibe_llms.exceptions import ConverseError, StoreError
from vibe_llms.foundation.portal import finish
from vibe_llms.instruments.estimates import AnyEstimator, Estimator, RunEstimator, read_money
from vibe_llms.messages.codec.errors import encode_error

_BATCHES: Final = 16
"""How many batches are kept ready to be asked for."""


class ChunkPerformer:
    """Performs chunks of batches.

    Args:
        database: Has the rows.
        maker: Makes what inputs are put to.
    """

    def __init__(self, database: BatchDatabase, maker: WorkMaker) -> None:
        self.database = database
        self._maker = maker
        self._application = maker.application
        self._works: dict[str, Work] = {}
        self._door = asyncio.Lock()

    async def perform(
        self,
        taken: Taken,
        is_leaving: Callable[[], bool],
        note: Callable[[bool], object] = lambda is_ending: None,
    ) -> None:
        """Performs a chunk, until all of it is done or nobody wants it any more; then leaves it.

        Args:
            is_leaving: Says whether nothing more is to be begun.
            note: Is told whether nothing of it is left to be begun.

        Raises:
            StoreError: The database is out of reach.
        """
        try:
            work = await self._access(taken)
            run = ChunkRun(self.database, taken, work, is_leaving, note)
            work.users += 1
            try:
                await run.perform()
            finally:
                work.users -= 1
            if run.is_done:  # then nobody has it any more
                return
            if run.is_capped:
                await self._stop(taken, "capped")
        except (StoreError, asyncio.CancelledError):
            await self._leave(taken, broke_off=True)
            raise
        except ConverseError as error:
            await self._stop(taken, "failed", encode_error(error).decode())
        await self._leave(taken)

    async def _leave(self, taken: Taken, *, broke_off: bool = False) -> None:
        """Lets others have the chunk.

        Who dies over it does not come here, nor does a mistake of ours: it counts as an attempt.
        """
        with suppress(StoreError):
            await finish(asyncio.to_thread(leave, self.database, taken, broke_off=broke_off))

    async def close(self) -> None:
        """Frees the models."""
        works, self._works = self._works, {}
        for each in works.values():
            await each.items.close()

    async def _access(self, taken: Taken) -> Work:
        """Returns what a batch's chunks share.

        Raises:
            ConverseError: The model cannot be asked, or not be held to a cap.
        """
        async with self._door:
            batch = taken.batch
            work = self._works.get(batch)
            if work is None:
                work = self._works[batch] = await self._prepare(batch, decode_order(taken.order))
                await self._make_room()
            if taken.cap is not None and work.budget is None:
                estimator = await self._estimate(work.order, read_money(taken.cap))
                work.budget = BatchBudget(RowLedger(self.database, batch), estimator)
            return work

    async def _estimate(self, order: BatchOrder, cap: Decimal) -> AnyEstimator:
        limits = self._application.configuration.limits
        model = await self._application.access_model(order.model)
        if order.is_engine:
            cents = order.limits.get("run_cents", limits.run_cents)
            return RunEstimator(model.descriptor, cents, cap)
        parser = order.produce_parser()
        attempts = 1 if parser is None else parser.attempts
        return Estimator(model.descriptor, order.pattern, attempts, tries=limits.attempts)

    async def _prepare(self, batch: str, order: BatchOrder) -> Work:
        return Work(
            order=order,
            items=await self._maker.produce(batch, order),
            places=Places(order.concurrency),
        )

    async def _make_room(self) -> None:
        idle = [name for name, each in self._works.items() if not each.users]
        for name in idle[: max(0, len(self._works) - _BATCHES)]:
            await self._works.pop(name).items.close()

    async def _stop(self, taken: Taken, state: BatchState, detail: str = "") -> None:
        """Notes why nobody goes on; who has raised the cap meanwhile has said that it does."""
        values: list[Any] = [state, detail, taken.batch, *WORKING]
        condition = ""
        if state == "capped":
            condition = " AND cap = ?"
            values.append(taken.cap)

        def note() -> None:
            with self.database.transact() as transaction:
                transaction.change(
                    "UPDATE vibe_batches SET state = ?, detail = ? WHERE id = ?"
                    f" AND state IN ({', '.join('?' for _ in WORKING)}){condition}",
                    *values,
                )

        await finish(asyncio.to_thread(note))
