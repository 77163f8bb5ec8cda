"""Batches of a database: submit, follow, stop and resume; see :class:`.BatchRunner`."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Mapping,
    Sequence,
)
from decimal import Decimal
from typing import Any, Final

from vibe_llms.batches.batch_followers import BatchFollower, read_lines
from vibe_llms.batches.batch_specs import (
    PRIORITY_BOUND,
    BatchSpec,
    BatchSummary,
    ItemOutcome,
    StoredInput,
    SubmittedBatch,
    read_model,
)
from vibe_llms.batches.databases import (
    BatchDatabase,
    Transaction,
    check_database,
)
from vibe_llms.batches.handovers import CHUNK, BatchHandover, derive_batch
from vibe_llms.batches.item_lines import decode_head
from vibe_llms.batches.queues import ChunkQueue, enqueue_due
from vibe_llms.batches.row_chunks import (
    read_alone_counts,
    read_bits,
    settle,
    write_alone_counts,
    write_bits,
)
from vibe_llms.batches.work_makers import WorkMaker
from vibe_llms.exceptions import AmbiguousIdentityError, RequestError, UnknownNameError
from vibe_llms.instruments.estimates import count_money, read_money
from vibe_llms.runs.patience import retry_in_thread

_SUMMARY: Final = (
    "SELECT b.id, b.state, b.detail, b.about, b.total, b.cap, b.created, b.ended,"
    " COALESCE(SUM(c.size), 0), COALESCE(SUM(c.done), 0), COALESCE(SUM(c.failed), 0),"
    " COALESCE(SUM(c.input_tokens), 0), COALESCE(SUM(c.output_tokens), 0),"
    " COALESCE(SUM(c.cost), 0), COALESCE(SUM(c.unpriced), 0),"
    " (SELECT COALESCE(SUM(d.count), 0) FROM vibe_doubts d WHERE d.batch = b.id)"
    " FROM vibe_batches b LEFT JOIN vibe_chunks c ON c.batch = b.id"
)


class Batches:
    """The batches of a database.

    Args:
        database: Database with the batches.
        queue: The queue of the chunks.
        chunk: Number of inputs per chunk.
        maker: Checks whether a specification can be executed.
        patience_seconds: How long to wait for an unreachable database.
    """

    def __init__(
        self,
        database: BatchDatabase,
        queue: ChunkQueue,
        *,
        chunk: int = CHUNK,
        maker: WorkMaker | None = None,
        patience_seconds: float = 0.0,
    ) -> None:
        self.database = database
        self.patience_seconds = patience_seconds
        self._maker = maker
        self._queue = queue
        self._chunk = chunk

    async def check(self) -> None:
        """Ensure that the database can be used. Raises StoreError."""
        await retry_in_thread(self.patience_seconds, check_database, self.database)

    async def submit(
        self, spec: BatchSpec, inputs: AsyncIterator[StoredInput], key: str = ""
    ) -> SubmittedBatch:
        """Submit a batch, or continue one; see :class:`.BatchRunner`."""
        if abs(spec.priority) > PRIORITY_BOUND:
            raise RequestError(
                path="priority",
                detail=f"The priority must be between -{PRIORITY_BOUND} and {PRIORITY_BOUND}, not "
                f"{spec.priority}.",
            )
        if self._maker is not None:
            await self._maker.check(spec)
        batch = derive_batch(spec, key)
        submission = BatchHandover(
            self.database,
            self._queue,
            batch,
            spec,
            self._chunk,
            patience_seconds=self.patience_seconds,
        )
        await submission.perform(inputs)
        return SubmittedBatch(batch, submission.before)

    async def find(self, batch: str) -> BatchSummary:
        """Return the state of a batch. Raises UnknownNameError."""
        found = await self._read(f"{_SUMMARY} WHERE b.id = ? GROUP BY b.id", batch)
        if not found:
            raise UnknownNameError(kind="batch", name=batch)
        return found[0]

    async def survey(self, limit: int = 100) -> Sequence[BatchSummary]:
        """Return the states of the batches, the latest first."""
        return await self._read(f"{_SUMMARY} GROUP BY b.id ORDER BY b.created DESC LIMIT ?", limit)

    async def resolve(self, prefix: str) -> str:
        """Return the id that has a prefix.

        Raises:
            UnknownNameError: No batch has this prefix.
            AmbiguousIdentityError: Several batches have this prefix.
        """
        rows = await self._fetch(
            "SELECT id FROM vibe_batches WHERE substr(id, 1, ?) = ? LIMIT 3", len(prefix), prefix
        )
        if not rows or not prefix:
            remedy = "List the batches with: vibe batches list --runner URL"
            raise UnknownNameError(kind="batch", name=prefix, remedy=remedy)
        if len(rows) > 1:
            raise AmbiguousIdentityError(
                identity=prefix, candidates=tuple(str(row[0]) for row in rows)
            )
        return str(rows[0][0])

    async def stop(self, batch: str) -> None:
        """Stop a batch; results of inputs in progress are still written."""
        await self._change(
            "UPDATE vibe_batches SET state = 'stopped' WHERE id = ?"
            " AND state IN ('filling', 'open')",
            batch,
        )

    async def delete(self, batch: str) -> None:
        """Delete a batch with its results."""
        await self._change("DELETE FROM vibe_batches WHERE id = ?", batch)

    async def resume(
        self, batch: str, *, retry_failed: bool = False, cap: Decimal | None = None
    ) -> None:
        """Resume a batch that was stopped or has ended; see :class:`.BatchRunner`."""
        await retry_in_thread(self.patience_seconds, self._resume, batch, retry_failed, cap)
        await retry_in_thread(self.patience_seconds, enqueue_due, self.database, self._queue, batch)

    def follow(
        self,
        batch: str,
        *,
        ordered: bool = False,
        waits: bool = True,
        before: Mapping[int, int] | None = None,
    ) -> AsyncGenerator[ItemOutcome]:
        """Yield results; see :class:`.BatchRunner`."""
        follower = BatchFollower(
            self.database,
            batch,
            waits=waits,
            before=before,
            patience_seconds=self.patience_seconds,
        )
        return follower.follow(ordered=ordered)

    async def survey_failures(self, batch: str) -> AsyncGenerator[bytes]:
        """Yield the lines of failures, in the order of the inputs."""
        chunks = await self._fetch(
            "SELECT number FROM vibe_chunks WHERE batch = ? AND failed > 0 ORDER BY number", batch
        )
        for (chunk,) in chunks:
            for line in await retry_in_thread(
                self.patience_seconds, self._read_failures, batch, chunk
            ):
                yield line

    def _read_failures(self, batch: str, chunk: int) -> list[bytes]:
        with self.database.transact(reading=True) as transaction:
            rows = [*read_lines(transaction, batch, chunk)]
        heads = [(decode_head(line), line) for _, lines in rows for line in lines]
        failed = [(head.index, line) for head, line in heads if head.has_failed]
        return [line for _, line in sorted(failed)]

    def _resume(self, batch: str, retry_failed: bool, cap: Decimal | None) -> None:
        with self.database.transact() as transaction:
            # Lock order: all chunks first, then the batch, as in the workers. Concurrent writes of
            # workers wait for the chunks.
            transaction.change("UPDATE vibe_chunks SET placed = placed WHERE batch = ?", batch)
            if cap is not None:
                # Spending was not recorded while the batch did not have a cap.
                transaction.change(
                    "UPDATE vibe_batches SET cap = ?, committed = CASE WHEN cap IS NULL THEN"
                    " (SELECT COALESCE(SUM(cost), 0) FROM vibe_chunks WHERE batch = ?)"
                    " ELSE committed END WHERE id = ?",
                    count_money(cap),
                    batch,
                    batch,
                )
            if retry_failed:
                for (chunk,) in transaction.fetch(
                    "SELECT number FROM vibe_chunks WHERE batch = ? AND failed > 0", batch
                ):
                    _forget_failures(transaction, batch, chunk)
            # A worker that still holds a chunk keeps it until all its inputs in progress are
            # written.
            transaction.change(
                "UPDATE vibe_chunks SET attempts = 0 WHERE batch = ? AND done < size", batch
            )
            transaction.change(
                "UPDATE vibe_batches SET detail = '', ended = NULL,"
                " state = CASE WHEN total IS NULL THEN 'filling' ELSE 'open' END WHERE id = ?",
                batch,
            )
            settle(transaction, batch)

    async def _read(self, statement: str, *values: Any) -> list[BatchSummary]:
        return [_summarize(row) for row in await self._fetch(statement, *values)]

    async def _fetch(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        def fetch() -> list[tuple[Any, ...]]:
            with self.database.transact(reading=True) as transaction:
                return transaction.fetch(statement, *values)

        return await retry_in_thread(self.patience_seconds, fetch)

    async def _change(self, statement: str, batch: str) -> None:
        def change() -> None:
            with self.database.transact() as transaction:
                transaction.change(statement, batch)

        await retry_in_thread(self.patience_seconds, change)


def _forget_failures(transaction: Transaction, batch: str, chunk: int) -> None:
    """Remove the failures of a chunk, so that their inputs are processed again."""
    ((first, bits, alone_data),) = transaction.fetch(
        "SELECT first, answered, begun FROM vibe_chunks WHERE batch = ? AND number = ?",
        batch,
        chunk,
    )
    answered, counts = read_bits(bits), read_alone_counts(alone_data)
    for place, lines in [*read_lines(transaction, batch, chunk)]:
        heads = [decode_head(line) for line in lines]
        remaining = [line for line, head in zip(lines, heads, strict=True) if not head.has_failed]
        if len(remaining) == len(lines):
            continue
        for head in heads:
            if head.has_failed:
                answered &= ~(1 << head.index - first)
                counts.pop(head.index - first, None)
        transaction.change(
            "UPDATE vibe_results SET lines = ? WHERE batch = ? AND chunk = ? AND place = ?",
            b"\n".join(remaining),
            batch,
            chunk,
            place,
        )
    transaction.change(
        "UPDATE vibe_chunks SET answered = ?, begun = ?, done = done - failed, failed = 0"
        " WHERE batch = ? AND number = ?",
        write_bits(answered),
        write_alone_counts(counts),
        batch,
        chunk,
    )


def _summarize(row: tuple[Any, ...]) -> BatchSummary:
    batch, state, detail, about, total, cap, created, ended, known, done, failed, *sums = row
    input_tokens, output_tokens, cost, unpriced, doubted = map(int, sums)
    return BatchSummary(
        id=batch,
        state=state,
        detail=detail,
        model=read_model(about),
        total=total,
        known=int(known),
        done=int(done),
        failed=int(failed),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cost=read_money(cost),
        unpriced=unpriced,
        doubted=doubted,
        cap=None if cap is None else read_money(cap),
        created=created,
        ended=ended,
    )
