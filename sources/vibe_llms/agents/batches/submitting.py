"""Handing a batch over: its inputs become rows, a chunk at a time, and each chunk can be taken."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from vibe_llms.agents.batches.following import read_placed
from vibe_llms.asynchrony import finish
from vibe_llms.exceptions import RequestError, StoreError
from vibe_llms.instruments.channels.batches.databases import BatchDatabase, Transaction
from vibe_llms.instruments.channels.batches.journals import refuse_input
from vibe_llms.instruments.channels.batches.orders import (
    BatchOrder,
    KeptInput,
    decode_order,
    encode_order,
)
from vibe_llms.instruments.channels.batches.tables import count_money
from vibe_llms.messages.identities import produce_identity

CHUNK: Final = 500
"""How many inputs a worker takes at once."""

_TELLING_SECONDS: Final = 0.1
"""How often workers are told, at most, of chunks that are there: it costs as much as a chunk."""

_DIGITS: Final = 32
_COLUMNS: Final = {"number": "bigint", "name": "text", "digest": "text", "input": "text"}
_INSERT: Final = (
    "WITH given AS (SELECT * FROM {rows} AS r)"
    " INSERT INTO vibe_items (batch, number, chunk, name, digest, input, begun)"
    " SELECT ?, number, CAST(? AS integer), name, digest, input, 0 FROM given"
)

_KEPT: Final = ("attempts", "concurrency", "limits", "priority", "retries")
"""What is no part of a batch's name, and stays what it was when it was first asked for; a new cap
holds from then on."""


class _Known(msgspec.Struct, array_like=True, gc=False):
    number: int
    name: str | None
    digest: str


def derive_batch(order: BatchOrder, key: str) -> str:
    """Returns the id of a batch: with the same settings the same for a key, else a new one."""
    if not key:
        return produce_identity()
    return hashlib.sha256(f"{order.settings}{key}".encode()).hexdigest()[:_DIGITS]


class BatchHandover:
    """One batch that is being handed over.

    Args:
        database: Gets the rows.
        batch: The id of the batch.
        order: What is asked.
        chunk: How many inputs a chunk has.

    Attributes:
        before: How many results each chunk had when this began.
    """

    def __init__(
        self, database: BatchDatabase, batch: str, order: BatchOrder, chunk: int = CHUNK
    ) -> None:
        self._database = database
        self._batch = batch
        self._order = order
        self._size = chunk
        self._next = 0
        self._chunk = 0
        self._there = 0
        self._is_new = False
        self._told = -_TELLING_SECONDS
        self.before: dict[int, int] = {}

    async def perform(self, asked: AsyncIterator[KeptInput], tell: Callable[[], object]) -> None:
        """Writes all that is asked; what is there already is compared.

        Args:
            tell: Called in a thread when there is something new to take.

        Raises:
            RequestError: The batch has other inputs.
            StoreError: The database is out of reach; who asks again goes on.
        """
        try:
            await finish(asyncio.to_thread(self._begin))
            await self._write(asked, tell)
        except StoreError:
            raise
        except BaseException:  # also who is interrupted
            if self._is_new:  # what cannot be handed over as a whole is not asked for
                await finish(asyncio.to_thread(self._withdraw))
            raise

    async def _write(self, asked: AsyncIterator[KeptInput], tell: Callable[[], object]) -> None:
        page: list[KeptInput] = []
        async for each in asked:
            page.append(each)
            if len(page) == self._room:
                await finish(asyncio.to_thread(self._add, page, tell))
                page = []
        if page:
            await finish(asyncio.to_thread(self._add, page, tell))
        await finish(asyncio.to_thread(self._end))

    @property
    def _room(self) -> int:
        """How many inputs come next: as far as the rows that are there, then a chunk."""
        left = self._there - self._next
        return min(left, self._size) if left > 0 else self._size

    def _begin(self) -> None:
        order = self._order
        with self._database.transact() as transaction:
            count = transaction.change(
                "INSERT INTO vibe_batches"
                " (id, about, state, detail, priority, created, cap, committed)"
                " VALUES (?, ?, 'filling', '', ?, ?, ?, 0) ON CONFLICT (id) DO NOTHING",
                self._batch,
                encode_order(order),
                order.priority,
                time.time(),
                None if order.cap is None else count_money(order.cap),
            )
            if not count:
                self._refuse_others(transaction)
            self._look(transaction)
        self._is_new = count > 0
        self.before = read_placed(self._database, self._batch)

    def _refuse_others(self, transaction: Transaction) -> None:
        """Refuses an order that would not be heeded: that which the batch has holds."""
        rows = transaction.fetch("SELECT about FROM vibe_batches WHERE id = ?", self._batch)
        known, given = decode_order(rows[0][0]), self._order
        for name in _KEPT:
            old, new = getattr(known, name), getattr(given, name)
            if old != new:
                raise RequestError(
                    path=name,
                    detail=f"Batch {self._batch} has {name} {old}, not {new}.",
                    remedy=f"Give {name} {old} to go on with it, or another key.",
                )

    def _withdraw(self) -> None:
        """Removes the batch; if a worker has taken something of it, which is paid for, stops it.

        One that another process has handed over meanwhile, as a whole, is that one's.
        """
        with self._database.transact() as transaction:
            epochs = transaction.fetch(
                "UPDATE vibe_chunks SET epoch = epoch WHERE batch = ? RETURNING epoch", self._batch
            )
            change = "UPDATE vibe_batches SET state = 'stopped' WHERE id = ?"
            if not any(epoch for (epoch,) in epochs):
                change = "DELETE FROM vibe_batches WHERE id = ?"
            transaction.change(f"{change} AND state = 'filling'", self._batch)

    def _look(self, transaction: Transaction) -> None:
        ((self._there, self._chunk),) = transaction.fetch(
            "SELECT COALESCE(MAX(first + size), 0), COALESCE(MAX(number) + 1, 0)"
            " FROM vibe_chunks WHERE batch = ?",
            self._batch,
        )

    def _add(self, page: Sequence[KeptInput], tell: Callable[[], object]) -> None:
        is_new = False
        while page:
            with self._database.transact() as transaction:
                known = page[: max(0, self._there - self._next)]
                if known:
                    self._compare(transaction, known)
                elif self._insert(transaction, page):
                    known, is_new = page, True
                else:  # another process that hands the same batch over was here first
                    self._look(transaction)
            self._next += len(known)
            page = page[len(known) :]
        if is_new:
            self._there = self._next
            self._chunk += 1
            # Whoever hands over tells once more at the end; a worker finds the rest by itself.
            if time.monotonic() - self._told >= _TELLING_SECONDS:
                tell()
                self._told = time.monotonic()

    def _compare(self, transaction: Transaction, page: Sequence[KeptInput]) -> None:
        rows = transaction.fetch_all(
            _Known,
            "SELECT number, name, digest FROM vibe_items"
            " WHERE batch = ? AND number >= ? AND number < ? ORDER BY number",
            self._batch,
            self._next,
            self._next + len(page),
        )
        for known, given in zip(rows, page, strict=True):
            if (known.name, known.digest) != (_write_name(given.name), given.digest):
                key = known.number if given.name is None else given.name
                raise refuse_input(f"Batch {self._batch}", key, "or give another key")

    def _insert(self, transaction: Transaction, page: Sequence[KeptInput]) -> bool:
        is_first = transaction.change(
            "INSERT INTO vibe_chunks VALUES (?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, 0, 0)"
            " ON CONFLICT (batch, number) DO NOTHING",
            self._batch,
            self._chunk,
            self._next,
            len(page),
        )
        if not is_first:
            return False
        given = (
            range(self._next, self._next + len(page)),
            [_write_name(each.name) for each in page],
            [each.digest for each in page],
            [each.input for each in page],
        )
        transaction.change_all(_INSERT, _COLUMNS, given, self._batch, self._chunk)
        return True

    def _end(self) -> None:
        with self._database.transact() as transaction:
            self._look(transaction)
            if self._next < self._there:
                raise RequestError(
                    path="inputs",
                    detail=f"Batch {self._batch} has {self._there:,} inputs, and {self._next:,} "
                    "were given.",
                    remedy="Give all that it has, with new ones behind them, or another key.",
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


def settle(transaction: Transaction, batch: str) -> None:
    """Notes that a batch has come to its end, where it has."""
    transaction.change(
        "UPDATE vibe_batches SET state = 'done', ended = ? WHERE id = ? AND state = 'open'"
        " AND total <= (SELECT COALESCE(SUM(done), 0) FROM vibe_chunks WHERE batch = ?)",
        time.time(),
        batch,
        batch,
    )


def _write_name(name: str | None) -> str | None:
    return None if name is None else json.dumps(name)


class DueChunk(NamedTuple):
    """A chunk of which not all is done.

    Attributes:
        batch: The id of its batch.
        number: Its place in the batch, from 0.
        epoch: How often it was taken.
        priority: Of its batch.
    """

    batch: str
    number: int
    epoch: int
    priority: int


def survey_due(database: BatchDatabase, batch: str = "", limit: int = 32) -> list[DueChunk]:
    """Returns chunks that somebody has to work at, of one batch or of all.

    Of each batch the first ones; what comes behind them has time.

    Raises:
        StoreError: The database is out of reach.
    """
    found: list[DueChunk] = []
    with database.transact() as transaction:
        rows = transaction.fetch(
            "SELECT id, priority FROM vibe_batches WHERE state IN ('filling', 'open')"
            + (" AND id = ?" if batch else ""),
            *([batch] if batch else []),
        )
        for identity, priority in rows:
            chunks = transaction.fetch(
                "SELECT number, epoch FROM vibe_chunks WHERE batch = ? AND done < size"
                " ORDER BY number LIMIT ?",
                identity,
                limit,
            )
            found += [DueChunk(identity, number, epoch, priority) for number, epoch in chunks]
            if not chunks:
                settle(transaction, identity)
    return found
