"""Taking a chunk of a batch: who has it, and what of it is to be done."""

from __future__ import annotations

import json
from typing import NamedTuple

import msgspec

from vibe_llms.instruments.channels.batches.databases import BatchDatabase
from vibe_llms.instruments.channels.batches.tables import WORKING


# Not followed by Python's collector, as hundreds are there at once, and none is part of a cycle.
class InputRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An input that is to be done.

    Attributes:
        number: Its place in the batch, from 0.
        told: The name by which it is known, as JSON, where it has one.
        digest: Of the input.
        input: What is asked, as it was written.
        begun: How often it was asked by itself and nothing came of it.
    """

    number: int
    told: str | None
    digest: str
    input: str
    begun: int

    @property
    def name(self) -> str | None:
        """By which it is known, where it has a name."""
        return None if self.told is None else str(json.loads(self.told))


class Taken(NamedTuple):
    """A chunk that this worker has.

    Attributes:
        epoch: Under which it was taken.
        attempts: How often it was, this time included, but for those who left by themselves.
        order: What the batch asks for, as it is kept.
        cap: What the batch may cost; ``None`` for any.
        rows: What is to be done of it.
    """

    epoch: int
    attempts: int
    order: str
    cap: int | None
    rows: list[InputRow]


def take_up(database: BatchDatabase, batch: str, chunk: int) -> Taken | None:
    """Takes a chunk, so that nobody else goes on with it; ``None`` where it is not worked on.

    Raises:
        StoreError: The database is out of reach.
    """
    with database.transact() as transaction:
        states = transaction.fetch("SELECT state, about, cap FROM vibe_batches WHERE id = ?", batch)
        if not states or states[0][0] not in WORKING:
            return None
        _, order, cap = states[0]
        found = transaction.fetch(
            "UPDATE vibe_chunks SET epoch = epoch + 1, attempts = attempts + 1"
            " WHERE batch = ? AND number = ? AND done < size"
            " RETURNING epoch, attempts, first, size",
            batch,
            chunk,
        )
        if not found:
            return None
        epoch, attempts, first, size = found[0]
        rows = transaction.fetch_all(
            InputRow,
            "SELECT number, name, digest, input, begun FROM vibe_items"
            " WHERE batch = ? AND number >= ? AND number < ? AND outcome IS NULL ORDER BY number",
            batch,
            first,
            first + size,
        )
    return Taken(epoch, attempts, order, cap, rows)


def leave(database: BatchDatabase, batch: str, chunk: int, epoch: int) -> None:
    """Lets others have a chunk of which not all is done; that is no failed attempt."""
    with database.transact() as transaction:
        transaction.change(
            "UPDATE vibe_chunks SET attempts = attempts - 1"
            " WHERE batch = ? AND number = ? AND epoch = ? AND attempts > 0",
            batch,
            chunk,
            epoch,
        )


def begin_alone(database: BatchDatabase, batch: str, number: int) -> None:
    """Notes that an item is asked by itself, so that it is known if it kills who asks it."""
    with database.transact() as transaction:
        transaction.change(
            "UPDATE vibe_items SET begun = begun + 1 WHERE batch = ? AND number = ?", batch, number
        )
