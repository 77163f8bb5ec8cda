"""Chunks of batches as rows: due chunks, their workers, and the remaining inputs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from vibe_llms.batches.batch_specs import StoredInput, decode_spec
from vibe_llms.batches.databases import BatchDatabase, Transaction
from vibe_llms.batches.tables import WORKING

_WORKING: Final = ", ".join(f"'{state}'" for state in WORKING)


# Not tracked by Python's garbage collector: hundreds exist at once, and none is part of a cycle.
class InputRow(msgspec.Struct, frozen=True, gc=False):
    """Input without a result.

    Attributes:
        number: Its place in the batch, from 0.
        name: Name of the input, if it has one.
        digest: Digest of the input.
        input: The input in its stored form.
        alone_attempts: How often it was processed alone without a result.
    """

    number: int
    name: str | None
    digest: str
    input: str
    alone_attempts: int


class TakenChunk(NamedTuple):
    """Chunk that this worker has taken.

    Attributes:
        batch: The id of its batch.
        chunk: Its place in the batch, from 0.
        epoch: Epoch under which it was taken (fencing token).
        attempts: How often workers took the chunk, including this time, but without workers that
            released it.
        spec: Specification of the batch, in its stored form.
        cap: Maximum cost of the batch; ``None`` for no cap.
        rows: Inputs without a result.
        doubted: How many of these a previous worker that died may have processed.
    """

    batch: str
    chunk: int
    epoch: int
    attempts: int
    spec: str
    cap: int | None
    rows: list[InputRow]
    doubted: int = 0


class DueChunk(NamedTuple):
    """Chunk that is due for a worker.

    Attributes:
        batch: The id of its batch.
        number: Its place in the batch, from 0.
        priority: Priority of the batch.
        position: Position of the chunk in the queue, among those of the same priority.
    """

    batch: str
    number: int
    priority: int
    position: int


def read_due(transaction: Transaction, batch: str = "", number: int = -1) -> list[DueChunk]:
    """Return the incomplete chunks of batches that are due.

    Args:
        batch: Id of the only batch to consider; empty for all.
        number: Number of the only chunk to consider; -1 for all.
    """
    query = (
        "SELECT c.batch, c.number, b.priority, b.start + c.number FROM vibe_chunks c"
        f" JOIN vibe_batches b ON b.id = c.batch WHERE c.done < c.size AND b.state IN ({_WORKING})"
    )
    values: list[object] = []
    for condition, value in (("b.id", batch), ("c.number", number)):
        if value not in ("", -1):
            query += f" AND {condition} = ?"
            values.append(value)
    return [
        DueChunk(*row) for row in transaction.fetch(f"{query} ORDER BY c.batch, c.number", *values)
    ]


def find_start(transaction: Transaction, priority: int) -> int:
    """Return the position in the queue at which a new batch starts.

    The number is the position of the first waiting chunk, from which batches of one priority take
    turns.
    """
    ((start,),) = transaction.fetch(
        "SELECT COALESCE(MIN(b.start + c.number), 0) FROM vibe_batches b JOIN vibe_chunks c"
        f" ON c.batch = b.id WHERE b.priority = ? AND c.done < c.size AND b.state IN ({_WORKING})",
        priority,
    )
    return int(start)


def take(database: BatchDatabase, batch: str, chunk: int) -> TakenChunk | None:
    """Take a chunk, even from another worker; return ``None`` if it is not due.

    Raises:
        StoreError: The database is unreachable.
    """
    with database.transact() as transaction:
        # A worker that leaves releases the chunk; one that died or is paused still holds it.
        query = "SELECT 1 FROM vibe_chunks WHERE batch = ? AND number = ? AND held > 0"
        has_other_worker = bool(transaction.fetch(query, batch, chunk))
        found = transaction.fetch(
            "UPDATE vibe_chunks SET epoch = epoch + 1, attempts = attempts + 1, held = 1"
            " WHERE batch = ? AND number = ? AND done < size"
            f" AND EXISTS (SELECT 1 FROM vibe_batches WHERE id = ? AND state IN ({_WORKING}))"
            " RETURNING epoch, attempts, first, answered, begun",
            batch,
            chunk,
            batch,
        )
        if not found:
            return None
        epoch, attempts, first, answered, alone_attempts = found[0]
        ((spec, cap),) = transaction.fetch(
            "SELECT about, cap FROM vibe_batches WHERE id = ?", batch
        )
        counts = read_alone_counts(alone_attempts)
        inputs = read_inputs(transaction, batch, chunk)
        rows = _choose_rows(inputs, first, ~read_bits(answered), counts)
        doubted = 0
        if has_other_worker:
            doubted = _record_doubt(transaction, batch, chunk, epoch - 1, spec, len(rows))
        return TakenChunk(batch, chunk, epoch, attempts, spec, cap, rows, doubted)


def _record_doubt(
    transaction: Transaction, batch: str, chunk: int, epoch: int, spec: str, remaining: int
) -> int:
    """Record the number of inputs without a result that may be billed twice; return it.

    These are the inputs in progress, plus as many whose results wait for the database, and as many
    whose results are being written. A run of an engine does not count: it resumes where it was, and
    itself records the requests that it has sent twice.
    """
    batch_spec = decode_spec(spec)
    # Of an embedder, the concurrency is that of requests with many inputs.
    most = remaining if batch_spec.genus else 3 * batch_spec.concurrency
    count = 0 if batch_spec.is_engine else min(remaining, most)
    if count:
        transaction.change(
            "INSERT INTO vibe_doubts VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            batch,
            chunk,
            epoch,
            count,
        )
    return count


def leave(database: BatchDatabase, taken_chunk: TakenChunk, *, broke_off: bool = False) -> None:
    """Release an incomplete chunk; this does not count as a failed attempt.

    Args:
        broke_off: Whether inputs were in progress.

    Raises:
        StoreError: The database is unreachable.
    """
    with database.transact() as transaction:
        found = transaction.fetch(
            "UPDATE vibe_chunks SET held = 0,"
            " attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END"
            " WHERE batch = ? AND number = ? AND epoch = ? RETURNING size - done",
            taken_chunk.batch,
            taken_chunk.chunk,
            taken_chunk.epoch,
        )
        if broke_off and found:
            _record_doubt(
                transaction,
                taken_chunk.batch,
                taken_chunk.chunk,
                taken_chunk.epoch,
                taken_chunk.spec,
                found[0][0],
            )


def _choose_rows(
    inputs: Sequence[StoredInput], first: int, bits: int, counts: dict[int, int]
) -> list[InputRow]:
    return [
        InputRow(first + place, read_name(each.name), each.digest, each.input, counts.get(place, 0))
        for place, each in enumerate(inputs)
        if bits >> place & 1
    ]


def read_answered(database: BatchDatabase, taken_chunk: TakenChunk) -> list[InputRow]:
    """Return the inputs of a chunk that have a result. Raises StoreError."""
    with database.transact(reading=True) as transaction:
        for first, answered in transaction.fetch(
            "SELECT first, answered FROM vibe_chunks WHERE batch = ? AND number = ?",
            taken_chunk.batch,
            taken_chunk.chunk,
        ):
            inputs = read_inputs(transaction, taken_chunk.batch, taken_chunk.chunk)
            return _choose_rows(inputs, first, read_bits(answered), {})
    return []


def is_answered(database: BatchDatabase, taken_chunk: TakenChunk, number: int) -> bool:
    """Return whether an input has a result by now. Raises StoreError."""
    with database.transact(reading=True) as transaction:
        for first, answered in transaction.fetch(
            "SELECT first, answered FROM vibe_chunks WHERE batch = ? AND number = ?",
            taken_chunk.batch,
            taken_chunk.chunk,
        ):
            return bool(read_bits(answered) >> (number - first) & 1)
    return True  # the batch was deleted


def begin_alone(database: BatchDatabase, batch: str, chunk: int, number: int) -> None:
    """Record that an input is processed alone, in case it kills its worker."""
    with database.transact() as transaction:
        for first, alone_attempts in transaction.fetch(
            "UPDATE vibe_chunks SET begun = begun WHERE batch = ? AND number = ?"
            " RETURNING first, begun",
            batch,
            chunk,
        ):
            counts = read_alone_counts(alone_attempts)
            counts[number - first] = counts.get(number - first, 0) + 1
            transaction.change(
                "UPDATE vibe_chunks SET begun = ? WHERE batch = ? AND number = ?",
                write_alone_counts(counts),
                batch,
                chunk,
            )


def settle(transaction: Transaction, batch: str) -> None:
    """Mark a batch as done if all its chunks are.

    The batch is locked first: of two workers whose chunks end at the same moment, the later worker
    sees both ends.
    """
    transaction.change("UPDATE vibe_batches SET total = total WHERE id = ?", batch)
    transaction.change(
        "UPDATE vibe_batches SET state = 'done', ended = ? WHERE id = ? AND state = 'open'"
        " AND total <= (SELECT COALESCE(SUM(done), 0) FROM vibe_chunks WHERE batch = ?)",
        time.time(),
        batch,
        batch,
    )


def read_inputs(transaction: Transaction, batch: str, chunk: int) -> list[StoredInput]:
    """Read the inputs of a chunk; their names are still JSON."""
    ((inputs,),) = transaction.fetch(
        "SELECT inputs FROM vibe_inputs WHERE batch = ? AND chunk = ?", batch, chunk
    )
    return _decode_inputs(inputs)


def write_inputs(inputs: Sequence[StoredInput]) -> bytes:
    """Write the inputs of a chunk, whose names are JSON."""
    return _encode(inputs)


def read_name(data: str | None) -> str | None:
    """Read a stored name."""
    return None if data is None else str(json.loads(data))


def read_bits(data: bytes) -> int:
    """Read which inputs have a result."""
    return int.from_bytes(data, "little")


def write_bits(bits: int) -> bytes:
    """Write which inputs have a result."""
    return bits.to_bytes((bits.bit_length() + 7) // 8, "little")


def read_alone_counts(data: str) -> dict[int, int]:
    """Read how often inputs were processed alone, by their places in the chunk."""
    return _decode_alone_counts(data) if data else {}


def write_alone_counts(counts: dict[int, int]) -> str:
    """Write how often inputs were processed alone."""
    return _encode(counts).decode() if counts else ""


_encode: Final = msgspec.json.Encoder().encode
_decode_inputs: Final = msgspec.json.Decoder(list[StoredInput]).decode
_decode_alone_counts: Final = msgspec.json.Decoder(dict[int, int]).decode
