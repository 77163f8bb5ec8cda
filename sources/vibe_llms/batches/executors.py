"""Executor of chunks: processes the inputs of a chunk that have no result yet."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, suppress
from decimal import Decimal
from typing import Any, Final

from vibe_llms.batches.batch_specs import BatchSpec, decode_spec
from vibe_llms.batches.budgets import BatchBudget, RowLedger
from vibe_llms.batches.chunk_sources import ChunkSource
from vibe_llms.batches.databases import BatchDatabase
from vibe_llms.batches.direct_backend import DirectBackend
from vibe_llms.batches.items import BatchTally
from vibe_llms.batches.queues import ChunkQueue, enqueue_due, enqueue_missing
from vibe_llms.batches.row_chunks import TakenChunk, leave, take
from vibe_llms.batches.row_journals import RowJournal
from vibe_llms.batches.runs import BatchRun
from vibe_llms.batches.tables import WORKING, BatchState
from vibe_llms.batches.work_makers import Performer, WorkMaker
from vibe_llms.exceptions import ConverseError, StoreError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.portal import finish
from vibe_llms.instruments.estimates import (
    AnyEstimator,
    Estimator,
    RunEstimator,
    TextEstimator,
    read_money,
)
from vibe_llms.messages.codec.errors import encode_error
from vibe_llms.models.genera import Genus

_LOGGER = logging.getLogger(__name__)

GRACE_SECONDS: Final = 10.0
"""Time for chunks to end when a worker closes."""

_SCAN_SECONDS: Final = 15.0
_PAUSE_SECONDS: Final = 1.0
"""Pause before a chunk is taken again after a fault."""
_MAX_BATCHES: Final = 16
"""Number of batches whose models and engines are kept open between chunks."""


@define(kw_only=True)
class Work:
    """State that the chunks of a batch share in this process.

    Attributes:
        performer: Performer of the batch's work.
        concurrency: Number of inputs in progress at once, over all chunks.
        room: Semaphore for inputs in progress, over all chunks.
        users: Number of chunks being executed.
    """

    spec: BatchSpec
    performer: Performer
    concurrency: int
    room: asyncio.Semaphore
    budget: BatchBudget | None = None
    users: int = 0


class ChunkExecutor:
    """Executor of the chunks that a worker takes from its queue.

    Args:
        database: Database with the rows.
        maker: Creates the performer of a specification.
        queue: The queue of the chunks.
    """

    def __init__(self, database: BatchDatabase, maker: WorkMaker, queue: ChunkQueue) -> None:
        self._database = database
        self._maker = maker
        self._queue = queue
        self._application = maker.application
        self._works: dict[str, Work] = {}
        self._lock = asyncio.Lock()
        self._chunks: dict[tuple[str, int], asyncio.Task[str]] = {}
        self._scanning: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()

    @property
    def is_leaving(self) -> bool:
        """True once the worker begins no new inputs."""
        return self._leaving.is_set()

    def start_scanning(self) -> None:
        """Periodically enqueue due chunks that are missing from the queue."""
        self._scanning = asyncio.create_task(self._scan())

    async def execute(self, batch: str, chunk: int) -> str:
        """Execute a chunk until it is not due or another worker takes it; return the reason.

        Returns an empty string when the worker closes first: the chunk is for another worker.
        """
        key = batch, chunk
        while (earlier := self._chunks.get(key)) is not None:  # it was queued again in the interim
            await asyncio.wait([earlier])
        work = self._chunks[key] = asyncio.create_task(self._execute(batch, chunk))
        work.add_done_callback(lambda _: self._chunks.pop(key, None))
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            work.cancel()
            await finish(asyncio.wait([work]))
            raise
        return "" if work.cancelled() else work.result()

    async def close(self, grace_seconds: float = GRACE_SECONDS) -> None:
        """Stop beginning inputs; release the chunks that are not done after a grace period."""
        self._leaving.set()
        if self._scanning is not None:
            self._scanning.cancel()
            await finish(asyncio.gather(self._scanning, return_exceptions=True))
        if chunks := list(self._chunks.values()):
            await finish(asyncio.wait(chunks, timeout=grace_seconds))
            for chunk in chunks:
                chunk.cancel()
            await finish(asyncio.gather(*chunks, return_exceptions=True))
        works, self._works = self._works, {}
        for each in works.values():
            await each.performer.close()

    async def _scan(self) -> None:
        while True:
            try:
                await finish(asyncio.to_thread(enqueue_missing, self._database, self._queue))
            except StoreError as error:
                _LOGGER.warning("the queue of chunks cannot be checked: %s", error)
            await asyncio.sleep(_SCAN_SECONDS)

    async def _execute(self, batch: str, chunk: int) -> str:
        while not self.is_leaving:
            try:
                taken_chunk = await finish(asyncio.to_thread(take, self._database, batch, chunk))
                if taken_chunk is None:
                    await finish(asyncio.to_thread(self._cancel, batch))
                    return "not due"
                _log_doubt(taken_chunk)
                if outcome := await self.perform(taken_chunk):
                    return outcome
                continue
            except Exception as error:  # a bug in this program counts as an attempt
                _LOGGER.warning("chunk %s of batch %s is delayed: %s", chunk, batch, error)
            await self._pause()
        return ""

    def _cancel(self, batch: str) -> None:
        """Remove the other chunks of a stopped batch from the queue."""
        with self._database.transact(reading=True) as transaction:
            states = transaction.fetch("SELECT state FROM vibe_batches WHERE id = ?", batch)
        if states and states[0][0] in WORKING:  # only this chunk is done
            return
        self._queue.cancel(batch)
        enqueue_due(self._database, self._queue, batch)  # it may have been resumed in the interim

    async def _pause(self) -> None:
        """Sleep briefly, unless the worker closes."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PAUSE_SECONDS):
                await self._leaving.wait()

    async def perform(self, taken_chunk: TakenChunk) -> str:
        """Process inputs without a result; return why this worker is done with the chunk.

        Raises:
            StoreError: The database is unreachable, or another worker has a run of an input.
        """
        try:
            work = await self._access(taken_chunk)
            work.users += 1
            try:
                outcome = await self._process(taken_chunk, work)
            finally:
                work.users -= 1
            if outcome == "done":  # it was already released
                return outcome
        except (StoreError, asyncio.CancelledError):
            await self._leave(taken_chunk, broke_off=True)
            raise
        except ConverseError as error:
            await self._stop(taken_chunk, "failed", encode_error(error).decode())
            outcome = ""
        await self._leave(taken_chunk)
        return outcome

    async def _process(self, taken_chunk: TakenChunk, work: Work) -> str:
        source = ChunkSource(self._database, taken_chunk, work.performer)
        spec = work.spec
        # Wait for each write: a budget knows the cost of an answer only once it is written; if an
        # input may kill this process, earlier results must not be lost with it; and a run is
        # removed only after its result is written.
        waits = taken_chunk.cap is not None or source.is_careful or source.keeps_runs
        journal = RowJournal(
            self._database,
            taken_chunk,
            settings=spec.settings,
            room=0 if waits else work.concurrency,
            is_leaving=lambda: self.is_leaving,
        )
        backend = DirectBackend(
            source.process,
            concurrency=1 if source.is_careful else min(work.concurrency, len(taken_chunk.rows)),
            retries=spec.retries,
            budget=None if taken_chunk.cap is None else work.budget,
            room=work.room,
            must_stop=lambda: bool(journal.stop_reason or source.must_stop or self.is_leaving),
        )
        run: BatchRun[Any] = BatchRun(source, journal, backend, BatchTally())
        await source.open()
        try:
            async with aclosing(backend.perform(run, taken_chunk.rows)) as items:
                async for _ in items:
                    pass
        finally:
            await journal.finish()
        if source.delay_cause is not None:
            raise source.delay_cause
        if backend.is_capped:
            await self._stop(taken_chunk, "capped")
        if journal.is_done:
            return "done"
        return "taken by another worker" if journal.is_lost else ""

    async def _leave(self, taken_chunk: TakenChunk, *, broke_off: bool = False) -> None:
        """Release a chunk, unless the process dies or fails: that counts as an attempt."""
        with suppress(StoreError):
            await finish(asyncio.to_thread(leave, self._database, taken_chunk, broke_off=broke_off))

    async def _access(self, taken_chunk: TakenChunk) -> Work:
        """Return the shared state of a batch's chunks.

        Raises:
            ConverseError: The model cannot be asked, or a cap cannot be enforced for it.
        """
        async with self._lock:
            batch = taken_chunk.batch
            work = self._works.get(batch)
            if work is None:
                work = self._works[batch] = await self._prepare(
                    batch, decode_spec(taken_chunk.spec)
                )
                await self._make_room()
            if taken_chunk.cap is not None and work.budget is None:
                estimator = await self._estimate(work.spec, read_money(taken_chunk.cap))
                work.budget = BatchBudget(RowLedger(self._database, batch), estimator)
            return work

    async def _estimate(self, spec: BatchSpec, cap: Decimal) -> AnyEstimator:
        limits = self._application.configuration.limits
        if spec.genus:
            call_model = await self._application.access(Genus(spec.genus), spec.model)
            return TextEstimator(call_model.descriptor, tries=limits.attempts)
        model = await self._application.access_model(spec.model)
        if spec.is_engine:
            cents = spec.limits.get("run_cents", limits.run_cents)
            return RunEstimator(model.descriptor, cents, cap)
        parser = spec.produce_parser()
        attempts = 1 if parser is None else parser.attempts
        return Estimator(model.descriptor, spec.template, attempts, tries=limits.attempts)

    async def _prepare(self, batch: str, spec: BatchSpec) -> Work:
        performer = await self._maker.produce(batch, spec)
        concurrency = performer.concurrency or spec.concurrency
        return Work(
            spec=spec,
            performer=performer,
            concurrency=concurrency,
            room=asyncio.Semaphore(concurrency),
        )

    async def _make_room(self) -> None:
        idle = [name for name, each in self._works.items() if not each.users]
        for name in idle[: max(0, len(self._works) - _MAX_BATCHES)]:
            await self._works.pop(name).performer.close()

    async def _stop(self, taken_chunk: TakenChunk, state: BatchState, detail: str = "") -> None:
        """Record why a batch stops, unless its cap was raised in the interim."""
        values: list[Any] = [state, detail, taken_chunk.batch, *WORKING]
        condition = ""
        if state == "capped":
            condition = " AND cap = ?"
            values.append(taken_chunk.cap)

        def record() -> None:
            with self._database.transact() as transaction:
                transaction.change(
                    "UPDATE vibe_batches SET state = ?, detail = ? WHERE id = ?"
                    f" AND state IN ({', '.join('?' for _ in WORKING)}){condition}",
                    *values,
                )

        await finish(asyncio.to_thread(record))


def _log_doubt(taken_chunk: TakenChunk) -> None:
    if taken_chunk.doubted:
        _LOGGER.warning(
            "took over chunk %s of batch %s; up to %s of its inputs are processed again and may "
            "be billed twice",
            taken_chunk.chunk,
            taken_chunk.batch,
            taken_chunk.doubted,
        )
