"""Batches in a database, executed by this process and by workers."""

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
from vibe_llms.batches.work_makers import WorkMaker, gather_functions
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
    """Open the batches of a database, and execute them inside the context.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://…``. With ``local:`` the context is ``None``, and
            a :class:`.BatchChannel` executes its batch itself.
        application: Provides the models; by default as the user has configured them.
        queues: Queues from which this process takes work; none to leave all to workers.
        chunk: Number of inputs that a worker takes at once.
        functions: Functions that batches may name as their work; workers find them by name.
        produce_tools: Produces the ensembles that engines name; by default those configured.

    Raises:
        ConfigurationError: The URL does not name a runner.
        TypeError: A function has no name.
        StoreError: The database is unusable, or was unreachable for a minute.
        DependencyError: An extra that it needs is not installed.
    """
    check_url(url)
    if url == LOCAL:
        yield None
        return
    from vibe_llms.agents.durable.chunks import DurableChunkQueue
    from vibe_llms.agents.executing import RunExecutor
    from vibe_llms.application import Application

    application = application or Application.load()
    functions_by_name = gather_functions(functions)
    store = choose_store(url, application)
    maker = WorkMaker(
        application=application,
        store=store,
        produce_tools=produce_tools,
        functions=functions_by_name,
    )
    worker = None
    if queues:
        executor = RunExecutor(
            store=store,
            application=application,
            limits=application.configuration.limits,
            produce_tools=produce_tools,
        )
        worker = produce_runner(
            url, executor, queues=queues, functions=tuple(functions_by_name.values())
        )
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
async def access_batches(url: str, *, patience_seconds: float = 0.0) -> AsyncIterator[Batches]:
    """Open batches to read them or to send them commands, but not to execute them.

    Batches that have to continue are claimed by the next worker that scans.

    Args:
        patience_seconds: Time to wait for an unreachable database.

    Raises:
        ConfigurationError: The URL does not name a runner with workers.
        StoreError: No batch was requested there yet; this does not create the database.
    """
    from vibe_llms.agents.runners import SQLITE, check_shared

    check_shared(url)
    if url.startswith(SQLITE) and not Path(url.removeprefix(SQLITE)).exists():
        remedy = "Name the file that `vibe batch --runner` created."
        raise StoreError(path=url, detail=f"{url}: the file does not exist.", remedy=remedy)
    from vibe_llms.agents.durable.chunks import DurableChunkQueue

    database, queue = open_database(url, creates=False), DurableChunkQueue(url)
    try:
        yield Batches(database, queue, patience_seconds=patience_seconds)
    finally:
        await asyncio.to_thread(queue.close)
        database.close()
