"""All routes of a service for runs and conversations."""

from __future__ import annotations

from collections.abc import Callable

from vibe_llms.agents.conversations import LocalConversations
from vibe_llms.agents.local import LocalRuns
from vibe_llms.daemons.agents import page
from vibe_llms.daemons.agents.conversations import ConversationHandlers
from vibe_llms.daemons.agents.route_access import RouteAccess
from vibe_llms.daemons.agents.routes import RunHandlers
from vibe_llms.daemons.routes import Route
from vibe_llms.runs.subscriptions import LogSubscriptions


def produce_routes(
    runs: LocalRuns,
    subscriptions: LogSubscriptions,
    access: RouteAccess,
    *,
    watchers: int,
    can_execute: bool = True,
) -> tuple[list[Route], Callable[[], None]]:
    """Produce the routes for runs, conversations and the web page.

    Args:
        watchers: Maximum number of event streams at once.
        can_execute: Whether this process executes runs; if not, routes that start or resume one
            are omitted.

    Returns:
        The routes, and a function that ends all event streams.
    """
    handlers = RunHandlers(runs, subscriptions, access, watchers=watchers)
    conversations = LocalConversations(runs)
    routes = [
        *handlers.produce_routes(can_execute=can_execute),
        *ConversationHandlers(conversations, subscriptions, access).produce_routes(),
        *page.produce_routes(access.hosts),
    ]
    return routes, handlers.drain
