"""All routes of a service for runs and conversations."""

from __future__ import annotations

from collections.abc import Callable

from vibe_llms.agents.conversations import LocalConversations
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.notes import LocalNotes
from vibe_llms.daemons.agents import page
from vibe_llms.daemons.agents.conversations import ConversationHandlers
from vibe_llms.daemons.agents.faces.routes import produce_face_routes
from vibe_llms.daemons.agents.faces.serving import FaceParts
from vibe_llms.daemons.agents.notes import NoteHandlers
from vibe_llms.daemons.agents.route_access import RouteAccess
from vibe_llms.daemons.agents.routes import RunHandlers
from vibe_llms.daemons.open_streams import OpenStreams
from vibe_llms.daemons.routes import Route
from vibe_llms.runs.subscriptions import LogSubscriptions


def produce_routes(
    runs: LocalRuns,
    subscriptions: LogSubscriptions,
    access: RouteAccess,
    *,
    watchers: int,
    can_execute: bool = True,
    has_memory: bool = False,
) -> tuple[list[Route], Callable[[], None]]:
    """Produce the routes for runs, conversations, other protocols and the web page.

    Args:
        watchers: Maximum number of event streams at once.
        can_execute: Whether this process executes runs; if not, routes that start or resume one
            are omitted.
        has_memory: Whether callers may read and write their notes.

    Returns:
        The routes, and a function that ends all event streams.
    """
    streams = OpenStreams(access.authorizer, watchers)
    handlers = RunHandlers(runs, subscriptions, access, streams)
    conversations = LocalConversations(runs)
    faces: list[Route] = []
    if can_execute:
        parts = FaceParts(runs=runs, subscriptions=subscriptions, streams=streams)
        faces = produce_face_routes(parts, access)
    routes = [
        *handlers.produce_routes(can_execute=can_execute),
        *ConversationHandlers(conversations, subscriptions, access).produce_routes(),
        *faces,
        *(NoteHandlers(LocalNotes(runs), access).produce_routes() if has_memory else ()),
        *page.produce_routes(access.hosts),
    ]
    return routes, streams.drain
