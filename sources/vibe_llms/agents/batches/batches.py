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

from vibe_llms.agents.batches.following import BatchFollower
from vibe_llms.agents.batches.submitting import CHUNK, BatchHandover, derive_batch, settle
from vibe_llms.agents.queues import BATCHES, Queue
from vibe_llms.agents.runners import LOCAL, check_url, choose_store
from vibe_llms.asynchrony import finish
from vibe_llms.exceptions import AmbiguousIdentityError, RequestError, StoreError, UnknownNameError
from vibe_llms.instruments.channels.batches.databases import BatchDatabase, open_database
from vibe_llms.instruments.channels.batches.orders import (
    PRIORITY_BOUND,
    BatchOrder,
    BatchSummary,
    ItemOutcome,
    KeptInput,
    Submitted,
    read_model,
)
from vibe_llms.instruments.channels.batches.tables import count_money, read_money

if TYPE_CHECKING:
    from vibe_llms.agents.batches.making import WorkMaker
    from vibe_llms.application import Application
    from vibe_llms.instruments.channels.batches.functions import Function
    from vibe_llms.instruments.engines import Tool

_PAGE: Final = 500
_SUMMARY: Final = (
    "SELECT b.id, b.state, b.detail, b.about, b.total, b.cap, b.created, b.ended,"
    " COALESCE(SUM(c.size), 0), COALESCE(SUM(c.done), 0), COALESCE(SUM(c.failed), 0),"
    " COALESCE(SUM(c.input_tokens), 0), COALESCE(SUM(c.output_tokens), 0),"
    " COALESCE(SUM(c.cost), 0), COALESCE(SUM(c.unpriced), 0)"
    " FROM vibe_batches b LEFT JOIN vibe_chunks c ON c.batch = b.id"
)


class Batches:
    """The batches of a database.

    Args:
        database: Has them.
        wake: Has the chunks of a batch queued, in a thread; none for who only looks.
        chunk: How many inputs a worker takes at once.
        maker: Looks whether what is asked for could be performed, as workers would.
    """

    def __init__(
        self,
        database: BatchDatabase,
        wake: Callable[[str], object] | None = None,
        *,
        chunk: int = CHUNK,
        maker: WorkMaker | None = None,
    ) -> None:
        self.database = database
        self._maker = maker
        self._wake = wake or (lambda batch: None)
        self._chunk = chunk

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
        submission = BatchHandover(self.database, batch, order, self._chunk)
        await submission.perform(asked, lambda: self._wake(batch))
        await finish(asyncio.to_thread(self._wake, batch))  # what was there may be waiting, too
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
        await finish(asyncio.to_thread(self._resume, batch, retry_failed, cap))
        await finish(asyncio.to_thread(self._wake, batch))

    def follow(
        self,
        batch: str,
        *,
        ordered: bool = False,
        waits: bool = True,
        before: Mapping[int, int] | None = None,
    ) -> AsyncGenerator[ItemOutcome]:
        """Yields what came of each item; see :class:`.BatchRunner`."""
        return BatchFollower(self.database, batch, waits=waits, before=before).follow(
            ordered=ordered
        )

    async def survey_failures(self, batch: str) -> AsyncGenerator[bytes]:
        """Yields the lines of what failed, in the order of the inputs."""
        last = -1
        while rows := await self._fetch(
            "SELECT number, outcome FROM vibe_items WHERE batch = ? AND failed = 1"
            " AND number > ? ORDER BY number LIMIT ?",
            batch,
            last,
            _PAGE,
        ):
            for number, line in rows:
                yield str(line).encode()
                last = number

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
                transaction.change(
                    "UPDATE vibe_chunks SET done = done - failed, failed = 0"
                    " WHERE batch = ? AND failed > 0",
                    batch,
                )
                transaction.change(
                    "UPDATE vibe_items SET outcome = NULL, failed = NULL, begun = 0"
                    " WHERE batch = ? AND failed = 1",
                    batch,
                )
            # A new epoch: what was queued under the one before has been, and is not queued again.
            transaction.change(
                "UPDATE vibe_chunks SET epoch = epoch + 1, attempts = 0"
                " WHERE batch = ? AND done < size",
                batch,
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

        return await finish(asyncio.to_thread(fetch))

    async def _change(self, statement: str, batch: str) -> None:
        def change() -> None:
            with self.database.transact() as transaction:
                transaction.change(statement, batch)

        await finish(asyncio.to_thread(change))


def _summarize(row: tuple[Any, ...]) -> BatchSummary:
    batch, state, detail, about, total, cap, created, ended, known, done, failed, *used = row
    read, said, cost, unpriced = map(int, used)
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
        StoreError: The database is out of reach.
        DependencyError: What the runner needs is not installed.
    """
    check_url(url)
    if url == LOCAL:
        yield None
        return
    from vibe_llms.agents.durable.runner import DurableRunner
    from vibe_llms.agents.performing import OrderPerformer
    from vibe_llms.application import Application

    application = application or Application.load()
    performer = OrderPerformer(
        store=choose_store(url, application),
        application=application,
        produce_tools=produce_tools,
    )
    runner = DurableRunner(url, performer, queues=queues, functions=functions)
    await runner.start()
    try:
        yield Batches(runner.batches, runner.wake_batch, chunk=chunk, maker=runner.maker)
    finally:
        await runner.close()


@asynccontextmanager
async def look_at_batches(url: str) -> AsyncIterator[Batches]:
    """Lends batches to who only looks at them, or says something to them.

    What has to go on is queued by whichever worker looks next.

    Raises:
        ConfigurationError: The URL names no runner with workers.
        StoreError: Its file is not there: to look at it makes none.
    """
    from vibe_llms.agents.runners import SQLITE, check_shared

    check_shared(url)
    if url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists():
        remedy = "Name the file that `vibe batch --runner` has made."
        raise StoreError(path=url, detail=f"{url}: there is no such file.", remedy=remedy)
    database = open_database(url)
    try:
        yield Batches(database)
    finally:
        database.close()
