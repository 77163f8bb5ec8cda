"""Runners, chosen by a URL: this process, or workers that share a database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from vibe_llms.agents.queues import Queue
from vibe_llms.configuration.definitions import DIRECTORY_STORE, is_postgresql_url
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.runs.patience import PATIENCE_SECONDS, retry_for

if TYPE_CHECKING:
    from vibe_llms.agents.executing import RunExecutor
    from vibe_llms.agents.interfaces import Runner
    from vibe_llms.agents.local import LocalRuns
    from vibe_llms.agents.workers import WorkerSettings
    from vibe_llms.application import Application
    from vibe_llms.batches.functions import Function
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.instruments.engines import Tool
    from vibe_llms.runs.indexing import RunIndex

LOCAL: Final = "local:"
SQLITE: Final = "sqlite:///"


def check_url(url: str) -> None:
    """Raise ConfigurationError unless a URL names a runner."""
    if url != LOCAL:
        check_shared(url)


def check_shared(url: str) -> None:
    """Raise ConfigurationError unless a URL names a runner with workers."""
    if is_postgresql_url(url) or (url.startswith(SQLITE) and len(url) > len(SQLITE)):
        return
    shown = f"{urlsplit(url).scheme}:…" if "@" in url else repr(url)  # hides a password
    message = f"{shown} is not a database of a runner: use sqlite:///FILE or postgresql://…"
    if url == LOCAL:
        message = "With local:, each process executes its own runs; workers share a database."
    raise ConfigurationError(findings=(Finding(place="runner", message=message),))


def produce_runner(
    url: str,
    executor: RunExecutor,
    *,
    queues: Sequence[Queue] = (Queue(),),
    functions: Sequence[Function] = (),
    hosting: WorkerSettings | None = None,
    index: RunIndex | None = None,
) -> Runner:
    """Produce the runner that a URL names; nothing is opened before it starts.

    Args:
        url: ``local:``, ``sqlite:///FILE`` or ``postgresql://…``.
        executor: Executes one run.
        queues: The queues from which this process takes work; none for one that only enqueues.
            ``local:`` has no queues and executes all runs.
        functions: Functions that batches may name as their work.
        hosting: Settings of the worker in this process: concurrency and retries.
        index: Index of the states of runs; by default a new one.

    Raises:
        ConfigurationError: The URL names no runner.
    """
    check_url(url)
    if url == LOCAL:
        from vibe_llms.agents.workers import RunWorker

        return RunWorker(executor, hosting, index)
    from vibe_llms.agents.durable.runner import DurableRunner

    return DurableRunner(
        url, executor, queues=queues, functions=functions, hosting=hosting, index=index
    )


def choose_store(url: str, application: Application) -> ConversationStore:
    """Return the store of a runner's runs: as configured, or else beside its queues.

    Workers on several machines cannot share a directory.
    """
    if is_postgresql_url(url) and application.configuration.store == DIRECTORY_STORE:
        from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore

        return PostgresqlStore(url)
    return application.store


@asynccontextmanager
async def open_runner(
    url: str = LOCAL,
    *,
    application: Application | None = None,
    store: ConversationStore | None = None,
    queues: Sequence[Queue] = (Queue(),),
    functions: Sequence[Function] = (),
    hosting: WorkerSettings | None = None,
    produce_tools: Callable[[Sequence[str]], Awaitable[Sequence[Tool]]] | None = None,
) -> AsyncIterator[LocalRuns]:
    """Open the runs of a store, and execute them inside the context; the same for every URL.

    Args:
        url: ``local:``, ``sqlite:///FILE`` or ``postgresql://…``.
        application: Provides the models; by default as the user has configured them.
        store: The store of the runs; by default as configured, or the runner's PostgreSQL.
        queues: The queues from which this process takes work; none to leave it to workers.
        functions: Functions that batches may name as their work.
        hosting: Settings of the worker in this process: concurrency and retries.
        produce_tools: Returns tools for the names in a run's request; by default, they are names of
            configured ensembles.

    Raises:
        ConfigurationError: The URL names no runner.
        StoreError: The database is unusable, or was unreachable for a minute.
        DependencyError: An extra that the runner needs is not installed.
    """
    from vibe_llms.agents.executing import RunExecutor
    from vibe_llms.agents.local import LocalRuns
    from vibe_llms.application import Application

    check_url(url)
    application = application or Application.load()
    store = store or choose_store(url, application)
    executor = RunExecutor(
        store=store,
        application=application,
        limits=application.configuration.limits,
        produce_tools=produce_tools,
    )
    runner = produce_runner(url, executor, queues=queues, functions=functions, hosting=hosting)
    try:
        await retry_for(PATIENCE_SECONDS, runner.start)
        yield LocalRuns(
            store,
            application,
            host=runner,
            is_owner=True,
            patience_seconds=PATIENCE_SECONDS,
        )
    finally:
        await runner.close()
