"""Build the agents daemon's ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from vibe_llms.agents.executing import RunExecutor
from vibe_llms.agents.interfaces import Runner
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.queues import read_queues
from vibe_llms.agents.run_specs import RunRules
from vibe_llms.agents.runners import produce_runner
from vibe_llms.agents.workers import WorkerSettings
from vibe_llms.application import Application
from vibe_llms.conversations.index.interfaces import Index
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.daemons.agents.attaching import Attachments
from vibe_llms.daemons.agents.availability import Availability
from vibe_llms.daemons.agents.frames import EVENT_STREAM
from vibe_llms.daemons.agents.route_access import RouteAccess
from vibe_llms.daemons.agents.route_table import produce_routes
from vibe_llms.daemons.agents.settings import AgentsSettings
from vibe_llms.daemons.agents.streams import pass_on
from vibe_llms.daemons.arrivals import admits_page, find_hosts
from vibe_llms.daemons.health import add_health
from vibe_llms.daemons.page_files import PAGE_PATH
from vibe_llms.daemons.records import Listener
from vibe_llms.daemons.service import Service
from vibe_llms.instruments.engines import Tool
from vibe_llms.invocables.ensemble_pools import EnsemblePool
from vibe_llms.plugins.specification.daemons import Authorizer
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.subscriptions import LogSubscriptions


def produce_service(
    application: Application,
    store: ConversationStore,
    settings: AgentsSettings | None = None,
    *,
    rules: RunRules | None = None,
    produce_tools: Callable[[Sequence[str]], Awaitable[Sequence[Tool]]] | None = None,
    hosting: WorkerSettings | None = None,
    authorizer: Authorizer | None = None,
    listeners: Sequence[Listener] = (),
    conversation_index: Index | None = None,
) -> Service:
    """Build the daemon as an ASGI application, with a host that executes its runs.

    Args:
        application: Provides the models; it is restricted (:meth:`.Application.restrict`).
        store: Store of the runs.
        settings: Settings from the daemon's file. Its ``[server]`` table is used by the caller,
            which listens.
        rules: Rules for run specifications.
        produce_tools: Produces the ensembles that runs name; by default those configured.
        hosting: Concurrency and retries; by default with the settings' number of runs at once.
        authorizer: Authorizer of requests; by default all are allowed, and all callers share all
            runs.
        listeners: Called with the record of each completed request.
        conversation_index: Index that lists and searches conversations; by default one that reads
            the store.

    Raises:
        ConfigurationError: The settings do not name a valid runner, or valid queues.
        StoreError: The store keeps no logs of runs.
    """
    application.restrict()
    settings = settings or AgentsSettings()
    rules = rules or RunRules(limits=application.configuration.limits)
    index = RunIndex(store)
    subscriptions, pool = LogSubscriptions(index, EVENT_STREAM), EnsemblePool()
    executor = RunExecutor(
        store=store,
        application=application,
        limits=rules.limits,
        produce_tools=produce_tools,
        listener=partial(pass_on, subscriptions),
        pool=pool,
    )
    host = _produce_host(settings, executor, hosting=hosting, index=index)
    runs = LocalRuns(
        store, application, rules=rules, host=host, conversation_index=conversation_index
    )
    return _produce_service(
        runs,
        subscriptions,
        settings,
        host=host,
        pool=pool,
        authorizer=authorizer,
        listeners=listeners,
    )


def _produce_host(
    settings: AgentsSettings,
    executor: RunExecutor,
    *,
    hosting: WorkerSettings | None,
    index: RunIndex,
) -> Runner:
    """Produce the host that executes runs: those of this daemon, or of the queues of a runner."""
    return produce_runner(
        settings.runner,
        executor,
        queues=read_queues(settings.queues) if settings.queues else (),
        hosting=hosting or WorkerSettings(runs=settings.runs),
        index=index,
    )


def _produce_service(
    runs: LocalRuns,
    subscriptions: LogSubscriptions,
    settings: AgentsSettings,
    *,
    host: Runner,
    pool: EnsemblePool,
    authorizer: Authorizer | None,
    listeners: Sequence[Listener],
) -> Service:
    """Build the service with the routes of the runs; it starts and stops all parts."""
    hosts = find_hosts(settings.server.host, settings.hosts)
    attachments = Attachments(runs, subscriptions, settings.attached_seconds)

    async def start_work() -> None:
        await host.start()
        attachments.start()

    availability = Availability(runs.store, start_work)

    async def stop() -> None:
        for part in (availability, attachments, host, pool, authorizer):
            if part is not None:
                await part.close()

    access = RouteAccess(
        authorizer=authorizer, hosts=hosts, ensure_started=availability.ensure_started
    )
    routes, drain = produce_routes(
        runs, subscriptions, access, watchers=settings.watchers, has_memory=settings.memory
    )
    service = Service(
        routes,
        limits=settings.limits,
        listeners=listeners,
        start=availability.start,
        stop=stop,
        on_drain=drain,
        admits_page=partial(admits_page, hosts=hosts),
    )
    add_health(
        service,
        admit=access.admit,
        needs_key=authorizer is not None,
        page=PAGE_PATH.removeprefix("/"),
        check=availability.check,
    )
    return service
