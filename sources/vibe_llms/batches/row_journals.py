"""Result journal of a chunk, as rows of a database.

Results that are written together are one row. The first result of an input counts. If a worker was
paused and another worker took its chunk, the first worker writes the results that it has and begins
no new inputs.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.batches.budgets import account_item
from vibe_llms.batches.databases import BatchDatabase, Transaction
from vibe_llms.batches.item_lines import encode
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.row_chunks import TakenChunk, read_bits, settle, write_bits
from vibe_llms.batches.tables import WORKING
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.coalescing import Coalescer

_LOGGER = logging.getLogger(__name__)

_GATHERING_SECONDS: Final = 0.05
"""Time to gather results that are written together, if no caller waits for them."""
_GROUP_BYTES: Final = 1 << 24
"""Maximum size of a row, since a database limits it; a longer single line is a separate row."""
_PAUSE_SECONDS: Final = 0.5
"""Pause between two attempts to write to an unreachable database."""
_PATIENCE_SECONDS: Final = 900.0
"""Time to try again before billed results are given up as lost."""


# Not tracked by Python's garbage collector, since many wait at once: it would traverse the parts of
# each item, and all other live objects, again and again.
class _Result(msgspec.Struct, gc=False):
    number: int
    line: bytes
    has_failed: bool
    input_tokens: int
    output_tokens: int
    cost: int
    unpriced: int
    change: int


class RowJournal:
    """Result journal of a chunk.

    Args:
        database: Database with the rows.
        taken_chunk: The chunk.
        settings: Digest of the batch's settings.
        room: Number of results that may wait to be written. At 0 each :meth:`put` returns when its
            result is written.
        is_leaving: Function that returns whether to stop waiting for an unreachable database.

    Attributes:
        is_done: Whether a write by this worker found that the whole chunk is done.
        is_lost: Whether another worker had taken the chunk, at the last write.
    """

    def __init__(
        self,
        database: BatchDatabase,
        taken_chunk: TakenChunk,
        *,
        settings: str = "",
        room: int = 0,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._database = database
        self._batch = taken_chunk.batch
        self._chunk = taken_chunk.chunk
        self._epoch = taken_chunk.epoch
        self._settings = settings
        self._is_leaving = is_leaving
        self._room = room
        self._written: asyncio.Future[Sequence[None]] | None = None
        self._failure: StoreError | None = None
        self._writes = 0
        self._closed = threading.Event()
        self._coalescer: Coalescer[_Result, None] = Coalescer(
            self._write,
            pause_seconds=_GATHERING_SECONDS if room else 0.0,
            enough=max(1, room * 7 // 8),  # so that no task blocks on a full queue
        )
        self._stopped = ""
        self.is_done = self.is_lost = False

    async def put(
        self, item: BatchItem[Any], input_digest: str, reserved: int = 0
    ) -> BatchItem[Any]:
        """Begin to write a result; return when the queue has room for more.

        A result may be yielded before it is written, since workers report it to no caller. If the
        database is unreachable, wait for it.
        """
        item, line = encode(item, self._settings, input_digest)
        account = account_item(item)
        write = self._coalescer.put(
            _Result(
                item.index,
                line[:-1],
                item.error is not None,
                *account,
                account.replace(reserved),
            )
        )
        if write is not self._written:  # the first result of a joint write
            self._written = write
            write.add_done_callback(self._note_failure)
        if self._coalescer.backlog >= self._room:
            await asyncio.shield(write)  # other tasks wait for it, too
        return item

    def _note_failure(self, write: asyncio.Future[Sequence[None]]) -> None:
        if not write.cancelled() and isinstance(error := write.exception(), StoreError):
            self._failure = error

    @property
    def stop_reason(self) -> str:
        """Reason to begin no new inputs, known from the last write; empty if there is none."""
        return self._stopped if self._failure is None else str(self._failure)

    async def finish(self) -> None:
        """Wait until all results are written, but not for an unreachable database.

        Raises:
            StoreError: Some results could not be written.
        """
        await self._coalescer.close()
        self._closed.set()
        if self._failure is not None:
            raise self._failure

    def _write(self, results: Sequence[_Result]) -> Sequence[None]:
        for group in _group(results):
            self._writes += 1
            self._write_group(f"{self._epoch}/{self._writes}", group)
        return [None] * len(results)

    def _write_group(self, mark: str, results: Sequence[_Result]) -> None:
        """Write results; wait if the database is unreachable."""
        start = time.monotonic()
        is_retry = False
        while True:
            try:
                self._insert(mark, results, is_retry=is_retry)
            except StoreError as error:
                if not is_retry:
                    _LOGGER.warning(
                        "%s results of batch %s wait for its database: %s",
                        len(results),
                        self._batch,
                        error,
                    )
                has_waited = time.monotonic() - start >= _PATIENCE_SECONDS
                if has_waited or self._is_leaving() or self._closed.wait(_PAUSE_SECONDS):
                    _LOGGER.error(
                        "%s billed results of batch %s are lost and processed again: %s",
                        len(results),
                        self._batch,
                        error,
                    )
                    raise
                is_retry = True
            else:
                return

    def _insert(
        self,
        mark: str,
        results: Sequence[_Result],
        *,
        is_retry: bool = False,
    ) -> None:
        with self._database.transact() as transaction:
            # Lock the chunk first: places are then assigned in the order of commits, so that a
            # follower of the batch skips none.
            found = transaction.fetch(
                "UPDATE vibe_chunks SET placed = placed + 1 WHERE batch = ? AND number = ?"
                " RETURNING placed, epoch, first, size, done, answered",
                self._batch,
                self._chunk,
            )
            if not found:
                self._stopped = "The batch was deleted."
                return
            place, epoch, first, size, done, bits = found[0]
            # Possibly only the database's reply was lost, and not the commit.
            if is_retry and self._has_row(transaction, mark):
                transaction.change(
                    "UPDATE vibe_chunks SET placed = placed - 1 WHERE batch = ? AND number = ?",
                    self._batch,
                    self._chunk,
                )
                return
            answered, new = read_bits(bits), list[_Result]()
            for each in results:
                bit = 1 << each.number - first
                if not answered & bit:
                    answered |= bit
                    new.append(each)
            transaction.change(
                "INSERT INTO vibe_results (batch, chunk, place, mark, lines)"
                " VALUES (?, ?, ?, ?, ?)",
                self._batch,
                self._chunk,
                place,
                mark,
                b"\n".join([each.line for each in new]),
            )
            ((state, cap),) = transaction.fetch(
                "SELECT state, cap FROM vibe_batches WHERE id = ?", self._batch
            )
            self._count(transaction, write_bits(answered), new, results)
            # The reservation for a result that came too late stays: it was paid for anyway. Without
            # a cap nothing is reserved, and no worker waits for the batch's row.
            if cap is not None and (change := sum(each.change for each in new)):
                transaction.change(
                    "UPDATE vibe_batches SET committed = committed + ? WHERE id = ?",
                    change,
                    self._batch,
                )
            is_done = done + len(new) == size
            if is_done:
                settle(transaction, self._batch)
        self._stopped, self.is_done = self._explain(state, epoch), is_done
        self.is_lost = epoch != self._epoch

    def _has_row(self, transaction: Transaction, mark: str) -> bool:
        query = "SELECT 1 FROM vibe_results WHERE batch = ? AND chunk = ? AND mark = ?"
        return bool(transaction.fetch(query, self._batch, self._chunk, mark))

    def _explain(self, state: str, epoch: int) -> str:
        if state not in WORKING:
            return f"The batch is {state}."
        return "" if epoch == self._epoch else "Another worker has taken the chunk."

    def _count(
        self,
        transaction: Transaction,
        answered: bytes,
        new: Sequence[_Result],
        results: Sequence[_Result],
    ) -> None:
        """Count results; those that came too late count only as paid."""
        transaction.change(
            "UPDATE vibe_chunks SET answered = ?, done = done + ?, failed = failed + ?,"
            " input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, cost = cost + ?,"
            " unpriced = unpriced + ?,"
            " held = CASE WHEN done + ? < size THEN held ELSE 0 END"
            " WHERE batch = ? AND number = ?",
            answered,
            len(new),
            sum(each.has_failed for each in new),
            sum(each.input_tokens for each in results),
            sum(each.output_tokens for each in results),
            sum(each.cost for each in results),
            sum(each.unpriced for each in results),
            len(new),
            self._batch,
            self._chunk,
        )


def _group(results: Sequence[_Result]) -> Iterator[Sequence[_Result]]:
    """Split results into groups that fit a row."""
    first = size = 0
    for place, each in enumerate(results):
        size += len(each.line)
        if size > _GROUP_BYTES and place > first:
            yield results[first:place]
            first, size = place, len(each.line)
    yield results[first:]
