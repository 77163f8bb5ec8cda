"""Handover of a batch: write its inputs as rows of chunks, which workers can take at once."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final

from vibe_llms.batches.batch_followers import count_result_rows
from vibe_llms.batches.batch_specs import (
    BatchSpec,
    StoredInput,
    decode_spec,
    encode_spec,
)
from vibe_llms.batches.databases import BatchDatabase, Transaction
from vibe_llms.batches.journals import refuse_input
from vibe_llms.batches.queues import ChunkQueue, enqueue_due
from vibe_llms.batches.row_chunks import (
    DueChunk,
    find_start,
    read_due,
    read_inputs,
    settle,
    write_inputs,
)
from vibe_llms.exceptions import RequestError, StoreError
from vibe_llms.foundation.portal import finish
from vibe_llms.instruments.estimates import count_money
from vibe_llms.messages.identities import produce_identity
from vibe_llms.runs.patience import retry_in_thread

CHUNK: Final = 500
"""Default number of inputs per chunk."""

_CHUNK_BYTES: Final = 1 << 24
"""Maximum size of a chunk's inputs, which are one row; a longer input is a separate chunk."""

_DIGITS: Final = 32

_FIXED_SETTINGS: Final = ("attempts", "concurrency", "limits", "priority", "retries")
"""Settings that are not part of a batch's id, and cannot be changed later."""


def derive_batch(spec: BatchSpec, key: str) -> str:
    """Return the id of a batch: derived from settings and key, or new without a key."""
    if not key:
        return produce_identity()
    return hashlib.sha256(f"{spec.settings}{key}".encode()).hexdigest()[:_DIGITS]


class BatchHandover:
    """Handover of one batch.

    Args:
        database: Database to write the rows to.
        queue: Queue to put the chunks in.
        batch: The id of the batch.
        spec: Specification of the batch.
        chunk: Number of inputs per chunk.
        patience_seconds: How long to wait for an unreachable database.

    Attributes:
        before: Number of results of each chunk when the handover began.
    """

    def __init__(
        self,
        database: BatchDatabase,
        queue: ChunkQueue,
        batch: str,
        spec: BatchSpec,
        chunk: int = CHUNK,
        *,
        patience_seconds: float = 0.0,
    ) -> None:
        self._database = database
        self._queue = queue
        self._batch = batch
        self._spec = spec
        self._size = chunk
        self._patience = patience_seconds
        self._next = 0
        self._chunk = 0
        self._stored = 0
        self._compared_chunk = 0
        self._is_new = False
        self.before: dict[int, int] = {}

    async def perform(self, inputs: AsyncIterator[StoredInput]) -> None:
        """Write all inputs and enqueue their chunks; compare inputs that already exist.

        Raises:
            RequestError: The batch has other inputs.
            StoreError: The database is unreachable; calling this again resumes.
        """
        try:
            await retry_in_thread(self._patience, self._begin)
            await self._write(inputs)
        except StoreError:
            raise
        except BaseException:  # also for an interrupt
            if self._is_new:  # a batch that cannot be handed over completely is not executed
                await finish(asyncio.to_thread(self._withdraw))
            raise

    async def _write(self, inputs: AsyncIterator[StoredInput]) -> None:
        page: list[StoredInput] = []
        size = 0
        async for each in inputs:
            page.append(each)
            size += len(each.input)
            if len(page) == self._size or size > _CHUNK_BYTES:
                await self._add_all(page)
                page, size = [], 0
        if page:
            await self._add_all(page)
        await retry_in_thread(self._patience, self._end)
        # Include chunks that an earlier attempt has written but not enqueued.
        await retry_in_thread(self._patience, enqueue_due, self._database, self._queue, self._batch)

    async def _add_all(self, page: Sequence[StoredInput]) -> None:
        while page:
            page = await retry_in_thread(self._patience, self._add, page)

    def _begin(self) -> None:
        spec = self._spec
        with self._database.transact() as transaction:
            count = transaction.change(
                "INSERT INTO vibe_batches"
                " (id, about, state, detail, priority, created, start, cap, committed)"
                " VALUES (?, ?, 'filling', '', ?, ?, ?, ?, 0) ON CONFLICT (id) DO NOTHING",
                self._batch,
                encode_spec(spec),
                spec.priority,
                time.time(),
                find_start(transaction, spec.priority),
                None if spec.cap is None else count_money(spec.cap),
            )
            if not count:
                self._ensure_same_settings(transaction)
            self._count_stored(transaction)
        self._is_new = self._is_new or count > 0
        self.before = count_result_rows(self._database, self._batch)

    def _ensure_same_settings(self, transaction: Transaction) -> None:
        """Refuse a specification whose settings differ from the batch's."""
        rows = transaction.fetch("SELECT about FROM vibe_batches WHERE id = ?", self._batch)
        stored = decode_spec(rows[0][0])
        for name in _FIXED_SETTINGS:
            old, new = getattr(stored, name), getattr(self._spec, name)
            if old != new:
                raise RequestError(
                    path=name,
                    detail=f"Batch {self._batch} has {name} {old}, not {new}.",
                    remedy=f"Pass {name} {old} to continue it, or choose another key.",
                )

    def _withdraw(self) -> None:
        """Remove the batch; if a worker has taken a chunk, stop the batch instead.

        Keep a batch that another process has handed over completely in the interim.
        """
        with self._database.transact() as transaction:
            epochs = transaction.fetch(
                "UPDATE vibe_chunks SET epoch = epoch WHERE batch = ? RETURNING epoch", self._batch
            )
            change = "UPDATE vibe_batches SET state = 'stopped' WHERE id = ?"
            if not any(epoch for (epoch,) in epochs):
                change = "DELETE FROM vibe_batches WHERE id = ?"
            transaction.change(f"{change} AND state = 'filling'", self._batch)

    def _count_stored(self, transaction: Transaction) -> None:
        ((self._stored, self._chunk),) = transaction.fetch(
            "SELECT COALESCE(MAX(first + size), 0), COALESCE(MAX(number) + 1, 0)"
            " FROM vibe_chunks WHERE batch = ?",
            self._batch,
        )

    def _add(self, page: Sequence[StoredInput]) -> Sequence[StoredInput]:
        """Compare the beginning of a page with stored inputs, or add it all; return the rest."""
        is_new = False
        due: list[DueChunk] = []
        with self._database.transact() as transaction:
            handled = page[: max(0, self._stored - self._next)]
            if handled:
                handled = handled[: self._compare(transaction, handled)]
            elif self._insert(transaction, page):
                handled, is_new = page, True
                due = read_due(transaction, self._batch, self._chunk)
            else:  # another process or an earlier attempt has written it
                self._count_stored(transaction)
        self._next += len(handled)
        if is_new:
            self._stored = self._next
            self._chunk += 1
            with suppress(StoreError):  # missing chunks are enqueued at the end
                self._queue.enqueue(self._batch, due)
        return page[len(handled) :]

    def _compare(self, transaction: Transaction, page: Sequence[StoredInput]) -> int:
        """Compare inputs with the rest of the chunk in which they begin; return their number."""
        ((self._compared_chunk, first),) = transaction.fetch(
            "SELECT number, first FROM vibe_chunks WHERE batch = ? AND number >= ?"
            " AND first + size > ? ORDER BY number LIMIT 1",
            self._batch,
            self._compared_chunk,
            self._next,
        )
        rows = read_inputs(transaction, self._batch, self._compared_chunk)[self._next - first :]
        for place, (stored, submitted) in enumerate(zip(rows, page, strict=False), self._next):
            if (stored.name, stored.digest) != (_write_name(submitted.name), submitted.digest):
                key = place if submitted.name is None else submitted.name
                raise refuse_input(f"Batch {self._batch}", key, "or choose another key")
        return len(rows)

    def _insert(self, transaction: Transaction, page: Sequence[StoredInput]) -> bool:
        is_first = transaction.change(
            "INSERT INTO vibe_chunks VALUES (?, ?, ?, ?, 0, 0, 0, '', ?, 0, 0, 0, 0, 0, 0, 0)"
            " ON CONFLICT (batch, number) DO NOTHING",
            self._batch,
            self._chunk,
            self._next,
            len(page),
            b"",
        )
        if not is_first:
            return False
        rows = [
            each
            if each.name is None
            else StoredInput(_write_name(each.name), each.digest, each.input)
            for each in page
        ]
        transaction.change(
            "INSERT INTO vibe_inputs (batch, chunk, inputs) VALUES (?, ?, ?)",
            self._batch,
            self._chunk,
            write_inputs(rows),
        )
        return True

    def _end(self) -> None:
        with self._database.transact() as transaction:
            self._count_stored(transaction)
            if self._next < self._stored:
                raise RequestError(
                    path="inputs",
                    detail=f"Batch {self._batch} has {self._stored:,} inputs, but {self._next:,} "
                    "were given.",
                    remedy="Pass all its inputs, with new ones at the end, or choose another key.",
                )
            if not self._next:
                raise RequestError(path="inputs", detail="The batch has no inputs.")
            transaction.change(
                "UPDATE vibe_batches SET total = ?, ended = CASE WHEN total = ? THEN ended END,"
                " state = CASE WHEN state = 'filling' OR (state = 'done' AND total < ?)"
                " THEN 'open' ELSE state END WHERE id = ?",
                self._next,
                self._next,
                self._next,
                self._batch,
            )
            settle(transaction, self._batch)


def _write_name(name: str | None) -> str | None:
    return None if name is None else json.dumps(name)
