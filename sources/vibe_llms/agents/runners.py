"""Who performs runs, chosen by a URL: this process, or workers over a database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

from vibe_llms.agents.queues import Queue
from vibe_llms.configuration.definitions import DIRECTORY_STORE, is_postgresql_url
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.runs.patience import PATIENCE_SECONDS, retry_for

if TYPE_CHECKING:
    from vibe_llms.agents.local import LocalRuns
    from vibe_llms.agents.performing import OrderPerformer
    from vibe_llms.agents.workers import HostSettings
    from vibe_llms.application import Application
    from vibe_llms.batches.functions import Function
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.instruments.engines import Tool
    from vibe_llms.runs.indexing import RunIndex
    from vibe_llms.runs.opening import BegunRun

LOCAL: Final = "local:"
SQLITE: Final = "sqlite:///"


class Runner(Protocol):
    """Sees to it that runs are performed; what was done in them is in their logs alone."""

    @property
    def index(self) -> RunIndex:
        """Knows where they stand."""

    @property
    def desk_name(self) -> str:
        """By which logs say who has requests of runs at vendors' batches; empty where nobody."""

    @property
    def working(self) -> Sequence[str]:
        """The ids of the runs that this process sees to now."""

    async def start(self) -> None:
        """Begins, and takes up what was broken off.

        Raises:
            StoreError: The database is out of reach.
            DependencyError: What it needs is not installed.
        """

    async def close(self) -> None:
        """Lets go of all runs; whoever performs them next goes on with them."""

    def wake(self, run_id: str) -> None:
        """Has a run seen to soon, of which something was said; as often as one likes."""

    @property
    def has_room(self) -> bool:
        """Whether a run that is asked for now would be begun at once, in this process."""

    def begin(self, begun: BegunRun) -> None:
        """Performs a run that was just ordered; its log was claimed for that."""

    async def interrupt(self, run_id: str) -> None:
        """Breaks off a run that works in this process, and waits until it has come to rest.

        One that works elsewhere hears what was said to it by itself.
        """


def check_url(url: str) -> None:
    """Refuses what is the URL of no runner. Raises ConfigurationError."""
    if url != LOCAL:
        check_shared(url)


def check_shared(url: str) -> None:
    """Refuses what is the URL of no runner with workers. Raises ConfigurationError."""
    if is_postgresql_url(url) or (url.startswith(SQLITE) and len(url) > len(SQLITE)):
        return
    shown = f"{urlsplit(url).scheme}:…" if "@" in url else repr(url)  # passwords stay
    message = f"{shown} names no database of a runner: give sqlite:///FILE or postgresql://…"
    if url == LOCAL:
        message = "With local: each process performs its own runs; workers share a database."
    raise ConfigurationError(findings=(Finding(place="runner", message=message),))


def produce_runner(
    url: str,
    performer: OrderPerformer,
    *,
    queues: Sequence[Queue] = (Queue(),),
    functions: Sequence[Function] = (),
    hosting: HostSettings | None = None,
    index: RunIndex | None = None,
) -> Runner:
    """Makes the runner that a URL names; nothing is opened before it starts.

    Args:
        url: ``local:``, ``sqlite:///FILE`` or ``postgresql://…``.
        performer: Performs one run.
        queues: From which this process takes runs; none for one that only asks for them.
            ``local:`` has none and performs all.
        functions: May be the work of a batch whose chunks it takes; they are found by their names.
        hosting: How much at once, and how often what fails is tried.
        index: Knows where runs stand; by default one of its own.

    Raises:
        ConfigurationError: It names none.
    """
    check_url(url)
    if url == LOCAL:
        from vibe_llms.agents.workers import RunWorker

        return RunWorker(performer, hosting, index)
    from vibe_llms.agents.durable.runner import DurableRunner

    return DurableRunner(
        url, performer, queues=queues, functions=functions, hosting=hosting, index=index
    )


def choose_store(url: str, application: Application) -> ConversationStore:
    """Returns where runs of a runner are kept: as configured, or else beside its queues.

    What workers on many machines share cannot lie in a directory.
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
    hosting: HostSettings | None = None,
    produce_tools: Callable[[Sequence[str]], Awaitable[Sequence[Tool]]] | None = None,
) -> AsyncIterator[LocalRuns]:
    """Lends runs, and performs them as long as it is entered; the same for every URL.

    Args:
        url: ``local:``, ``sqlite:///FILE`` or ``postgresql://…``.
        application: Has the models; by default as the user has configured them.
        store: Where the runs are kept; by default as configured, and with PostgreSQL there.
        queues: From which this process takes runs itself; none to leave them to workers.
        functions: As of :func:`produce_runner`.
        hosting: How much at once, and how often what fails is tried.
        produce_tools: Makes ensembles of the names in orders; by default those configured.

    Raises:
        ConfigurationError: The URL names no runner.
        StoreError: The database cannot be used, or was out of reach for a minute.
        DependencyError: What the runner needs is not installed.
    """
    from vibe_llms.agents.local import LocalRuns
    from vibe_llms.agents.performing import OrderPerformer
    from vibe_llms.application import Application

    check_url(url)
    application = application or Application.load()
    store = store or choose_store(url, application)
    performer = OrderPerformer(
        store=store,
        application=application,
        limits=application.configuration.limits,
        produce_tools=produce_tools,
    )
    runner = produce_runner(url, performer, queues=queues, functions=functions, hosting=hosting)
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
