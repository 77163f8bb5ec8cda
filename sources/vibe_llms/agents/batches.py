"""Batches over a database, performed by this process and by workers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.agents.queues import BATCHES, Queue
from vibe_llms.agents.runners import LOCAL, check_url, choose_store, produce_runner
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.databases import open_database
from vibe_llms.batches.handovers import CHUNK
from vibe_llms.batches.making import WorkMaker, gather_functions
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.patience import PATIENCE_SECONDS, retry_for

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
    from vibe_llms.agents.durable.chunks import DurableChunkQueue
    from vibe_llms.agents.executing import RunExecutor
    from vibe_llms.application import Application

    application = application or Application.load()
    named = gather_functions(functions)
    store = choose_store(url, application)
    maker = WorkMaker(
        application=application, store=store, produce_tools=produce_tools, functions=named
    )
    worker = None
    if queues:
        performer = RunExecutor(
            store=store,
            application=application,
            limits=application.configuration.limits,
            produce_tools=produce_tools,
        )
        worker = produce_runner(url, performer, queues=queues, functions=tuple(named.values()))
    database, queue = open_database(url), DurableChunkQueue(url)
    try:
        batches = Batches(
            database, queue, chunk=chunk, maker=maker, patience_seconds=PATIENCE_SECONDS
        )
        await batches.check()
        if worker is not None:
            await retry_for(PATIENCE_SECONDS, worker.start)
        yield batches
    finally:
        if worker is not None:
            await worker.close()
        await asyncio.to_thread(queue.close)
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
        remedy = "Name the file that `vibe batch --runner` created."
        raise StoreError(path=url, detail=f"{url}: the file does not exist.", remedy=remedy)
    from vibe_llms.agents.durable.chunks import DurableChunkQueue

    database, queue = open_database(url, makes=False), DurableChunkQueue(url)
    try:
        yield Batches(database, queue, patience_seconds=patience_seconds)
    finally:
        await asyncio.to_thread(queue.close)
        database.close()
