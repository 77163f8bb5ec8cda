"""Taking a chunk of a batch: who has it, for how long, and what of it is to be done."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from vibe_llms.batches.databases import (
    AT_ONCE_BYTES,
    BatchDatabase,
    Transaction,
)
from vibe_llms.batches.orders import KeptInput, decode_order
from vibe_llms.batches.tables import WORKING

LEASE_SECONDS: Final = 15.0
"""How long nobody else takes a chunk, unless that is said again."""

_WORKING: Final = ", ".join(f"'{state}'" for state in WORKING)
# Whoever takes a chunk holds this row meanwhile, so that no two choose the same one, nor more than
# all workers together are to have.
_GATE: Final = (
    "INSERT INTO vibe_budgets (name, next) VALUES ('', 0) ON CONFLICT (name) DO UPDATE SET next = 0"
)


# Not followed by Python's collector, as hundreds are there at once, and none is part of a cycle.
class InputRow(msgspec.Struct, frozen=True, gc=False):
    """An input that is to be done.

    Attributes:
        number: Its place in the batch, from 0.
        name: By which it is known, where it has a name.
        digest: Of the input.
        input: What is asked, as it was written.
        begun: How often it was asked by itself and nothing came of it.
    """

    number: int
    name: str | None
    digest: str
    input: str
    begun: int


class Taken(NamedTuple):
    """A chunk that this worker has.

    Attributes:
        batch: The id of its batch.
        chunk: Its place in the batch, from 0.
        epoch: Under which it was taken.
        attempts: How often it was, this time included, but for those who left by themselves.
        order: What the batch asks for, as it is kept.
        cap: What the batch may cost; ``None`` for any.
        rows: What is to be done of it.
        doubted: How many of these may have been asked by whoever had it before, and died.
    """

    batch: str
    chunk: int
    epoch: int
    attempts: int
    order: str
    cap: int | None
    rows: list[InputRow]
    doubted: int = 0


def take_next(
    database: BatchDatabase,
    seconds: float = LEASE_SECONDS,
    total: int | None = None,
    held: Collection[tuple[str, int]] = (),
    *,
    at_once: bool = False,
) -> Taken | None:
    """Takes the chunk that comes next, so that nobody else works at it; ``None`` where none does.

    Of the batches that are wanted most it is one of that which has waited longest.

    Args:
        seconds: How long nobody else takes it.
        total: How many chunks all workers together may have.
        held: What this worker has: that is none for it, also where its time has run out, as on a
            machine that was asleep.
        at_once: As of :meth:`.BatchDatabase.transact`; inputs that are long are waited for.

    Raises:
        StoreError: The database is out of reach.
        BlockingIOError: It would have to wait, and was not to.
    """
    if at_once:
        with database.transact(at_once=True) as transaction:  # which holds all others off
            found = _find_next(transaction, database.now, total, held)
            if found is None:
                return None
            if _measure_inputs(transaction, *found) > AT_ONCE_BYTES:
                raise BlockingIOError
            return take(transaction, database.now, *found, seconds)
    with database.transact(reading=True) as transaction:  # who has nothing to do writes nothing
        if _find_next(transaction, database.now, total, held) is None:
            return None
    with database.transact() as transaction:
        transaction.change(_GATE)
        found = _find_next(transaction, database.now, total, held)
        return None if found is None else take(transaction, database.now, *found, seconds)


def _measure_inputs(transaction: Transaction, batch: str, chunk: int) -> int:
    query = "SELECT length(inputs) FROM vibe_inputs WHERE batch = ? AND chunk = ?"
    return int(transaction.fetch(query, batch, chunk)[0][0])


def _find_next(
    transaction: Transaction, now: str, total: int | None, held: Collection[tuple[str, int]]
) -> tuple[str, int] | None:
    if total is not None:
        query = f"SELECT COUNT(*) FROM vibe_chunks WHERE done < size AND leased > {now}"
        if transaction.fetch(query)[0][0] >= total:
            return None
    for (batch,) in transaction.fetch(
        f"SELECT id FROM vibe_batches WHERE state IN ({_WORKING})"
        " ORDER BY priority DESC, taken, created, id"
    ):
        for (chunk,) in transaction.fetch(
            f"SELECT number FROM vibe_chunks WHERE batch = ? AND done < size AND leased <= {now}"
            " ORDER BY number LIMIT ?",
            batch,
            len(held) + 1,
        ):
            if (batch, chunk) not in held:
                return batch, chunk
    return None


def take(
    transaction: Transaction, now: str, batch: str, chunk: int, seconds: float = LEASE_SECONDS
) -> Taken | None:
    """Takes a chunk, from whoever has it; ``None`` where it is not worked on.

    Args:
        now: What says the moment in statements.
        seconds: How long nobody else takes it.
    """
    # Who leaves says so; who has died, or was paused for too long, has it still.
    query = "SELECT 1 FROM vibe_chunks WHERE batch = ? AND number = ? AND leased > 0"
    was_left = not transaction.fetch(query, batch, chunk)
    found = transaction.fetch(
        f"UPDATE vibe_chunks SET epoch = epoch + 1, attempts = attempts + 1, leased = {now} + ?"
        " WHERE batch = ? AND number = ? AND done < size"
        f" AND EXISTS (SELECT 1 FROM vibe_batches WHERE id = ? AND state IN ({_WORKING}))"
        " RETURNING epoch, attempts, first, answered, begun",
        seconds,
        batch,
        chunk,
        batch,
    )
    if not found:
        return None
    epoch, attempts, first, answered, begun = found[0]
    ((order, cap),) = transaction.fetch(
        f"UPDATE vibe_batches SET taken = {now} WHERE id = ? RETURNING about, cap", batch
    )
    counts = read_begun(begun)
    inputs = read_inputs(transaction, batch, chunk)
    rows = _choose_rows(inputs, first, ~read_bits(answered), counts)
    doubted = 0 if was_left else _doubt(transaction, batch, chunk, epoch - 1, order, len(rows))
    return Taken(batch, chunk, epoch, attempts, order, cap, rows, doubted)


def _doubt(
    transaction: Transaction, batch: str, chunk: int, epoch: int, order: str, left: int
) -> int:
    """Notes how many inputs may be billed twice, of those that have no result; returns it.

    As many as are asked at once, and as many whose results wait for the database. A run of an
    engine goes on where it was, and tells by itself what it has asked twice.
    """
    asked = decode_order(order)
    count = 0 if asked.is_engine else min(left, 2 * asked.concurrency)
    if count:
        transaction.change(
            "INSERT INTO vibe_doubts VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            batch,
            chunk,
            epoch,
            count,
        )
    return count


def renew(database: BatchDatabase, taken: Taken, seconds: float = LEASE_SECONDS) -> None:
    """Has nobody else take a chunk for a while yet, unless somebody has. Raises StoreError."""
    with database.transact() as transaction:
        transaction.change(
            f"UPDATE vibe_chunks SET leased = {database.now} + ?"
            " WHERE batch = ? AND number = ? AND epoch = ? AND done < size",
            seconds,
            taken.batch,
            taken.chunk,
            taken.epoch,
        )


def leave(database: BatchDatabase, taken: Taken, *, broke_off: bool = False) -> None:
    """Lets others have a chunk of which not all is done; that is no failed attempt.

    Args:
        broke_off: Whether inputs were being asked.

    Raises:
        StoreError: The database is out of reach.
    """
    with database.transact() as transaction:
        found = transaction.fetch(
            "UPDATE vibe_chunks SET leased = 0,"
            " attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END"
            " WHERE batch = ? AND number = ? AND epoch = ? RETURNING size - done",
            taken.batch,
            taken.chunk,
            taken.epoch,
        )
        if broke_off and found:
            _doubt(transaction, taken.batch, taken.chunk, taken.epoch, taken.order, found[0][0])


def _choose_rows(
    inputs: Sequence[KeptInput], first: int, bits: int, counts: dict[int, int]
) -> list[InputRow]:
    return [
        InputRow(first + place, read_name(each.name), each.digest, each.input, counts.get(place, 0))
        for place, each in enumerate(inputs)
        if bits >> place & 1
    ]


def read_answered(database: BatchDatabase, taken: Taken) -> list[InputRow]:
    """Returns the inputs of a chunk that have a result. Raises StoreError."""
    with database.transact(reading=True) as transaction:
        for first, answered in transaction.fetch(
            "SELECT first, answered FROM vibe_chunks WHERE batch = ? AND number = ?",
            taken.batch,
            taken.chunk,
        ):
            inputs = read_inputs(transaction, taken.batch, taken.chunk)
            return _choose_rows(inputs, first, read_bits(answered), {})
    return []


def is_answered(database: BatchDatabase, taken: Taken, number: int) -> bool:
    """Tells whether an input has a result by now, of whomever. Raises StoreError."""
    with database.transact(reading=True) as transaction:
        for first, answered in transaction.fetch(
            "SELECT first, answered FROM vibe_chunks WHERE batch = ? AND number = ?",
            taken.batch,
            taken.chunk,
        ):
            return bool(read_bits(answered) >> (number - first) & 1)
    return True  # the batch was deleted


def begin_alone(database: BatchDatabase, batch: str, chunk: int, number: int) -> None:
    """Notes that an item is asked by itself, so that it is known if it kills who asks it."""
    with database.transact() as transaction:
        for first, begun in transaction.fetch(
            "UPDATE vibe_chunks SET begun = begun WHERE batch = ? AND number = ?"
            " RETURNING first, begun",
            batch,
            chunk,
        ):
            counts = read_begun(begun)
            counts[number - first] = counts.get(number - first, 0) + 1
            transaction.change(
                "UPDATE vibe_chunks SET begun = ? WHERE batch = ? AND number = ?",
                write_begun(counts),
                batch,
                chunk,
            )


def settle(transaction: Transaction, batch: str) -> None:
    """Notes that a batch has come to its end, where it has.

    The batch is locked first: of two whose chunks end at the same moment, the later one sees both.
    """
    transaction.change("UPDATE vibe_batches SET total = total WHERE id = ?", batch)
    transaction.change(
        "UPDATE vibe_batches SET state = 'done', ended = ? WHERE id = ? AND state = 'open'"
        " AND total <= (SELECT COALESCE(SUM(done), 0) FROM vibe_chunks WHERE batch = ?)",
        time.time(),
        batch,
        batch,
    )


def read_inputs(transaction: Transaction, batch: str, chunk: int) -> list[KeptInput]:
    """Reads the inputs of a chunk; their names are JSON yet."""
    ((inputs,),) = transaction.fetch(
        "SELECT inputs FROM vibe_inputs WHERE batch = ? AND chunk = ?", batch, chunk
    )
    return _decode_inputs(inputs)


def write_inputs(inputs: Sequence[KeptInput]) -> bytes:
    """Writes the inputs of a chunk, whose names are JSON."""
    return _encode(inputs)


def read_name(told: str | None) -> str | None:
    """Reads a name as it is kept."""
    return None if told is None else str(json.loads(told))


def read_bits(kept: bytes) -> int:
    """Reads which inputs have a result."""
    return int.from_bytes(kept, "little")


def write_bits(bits: int) -> bytes:
    """Writes which inputs have a result."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def read_begun(kept: str) -> dict[int, int]:
    """Reads how often inputs were asked by themselves, by their places in the chunk."""
    return _decode_begun(kept) if kept else {}


def write_begun(counts: dict[int, int]) -> str:
    """Writes how often inputs were asked by themselves."""
    return _encode(counts).decode() if counts else ""


_encode: Final = msgspec.json.Encoder().encode
_decode_inputs: Final = msgspec.json.Decoder(list[KeptInput]).decode
_decode_begun: Final = msgspec.json.Decoder(dict[int, int]).decode
