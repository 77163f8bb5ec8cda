"""Batches over a database: handed over, followed, stopped, resumed; see :class:`.BatchRunner`."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.agents.awaiting import PATIENCE_SECONDS, retry_in_thread
from vibe_llms.agents.batches.budgets import RowBudgets
from vibe_llms.agents.batches.following import BatchFollower, read_lines
from vibe_llms.agents.batches.making import WorkMaker, gather_functions
from vibe_llms.agents.batches.submitting import CHUNK, BatchHandover, derive_batch
from vibe_llms.agents.batches.working import ChunkWorker
from vibe_llms.agents.queues import BATCHES, Queue
from vibe_llms.agents.runners import LOCAL, check_url, choose_store
from vibe_llms.exceptions import AmbiguousIdentityError, RequestError, StoreError, UnknownNameError
from vibe_llms.instruments.channels.batches.databases import (
    BatchDatabase,
    Transaction,
    check_database,
    open_database,
)
from vibe_llms.instruments.channels.batches.lines import decode_head
from vibe_llms.instruments.channels.batches.orders import (
    PRIORITY_BOUND,
    BatchOrder,
    BatchSummary,
    ItemOutcome,
    KeptInput,
    Submitted,
    read_model,
)
from vibe_llms.instruments.channels.batches.row_chunks import (
    read_begun,
    read_bits,
    settle,
    write_begun,
    write_bits,
)
from vibe_llms.instruments.channels.batches.tables import count_money, read_money

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.instruments.channels.batches.functions import Function
    from vibe_llms.instruments.engines import Tool

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
        database: Has them.
        wake: Called in a thread where there is something new to do; none for who only looks.
        chunk: How many inputs a worker takes at once.
        maker: Looks whether what is asked for could be performed, as workers would.
        patience_seconds: How long to wait for a database that is out of reach.
    """

    def __init__(
        self,
        database: BatchDatabase,
        wake: Callable[[], object] = lambda: None,
        *,
        chunk: int = CHUNK,
        maker: WorkMaker | None = None,
        patience_seconds: float = 0.0,
    ) -> None:
        self.database = database
        self.patience_seconds = patience_seconds
        self._maker = maker
        self._wake = wake
        self._chunk = chunk

    async def check(self) -> None:
        """Ensure that the database can be used. Raises StoreError."""
        await retry_in_thread(self.patience_seconds, check_database, self.database)

    async def submit(
        self, order: BatchOrder, asked: AsyncIterator[KeptInput], key: str = ""
    ) -> Submitted:
        """Asks for a batch, or goes on with one; see :class:`.BatchRunner`."""
        if abs(order.priority) > PRIORITY_BOUND:
            raise RequestError(
                path="priority",
                detail=f"A priority is from -{PRIORITY_BOUND} to {PRIORITY_BOUND}, "
                f"not {order.priority}.",
            )
        if self._maker is not None:
            await self._maker.check(order)
        batch = derive_batch(order, key)
        submission = BatchHandover(
            self.database, batch, order, self._chunk, patience_seconds=self.patience_seconds
        )
        await submission.perform(asked, self._wake)
        return Submitted(batch, submission.before)

    async def find(self, batch: str) -> BatchSummary:
        """Returns how far a batch is. Raises UnknownNameError."""
        found = await self._read(f"{_SUMMARY} WHERE b.id = ? GROUP BY b.id", batch)
        if not found:
            raise UnknownNameError(kind="batch", name=batch)
        return found[0]

    async def survey(self, limit: int = 100) -> Sequence[BatchSummary]:
        """Returns how far the batches are, the latest first."""
        return await self._read(f"{_SUMMARY} GROUP BY b.id ORDER BY b.created DESC LIMIT ?", limit)

    async def resolve(self, prefix: str) -> str:
        """Returns the id that begins so.

        Raises:
            UnknownNameError: There is none.
            AmbiguousIdentityError: There are several.
        """
        rows = await self._fetch(
            "SELECT id FROM vibe_batches WHERE substr(id, 1, ?) = ? LIMIT 3", len(prefix), prefix
        )
        if not rows or not prefix:
            remedy = "This shows those that there are: vibe batches list --runner URL"
            raise UnknownNameError(kind="batch", name=prefix, remedy=remedy)
        if len(rows) > 1:
            raise AmbiguousIdentityError(
                identity=prefix, candidates=tuple(str(row[0]) for row in rows)
            )
        return str(rows[0][0])

    async def stop(self, batch: str) -> None:
        """Lets nothing more of a batch be asked; what is under way is still written."""
        await self._change(
            "UPDATE vibe_batches SET state = 'stopped' WHERE id = ?"
            " AND state IN ('filling', 'open')",
            batch,
        )

    async def delete(self, batch: str) -> None:
        """Removes a batch with all that came of it."""
        await self._change("DELETE FROM vibe_batches WHERE id = ?", batch)

    async def resume(
        self, batch: str, *, retry_failed: bool = False, cap: Decimal | None = None
    ) -> None:
        """Lets a batch go on that was stopped or has ended; see :class:`.BatchRunner`."""
        await retry_in_thread(self.patience_seconds, self._resume, batch, retry_failed, cap)
        self._wake()

    def follow(
        self,
        batch: str,
        *,
        ordered: bool = False,
        waits: bool = True,
        before: Mapping[int, int] | None = None,
    ) -> AsyncGenerator[ItemOutcome]:
        """Yields what came of each item; see :class:`.BatchRunner`."""
        follower = BatchFollower(
            self.database,
            batch,
            waits=waits,
            before=before,
            patience_seconds=self.patience_seconds,
        )
        return follower.follow(ordered=ordered)

    async def survey_failures(self, batch: str) -> AsyncGenerator[bytes]:
        """Yields the lines of what failed, in the order of the inputs."""
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
            # What workers write meanwhile waits for the chunks, all of which are locked first, as
            # the workers lock theirs before the batch.
            transaction.change("UPDATE vibe_chunks SET placed = placed WHERE batch = ?", batch)
            if cap is not None:
                # What was spent while there was no cap was not put down.
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
            # Whoever has a chunk yet keeps it until all is written that is under way there.
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
    """Has what failed of a chunk asked again, as if it had not been asked."""
    ((first, kept, begun),) = transaction.fetch(
        "SELECT first, answered, begun FROM vibe_chunks WHERE batch = ? AND number = ?",
        batch,
        chunk,
    )
    answered, counts = read_bits(kept), read_begun(begun)
    for place, lines in [*read_lines(transaction, batch, chunk)]:
        heads = [decode_head(line) for line in lines]
        left = [line for line, head in zip(lines, heads, strict=True) if not head.has_failed]
        if len(left) == len(lines):
            continue
        for head in heads:
            if head.has_failed:
                answered &= ~(1 << head.index - first)
                counts.pop(head.index - first, None)
        transaction.change(
            "UPDATE vibe_results SET lines = ? WHERE batch = ? AND chunk = ? AND place = ?",
            b"\n".join(left),
            batch,
            chunk,
            place,
        )
    transaction.change(
        "UPDATE vibe_chunks SET answered = ?, begun = ?, done = done - failed, failed = 0"
        " WHERE batch = ? AND number = ?",
        write_bits(answered),
        write_begun(counts),
        batch,
        chunk,
    )


def _summarize(row: tuple[Any, ...]) -> BatchSummary:
    batch, state, detail, about, total, cap, created, ended, known, done, failed, *used = row
    read, said, cost, unpriced, doubted = map(int, used)
    return BatchSummary(
        id=batch,
        state=state,
        detail=detail,
        model=read_model(about),
        total=total,
        known=int(known),
        done=int(done),
        failed=int(failed),
        input_tokens=read,
        output_tokens=said,
        cost=read_money(cost),
        unpriced=unpriced,
        doubted=doubted,
        cap=None if cap is None else read_money(cap),
        created=created,
        ended=ended,
    )


@asynccontextmanager
async def open_batches(
    url: str = LOCAL,
    *,
    application: Application | None = None,
    queues: Sequence[Queue] = (BATCHES,),
    chunk: int = CHUNK,
    functions: Iterable[Function] = (),
    produce_tools: Callable[[Sequence[str]], Awaitable[Sequence[Tool]]] | None = None,
) -> AsyncIterator[Batches | None]:
    """Lends what performs batches, and performs them here, too, as long as it is entered.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://…``; with ``local:`` it is ``None``, by which a
            :class:`.BatchChannel` performs its batch itself.
        application: Has the models; by default as the user has configured them.
        queues: From which this process takes work; none to leave all to workers.
        chunk: How many inputs a worker takes at once.
        functions: May be the work of a batch: workers find them by their names.
        produce_tools: Makes ensembles of the names of those that engines have; by default those
            that are configured.

    Raises:
        ConfigurationError: The URL names no runner.
        TypeError: A function has no name.
        StoreError: The database cannot be used, or was out of reach for a minute.
        DependencyError: What it needs is not installed.
    """
    check_url(url)
    if url == LOCAL:
        yield None
        return
    from vibe_llms.application import Application

    application = application or Application.load()
    maker = WorkMaker(
        application=application,
        store=choose_store(url, application),
        produce_tools=produce_tools,
        functions=gather_functions(functions),
    )
    database = open_database(url)
    workers = [ChunkWorker(database, maker, queue=each) for each in queues]

    def wake() -> None:
        for worker in workers:
            worker.wake()

    try:
        batches = Batches(
            database, wake, chunk=chunk, maker=maker, patience_seconds=PATIENCE_SECONDS
        )
        await batches.check()
        if workers:
            # Before any model is asked: who asks has its limiter for good.
            application.share_budgets(RowBudgets(database))
        for worker in workers:
            worker.start()
        yield batches
    finally:
        for worker in workers:
            await worker.close()
        await asyncio.to_thread(database.close)


@asynccontextmanager
async def look_at_batches(url: str, *, patience_seconds: float = 0.0) -> AsyncIterator[Batches]:
    """Lends batches to who only looks at them, or says something to them.

    What has to go on is taken by whichever worker looks next.

    Args:
        patience_seconds: How long to wait for a database that is out of reach.

    Raises:
        ConfigurationError: The URL names no runner with workers.
        StoreError: Nobody has asked for a batch there yet: to look makes nothing.
    """
    from vibe_llms.agents.runners import SQLITE, check_shared

    check_shared(url)
    if url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists():
        remedy = "Name the file that `vibe batch --runner` has made."
        raise StoreError(path=url, detail=f"{url}: there is no such file.", remedy=remedy)
    database = open_database(url, makes=False)
    try:
        yield Batches(database, patience_seconds=patience_seconds)
    finally:
        database.close()
