"""Following a batch: what came of its items, read from its rows by anybody, as often as wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

import msgspec

from vibe_llms.asynchrony import finish
from vibe_llms.exceptions import StoreError
from vibe_llms.instruments.channels.batches.databases import BatchDatabase, Transaction
from vibe_llms.instruments.channels.batches.orders import ItemOutcome
from vibe_llms.instruments.channels.batches.tables import WORKING

_PAGE: Final = 500
_CHUNKS: Final = 64
"""How many chunks are looked at, at once: those behind them wait until these are through."""
_FIRST_SECONDS: Final = 0.05
_LAST_SECONDS: Final = 1.0


# Not followed by Python's collector, as hundreds are there at once, and none is part of a cycle.
class _Placed(msgspec.Struct, array_like=True, gc=False):
    number: int
    chunk: int
    place: int
    outcome: str


class _Chunk(msgspec.Struct, array_like=True, gc=False):
    number: int
    first: int
    size: int
    placed: int
    done: int


_QUERY: Final = "SELECT number, chunk, place, outcome FROM vibe_items WHERE batch = ?"


class BatchFollower:
    """Reads what came of a batch's items.

    Args:
        database: Has the rows.
        batch: The id of the batch.
        waits: Whether it goes on when all was read that is there; a database that is away is
            waited for, too.
        before: How many results of each chunk count as stored; by default all that are there.
    """

    def __init__(
        self,
        database: BatchDatabase,
        batch: str,
        *,
        waits: bool,
        before: Mapping[int, int] | None = None,
    ) -> None:
        self._database = database
        self._batch = batch
        self._waits = waits
        self._before = before
        self._seen: dict[int, int] = {}
        self._low = 0
        self._next = 0

    async def follow(self, *, ordered: bool) -> AsyncGenerator[ItemOutcome]:
        """Yields what came of each item. Raises StoreError where it does not wait."""
        if self._before is None:
            self._before = await finish(asyncio.to_thread(read_placed, self._database, self._batch))
        read = self._read_in_order if ordered else self._read_new
        pause = _FIRST_SECONDS
        while True:
            try:
                is_working, rows = await finish(asyncio.to_thread(self._read, read))
            except StoreError:
                if not self._waits:
                    raise
                is_working, rows = True, []
            for each in rows:
                is_stored = each.place <= self._before.get(each.chunk, 0)
                yield ItemOutcome(each.outcome.encode(), is_stored)
            if rows:
                pause = _FIRST_SECONDS
            elif not is_working:
                return
            # Much is read at once, or somebody else is let work.
            if is_working and len(rows) < _PAGE:
                await asyncio.sleep(pause)
                pause = pause if rows else min(2 * pause, _LAST_SECONDS)

    def _read(
        self, read: Callable[[Transaction, bool], list[_Placed]]
    ) -> tuple[bool, list[_Placed]]:
        """Reads a page; tells first whether more may come, at the same moment."""
        with self._database.transact(reading=True) as transaction:
            states = transaction.fetch("SELECT state FROM vibe_batches WHERE id = ?", self._batch)
            is_working = self._waits and bool(states) and states[0][0] in WORKING
            return is_working, read(transaction, is_working)

    def _read_new(self, transaction: Transaction, is_working: bool) -> list[_Placed]:
        """Reads a page of what came since."""
        found: list[_Placed] = []
        chunks = transaction.fetch_all(
            _Chunk,
            "SELECT number, first, size, placed, done FROM vibe_chunks"
            " WHERE batch = ? AND number >= ? ORDER BY number LIMIT ?",
            self._batch,
            self._low,
            _CHUNKS,
        )
        for each in chunks:
            seen = self._seen.get(each.number, 0)
            if each.placed > seen and len(found) < _PAGE:
                found += transaction.fetch_all(
                    _Placed,
                    f"{_QUERY} AND number >= ? AND number < ? AND place > ?"
                    " AND outcome IS NOT NULL ORDER BY place",
                    self._batch,
                    each.first,
                    each.first + each.size,
                    seen,
                )
                self._seen[each.number] = seen = each.placed
            if each.number == self._low and each.done == each.size and seen == each.placed:
                self._seen.pop(each.number, None)
                self._low += 1
        return found

    def _read_in_order(self, transaction: Transaction, is_working: bool) -> list[_Placed]:
        """Reads a page of what comes next; where nobody works any more, gaps are left out."""
        rows = transaction.fetch_all(
            _Placed,
            f"{_QUERY} AND number >= ? AND outcome IS NOT NULL ORDER BY number LIMIT ?",
            self._batch,
            self._next,
            _PAGE,
        )
        found: list[_Placed] = []
        for each in rows:
            if each.number != self._next and is_working:
                break
            found.append(each)
            self._next = each.number + 1
        return found


def read_placed(database: BatchDatabase, batch: str) -> dict[int, int]:
    """Returns how many results each chunk has that has any. Raises StoreError."""
    with database.transact(reading=True) as transaction:
        rows = transaction.fetch(
            "SELECT number, placed FROM vibe_chunks WHERE batch = ? AND placed > 0", batch
        )
    return dict(rows)
