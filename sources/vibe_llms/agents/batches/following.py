"""Following a batch: what came of its items, read from its rows by anybody, as often as wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from vibe_llms.asynchrony import finish
from vibe_llms.exceptions import StoreError
from vibe_llms.instruments.channels.batches.databases import BatchDatabase
from vibe_llms.instruments.channels.batches.orders import Outcome
from vibe_llms.instruments.channels.batches.tables import WORKING

_PAGE: Final = 500
_CHUNKS: Final = 64
"""How many chunks are looked at, at once: those behind them wait until these are through."""
_FIRST_SECONDS: Final = 0.05
_LAST_SECONDS: Final = 1.0


class Follower:
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

    async def follow(self, *, ordered: bool) -> AsyncGenerator[Outcome]:
        """Yields what came of each item. Raises StoreError where it does not wait."""
        if self._before is None:
            self._before = await finish(asyncio.to_thread(read_placed, self._database, self._batch))
        read = self._read_in_order if ordered else self._read_new
        pause = _FIRST_SECONDS
        while True:
            try:
                # Before the rows: what was written before the batch ended is read after that.
                is_working = self._waits and await finish(asyncio.to_thread(self._is_working))
                outcomes = await finish(asyncio.to_thread(read))
            except StoreError:
                if not self._waits:
                    raise
                is_working, outcomes = True, []
            for each in outcomes:
                yield each
            if outcomes:
                pause = _FIRST_SECONDS
            elif not is_working:
                return
            else:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LAST_SECONDS)

    def _is_working(self) -> bool:
        with self._database.transact(reading=True) as transaction:
            rows = transaction.fetch("SELECT state FROM vibe_batches WHERE id = ?", self._batch)
        return bool(rows) and rows[0][0] in WORKING

    def _tell(self, line: str, chunk: int, place: int) -> Outcome:
        assert self._before is not None
        return Outcome(line.encode(), place <= self._before.get(chunk, 0))

    def _read_new(self) -> list[Outcome]:
        """Reads a page of what came since."""
        found: list[Outcome] = []
        with self._database.transact(reading=True) as transaction:
            chunks = transaction.fetch(
                "SELECT number, first, size, placed, done FROM vibe_chunks"
                " WHERE batch = ? AND number >= ? ORDER BY number LIMIT ?",
                self._batch,
                self._low,
                _CHUNKS,
            )
            for number, first, size, placed, done in chunks:
                seen = self._seen.get(number, 0)
                if placed > seen and len(found) < _PAGE:
                    rows = transaction.fetch_all(
                        "SELECT place, outcome FROM vibe_items WHERE batch = ? AND number >= ?"
                        " AND number < ? AND place > ? AND outcome IS NOT NULL ORDER BY place",
                        self._batch,
                        first,
                        first + size,
                        seen,
                    )
                    found += [self._tell(line, number, place) for place, line in rows]
                    self._seen[number] = seen = placed
                if number == self._low and done == size and seen == placed:
                    self._seen.pop(number, None)
                    self._low += 1
        return found

    def _read_in_order(self) -> list[Outcome]:
        """Reads a page of what comes next; where it does not wait, gaps are left out."""
        found: list[Outcome] = []
        with self._database.transact(reading=True) as transaction:
            rows: list[tuple[Any, ...]] = transaction.fetch_all(
                "SELECT number, place, outcome, chunk FROM vibe_items"
                " WHERE batch = ? AND number >= ? AND outcome IS NOT NULL"
                " ORDER BY number LIMIT ?",
                self._batch,
                self._next,
                _PAGE,
            )
        for number, place, line, chunk in rows:
            if number != self._next and self._waits:
                break
            found.append(self._tell(line, chunk, place))
            self._next = number + 1
        return found


def read_placed(database: BatchDatabase, batch: str) -> dict[int, int]:
    """Returns how many results each chunk has that has any. Raises StoreError."""
    with database.transact(reading=True) as transaction:
        rows = transaction.fetch(
            "SELECT number, placed FROM vibe_chunks WHERE batch = ? AND placed > 0", batch
        )
    return dict(rows)
