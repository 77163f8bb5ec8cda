"""Queue of chunks, from which workers take them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from vibe_llms.batches.databases import BatchDatabase
from vibe_llms.batches.row_chunks import DueChunk, read_due


class ChunkQueue(Protocol):
    """Queue of the chunks of batches. All methods block on the database.

    Enqueuing a chunk is idempotent. A queue entry is only a hint: the row of the chunk determines
    whether it is due.
    """

    def enqueue(self, batch: str, chunks: Sequence[DueChunk]) -> None:
        """Enqueue chunks of a batch that are neither waiting nor being executed.

        Raises:
            StoreError: The database is unreachable.
        """

    def cancel(self, batch: str) -> None:
        """Remove the chunks of a batch that are waiting. Raises StoreError."""

    def list_active(self) -> Collection[tuple[str, int]]:
        """Return the chunks that are waiting or being executed. Raises StoreError."""

    def close(self) -> None:
        """Close the connections."""


def enqueue_due(database: BatchDatabase, queue: ChunkQueue, batch: str) -> None:
    """Enqueue the due chunks of a batch. Raises StoreError."""
    with database.transact(reading=True) as transaction:
        due = read_due(transaction, batch)
    if due:
        queue.enqueue(batch, due)


def enqueue_missing(database: BatchDatabase, queue: ChunkQueue) -> None:
    """Enqueue due chunks that are missing from the queue, for example after a crash.

    Raises:
        StoreError: The database is unreachable.
    """
    with database.transact(reading=True) as transaction:
        due = read_due(transaction)
    if not due:
        return
    active = queue.list_active()
    missing: dict[str, list[DueChunk]] = {}
    for each in due:
        if (each.batch, each.number) not in active:
            missing.setdefault(each.batch, []).append(each)
    for batch, chunks in missing.items():
        queue.enqueue(batch, chunks)
