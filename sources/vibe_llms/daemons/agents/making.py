"""Construction of the agents daemon's ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from vibe_llms.agents.conversations import LocalConversations
from vibe_llms.agents.executing import RunExecutor
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
from vibe_llms.daemons.agents.conversations import ConversationHandlers
from vibe_llms.daemons.agents.frames import EVENT_STREAM
from vibe_llms.daemons.agents.guarding import Guard
from vibe_llms.daemons.agents.page import PLACE, produce_page_routes
from vibe_llms.daemons.agents.routes import RunHandlers
from vibe_llms.daemons.agents.settings import AgentsSettings
from vibe_llms.daemons.agents.streams import pass_on
from vibe_llms.daemons.arrivals import find_hosts
from vibe_llms.daemons.health import add_health
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
    """Produce the daemon as an ASGI application, with a host for its runs.

    Args:
        application: Provides the models; it is restricted (:meth:`.Application.restrict`).
        store: Store of the runs.
        settings: Settings from the daemon's file; the server's part is for the code that listens.
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
    hosts = find_hosts(settings.server.host, settings.hosts)
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
    host = produce_runner(
        settings.runner,
        executor,
        queues=read_queues(settings.queues) if settings.queues else (),
        hosting=hosting or WorkerSettings(runs=settings.runs),
        index=index,
    )
    runs = LocalRuns(store, application, rules=rules, host=host)
    availability = Availability(store, lambda: begin())
    guard = Guard(authorizer=authorizer, hosts=hosts, ensure_begun=availability.ensure_begun)
    handlers = RunHandlers(runs, subscriptions, guard, watchers=settings.watchers)
    conversations = ConversationHandlers(
        LocalConversations(runs, conversation_index), subscriptions, guard
    )
    attachments = Attachments(runs, subscriptions, settings.attached_seconds)

    async def begin() -> None:
        await host.start()
        attachments.start()

    async def stop() -> None:
        await availability.close()
        await attachments.close()
        await host.close()
        await pool.close()
        if authorizer is not None:
            await authorizer.close()

    service = Service(
        [
            *handlers.produce_routes(),
            *conversations.produce_routes(),
            *produce_page_routes(hosts),
        ],
        limits=settings.limits,
        listeners=listeners,
        start=availability.start,
        stop=stop,
        on_drain=handlers.drain,
    )
    add_health(
        service,
        guard=guard.admit,
        needs_key=authorizer is not None,
        page=PLACE.removeprefix("/"),
        check=availability.check,
    )
    return service
