"""Batches over a database, performed by this process and by workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.agents.batch_workers import ChunkWorker
from vibe_llms.agents.queues import BATCHES, Queue
from vibe_llms.agents.runners import LOCAL, check_url, choose_store
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.databases import open_database
from vibe_llms.batches.handovers import CHUNK
from vibe_llms.batches.making import WorkMaker, gather_functions
from vibe_llms.batches.rates import RowBudgets
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.batches.functions import Function
    from vibe_llms.instruments.engines import Tool


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
