"""The journal of a batch as rows of a database, of which each worker writes those of a chunk.

A row is there before its input is asked, and gets what came of it. The first result that is
written for a row counts: a worker that was paused, and whose chunk another has taken since, gives
what it has paid for, and begins nothing more.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from vibe_llms.exceptions import Finding, StoreError
from vibe_llms.gathering import Gatherer
from vibe_llms.instruments.channels.batches.databases import BatchDatabase, Transaction
from vibe_llms.instruments.channels.batches.items import BUCKETS, BatchItem, read_buckets
from vibe_llms.instruments.channels.batches.journals import DoneItem, refuse_input
from vibe_llms.instruments.channels.batches.runs import encode
from vibe_llms.instruments.channels.batches.tables import WORKING, count_money
from vibe_llms.messages.canisters import Usage
from vibe_llms.telemetry.prices import Price, price_usage

_COLUMNS: Final = {"number": "bigint", "place": "bigint", "failed": "integer", "outcome": "text"}
# An insertion looks each row up by its key, which no planner is tempted to do otherwise. All rows
# are there, as the chunk is, which is locked.
_WRITE: Final = (
    "WITH given AS (SELECT * FROM {rows} AS r)"
    " INSERT INTO vibe_items"
    " (batch, number, chunk, digest, input, begun, place, failed, outcome)"
    " SELECT ?, number, 0, '', '', 0, place, failed, outcome FROM given WHERE true"
    " ON CONFLICT (batch, number) DO UPDATE SET place = excluded.place,"
    " failed = excluded.failed, outcome = excluded.outcome WHERE vibe_items.outcome IS NULL"
)
_GATHERING_SECONDS: Final = 0.025
"""How long results are let come before they are written together, where nobody waits for them."""
_MOST_TOKENS: Final = 1 << 36
_MOST_COST: Final = 1 << 43
"""What one answer counts as at most, whatever its vendor says: $8,796 are 2⁴³. A million such still
fit into a column; a sum that does not would be refused again and again."""

_HOUR_SECONDS: Final = 3600
_PAUSE_SECONDS: Final = 0.5
"""How long is waited for a database that is away, with results in hand that were paid for."""


# Not followed by Python's collector, as many wait at once: what an item is made of would be looked
# through again and again, and with it all that lives.
class _Result(msgspec.Struct, gc=False):
    number: int
    line: str
    has_failed: bool
    input_tokens: int
    output_tokens: int
    cost: int
    unpriced: int
    reserved: int


class RowJournal:
    """What came of the items of a chunk; an :class:`.ItemJournal`.

    Args:
        database: Has the rows.
        batch: The id of the batch.
        chunk: Its number.
        epoch: Under which this worker has taken it.
        settings: The digest of what tells this batch's lines from those of others.
        room: How many results may wait for those before them; more come together where there is
            some. Without any, each is written as soon as can be.
        is_leaving: Says whether nobody waits any more for a database that is away.
    """

    def __init__(
        self,
        database: BatchDatabase,
        batch: str,
        chunk: int,
        epoch: int,
        *,
        settings: str = "",
        room: int = 0,
        is_leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._database = database
        self._batch = batch
        self._chunk = chunk
        self._epoch = epoch
        self._settings = settings
        self._is_leaving = is_leaving
        self._reserved: dict[int, int] = {}
        self._entries: dict[str | int, DoneItem] | None = None
        self._closed = threading.Event()
        self._gatherer: Gatherer[_Result, None] = Gatherer(
            self._write,
            pause_seconds=_GATHERING_SECONDS if room else 0.0,
            enough=max(1, room // 2),  # so that nobody meets the end of the room
        )
        self.must_stop = ""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """None: a database mends itself."""
        return ()

    def reserve(self, number: int, amount: int) -> None:
        """Notes what was put down for an item, which its result replaces by what it has cost."""
        self._reserved[number] = amount

    async def append(self, item: BatchItem[Any], line: bytes, input_digest: str) -> None:
        """Writes what came of an item, unless something is there already.

        A database that is away is waited for. ``must_stop`` says afterwards, where it does, why
        nothing more is to be begun.
        """
        await asyncio.shield(self.put(item, input_digest, line))

    def put(
        self, item: BatchItem[Any], input_digest: str, line: bytes = b""
    ) -> asyncio.Future[Sequence[None]]:
        """Begins to write what came of an item; returns what tells when it is kept.

        That is shared by all who are written together: who may be cancelled waits behind a shield.
        """
        if not line:
            item, line = encode(item, self._settings, input_digest)
        usage = item.usage
        cost, unpriced = _price(item)
        return self._gatherer.put(
            _Result(
                item.index,
                line.decode().rstrip(),
                item.error is not None,
                min((usage and usage.total_input_tokens) or 0, _MOST_TOKENS),
                min((usage and usage.total_output_tokens) or 0, _MOST_TOKENS),
                min(cost, _MOST_COST),
                unpriced,
                self._reserved.pop(item.index, 0) if self._reserved else 0,
            )
        )

    @property
    def backlog(self) -> int:
        """How many results wait until those before them are written."""
        return self._gatherer.backlog

    def find(self, key: str | int, input_digest: str) -> DoneItem | None:
        """Returns what was done of an item when this was first asked, by its name or place."""
        if self._entries is None:
            self._entries = self._read_entries()
        entry = self._entries.get(key)
        if entry is not None and entry.input_digest != input_digest:
            raise refuse_input(f"Batch {self._batch}", key, "or give another key")
        return entry

    def read(self, entry: DoneItem) -> bytes:
        """Returns the line of an item."""
        with self._database.transact(reading=True) as transaction:
            ((line,),) = transaction.fetch(
                "SELECT outcome FROM vibe_items WHERE batch = ? AND number = ?",
                self._batch,
                entry.offset,
            )
        return str(line).encode()

    def synchronize(self) -> None:
        """Does nothing: what was committed is on the disk."""

    def settle(self) -> None:
        """Does nothing: rows are there once, and in order."""

    def close(self) -> None:
        """Waits for a database that is away no longer."""
        self._closed.set()

    async def finish(self) -> None:
        """Waits until all that was appended is kept."""
        await self._gatherer.close()
        self.close()

    def _write(self, results: Sequence[_Result]) -> Sequence[None]:
        while True:
            try:
                self._keep(results)
            except StoreError:
                if self._is_leaving() or self._closed.wait(_PAUSE_SECONDS):
                    raise
            else:
                return [None] * len(results)

    def _keep(self, results: Sequence[_Result]) -> None:
        try:
            self._insert(results, all_are_new=True)
        except _NotNewError:
            self._insert(results, all_are_new=False)

    def _insert(self, results: Sequence[_Result], *, all_are_new: bool) -> None:
        with self._database.transact() as transaction:
            # First the chunk, which is locked from then on: places are given in the order of
            # commits, so that who follows the batch passes none over.
            placed, epoch = self._lock(transaction)
            if epoch < 0:
                self.must_stop = "The batch was deleted."
                return
            new, late = (results, ()) if all_are_new else self._part(transaction, results)
            given = (
                [each.number for each in new],
                range(placed + 1, placed + 1 + len(new)),
                [int(each.has_failed) for each in new],
                [each.line for each in new],
            )
            written = 0
            if new:
                written = transaction.change_all(_WRITE, _COLUMNS, given, self._batch)
            if all_are_new and written != len(new):
                raise _NotNewError
            states = transaction.fetch(
                "SELECT state, cap FROM vibe_batches WHERE id = ?", self._batch
            )
            is_capped = bool(states and states[0][1] is not None)
            self._count(transaction, new, late, is_capped=is_capped)
        self.must_stop = self._explain(states, epoch)

    def _explain(self, states: list[tuple[Any, ...]], epoch: int) -> str:
        if states[0][0] not in WORKING:
            return f"The batch is {states[0][0]}."
        return "" if epoch == self._epoch else "Another worker has taken the chunk."

    def _lock(self, transaction: Transaction) -> tuple[int, int]:
        found = transaction.fetch(
            "UPDATE vibe_chunks SET placed = placed WHERE batch = ? AND number = ?"
            " RETURNING placed, epoch",
            self._batch,
            self._chunk,
        )
        return (found[0][0], found[0][1]) if found else (0, -1)

    def _part(
        self, transaction: Transaction, results: Sequence[_Result]
    ) -> tuple[list[_Result], list[_Result]]:
        """Parts what is new from what came too late; what this one has written before is neither.

        Of a row that is gone, with its batch, nobody counts anything.
        """
        new, late = list[_Result](), list[_Result]()
        for each in results:
            for (outcome,) in transaction.fetch(
                "SELECT outcome FROM vibe_items WHERE batch = ? AND number = ?",
                self._batch,
                each.number,
            ):
                if outcome is None:
                    new.append(each)
                elif outcome != each.line:
                    late.append(each)
        return new, late

    def _count(
        self,
        transaction: Transaction,
        new: Sequence[_Result],
        late: Sequence[_Result],
        *,
        is_capped: bool,
    ) -> None:
        paid = (*new, *late)  # what came too late is no result, and was billed all the same
        transaction.change(
            "UPDATE vibe_chunks SET done = done + ?, failed = failed + ?, placed = placed + ?,"
            " input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, cost = cost + ?,"
            " unpriced = unpriced + ? WHERE batch = ? AND number = ?",
            len(new),
            sum(each.has_failed for each in new),
            len(new),
            sum(each.input_tokens for each in paid),
            sum(each.output_tokens for each in paid),
            sum(each.cost for each in paid),
            sum(each.unpriced for each in paid),
            self._batch,
            self._chunk,
        )
        # What was put down for a result that came too late stays so: it was paid for all the same.
        # Without a cap nothing is put down, and no worker waits for the row of the batch.
        if is_capped and (change := sum(map(_settle, new))):
            transaction.change(
                "UPDATE vibe_batches SET committed = committed + ? WHERE id = ?",
                change,
                self._batch,
            )

    def _read_entries(self) -> dict[str | int, DoneItem]:
        with self._database.transact(reading=True) as transaction:
            rows = transaction.fetch(
                "SELECT number, name, digest, failed FROM vibe_items"
                " WHERE batch = ? AND chunk = ? AND outcome IS NOT NULL",
                self._batch,
                self._chunk,
            )
        return {
            number if name is None else json.loads(name): DoneItem(number, digest, bool(failed))
            for number, name, digest, failed in rows
        }


def _settle(result: _Result) -> int:
    """Returns by how much the cost of a result differs from what was put down for it.

    Where nobody knows the whole of it, what was put down stays: it may have cost as much.
    """
    change = result.cost - result.reserved
    return max(change, 0) if result.unpriced else change


class _NotNewError(Exception):
    """Somebody else has written a result, or this one has written it before."""


def _price(item: BatchItem[Any]) -> tuple[int, int]:
    """Returns what an item has cost, and 1 where nobody knows."""
    origin = item.origin
    if origin is None:
        return 0, 0
    if origin.usage is None:
        return 0, 1
    hour = int(time.time() // _HOUR_SECONDS)  # prices change by the day, and workers live for long
    return _price_counts(hour, origin.provider, origin.model, *read_buckets(origin.usage))


@lru_cache(4096)
def _price_counts(hour: int, provider: str, model: str, *counts: int | None) -> tuple[int, int]:
    counted: dict[str, Any] = dict(zip(BUCKETS, counts, strict=True))
    usage = Usage(**counted)
    price = price_usage(usage, provider=provider, model=model)
    if not isinstance(price, Price):
        return 0, 1
    return count_money(price.amount), int(not price.is_complete)
