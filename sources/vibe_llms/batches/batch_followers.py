"""Follower of a batch: reads results from its rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from typing import Final

from vibe_llms.batches.batch_specs import ItemOutcome
from vibe_llms.batches.databases import BatchDatabase, Transaction
from vibe_llms.batches.item_lines import decode_head
from vibe_llms.batches.tables import WORKING
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.patience import retry_in_thread

_PAGE: Final = 500
_CHUNKS: Final = 64
"""Number of chunks read at once; further chunks are read when these are complete."""
_FIRST_SECONDS: Final = 0.1
_LAST_SECONDS: Final = 1.0


class BatchFollower:
    """Follower of a batch's results.

    Args:
        database: Database with the rows.
        batch: The id of the batch.
        waits: Whether to wait for pending results, and for an unreachable database.
        before: Number of result rows of each chunk that count as stored; by default all existing
            rows.
        patience_seconds: How long to retry the first read, and all reads if it does not wait.
    """

    def __init__(
        self,
        database: BatchDatabase,
        batch: str,
        *,
        waits: bool,
        before: Mapping[int, int] | None = None,
        patience_seconds: float = 0.0,
    ) -> None:
        self._database = database
        self._batch = batch
        self._waits = waits
        self._before = before
        self._patience = patience_seconds
        self._seen: dict[int, int] = {}
        self._first_chunk = 0
        self._next_index = 0
        self._early: dict[int, ItemOutcome] = {}

    async def follow(self, *, ordered: bool) -> AsyncGenerator[ItemOutcome]:
        """Yield results. Raises StoreError if it does not wait."""
        if self._before is None:
            self._before = await retry_in_thread(
                self._patience, count_result_rows, self._database, self._batch
            )
        read = self._read_in_order if ordered else self._read_new
        pause = _FIRST_SECONDS
        while True:
            try:
                is_working, found = await retry_in_thread(self._patience, self._read, read)
            except StoreError:
                if not self._waits:
                    raise
                is_working, found = True, []
            for each in found:
                yield each
            if found:
                pause = _FIRST_SECONDS
            elif not is_working:
                return
            # Read large pages; between small ones, let other tasks run.
            if is_working and len(found) < _PAGE:
                await asyncio.sleep(pause)
                pause = pause if found else min(2 * pause, _LAST_SECONDS)

    def _read(
        self, read: Callable[[Transaction, bool], list[ItemOutcome]]
    ) -> tuple[bool, list[ItemOutcome]]:
        """Read a page; return whether more may come, and the page."""
        before = self._seen.copy(), self._first_chunk, self._next_index, self._early.copy()
        query = "SELECT state FROM vibe_batches WHERE id = ?"
        try:
            with self._database.transact(reading=True) as transaction:
                states = transaction.fetch(query, self._batch)
                is_working = self._waits and bool(states) and states[0][0] in WORKING
                return is_working, read(transaction, is_working)
        except StoreError:
            # The page was not yielded, so read it again.
            self._seen, self._first_chunk, self._next_index, self._early = before
            raise

    def _read_new(self, transaction: Transaction, is_working: bool) -> list[ItemOutcome]:
        """Read a page of new results."""
        found: list[ItemOutcome] = []
        for chunk, size, placed, done in transaction.fetch(
            "SELECT number, size, placed, done FROM vibe_chunks"
            " WHERE batch = ? AND number >= ? AND placed > 0 ORDER BY number LIMIT ?",
            self._batch,
            self._first_chunk,
            _CHUNKS,
        ):
            if placed > self._seen.get(chunk, 0) and len(found) < _PAGE:
                found += self._read_chunk(transaction, chunk)
            if chunk == self._first_chunk and done == size and self._seen.get(chunk, 0) >= placed:
                self._seen.pop(chunk, None)
                self._first_chunk += 1
        return found

    def _read_in_order(self, transaction: Transaction, is_working: bool) -> list[ItemOutcome]:
        """Read a page in the order of the inputs; skip gaps of a batch that has stopped."""
        found: list[ItemOutcome] = []
        while len(found) < _PAGE:
            chunks = transaction.fetch(
                "SELECT first + size FROM vibe_chunks WHERE batch = ? AND number = ?",
                self._batch,
                self._first_chunk,
            )
            if not chunks:
                break
            for each in self._read_chunk(transaction, self._first_chunk):
                self._early[decode_head(each.line).index] = each
            end = chunks[0][0]
            while self._next_index < end:
                outcome = self._early.pop(self._next_index, None)
                if outcome is not None:
                    found.append(outcome)
                elif is_working:
                    return found
                self._next_index += 1
            self._seen.pop(self._first_chunk, None)
            self._first_chunk += 1
        return found

    def _read_chunk(self, transaction: Transaction, chunk: int) -> list[ItemOutcome]:
        """Read the new results of a chunk."""
        before = 0 if self._before is None else self._before.get(chunk, 0)
        found: list[ItemOutcome] = []
        for place, lines in transaction.fetch(
            "SELECT place, lines FROM vibe_results"
            " WHERE batch = ? AND chunk = ? AND place > ? ORDER BY place",
            self._batch,
            chunk,
            self._seen.get(chunk, 0),
        ):
            is_stored = place <= before
            found += [ItemOutcome(line, is_stored) for line in split_lines(lines)]
            self._seen[chunk] = place
        return found


def count_result_rows(database: BatchDatabase, batch: str) -> dict[int, int]:
    """Return the number of result rows of each chunk that has any. Raises StoreError."""
    with database.transact(reading=True) as transaction:
        rows = transaction.fetch(
            "SELECT number, placed FROM vibe_chunks WHERE batch = ? AND placed > 0", batch
        )
    return dict(rows)


def read_lines(
    transaction: Transaction, batch: str, chunk: int
) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the rows of a chunk's results: the place of each row, and its lines."""
    for place, lines in transaction.fetch(
        "SELECT place, lines FROM vibe_results WHERE batch = ? AND chunk = ? ORDER BY place",
        batch,
        chunk,
    ):
        yield place, split_lines(lines)


def split_lines(lines: bytes) -> list[bytes]:
    """Return the lines of a row."""
    return lines.split(b"\n") if lines else []
