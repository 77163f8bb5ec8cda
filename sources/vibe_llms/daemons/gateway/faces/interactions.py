"""Gemini's Interactions. Stored interactions are those of an upstream of the same protocol.

Without storage, the gateway waits for an interaction in the background, and returns it complete.
"""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.gateway.calls import handle
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.interactions import InteractionEndpoints
from vibe_llms.daemons.gateway.stages import ANSWER
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import interactions

FACE = Face(
    name="interactions",
    dialect=interactions,
    restricts_tools=True,
    knows_quirks=True,
    forwarded_headers=("api-revision", "x-goog-api-client"),
    is_stored_upstream=True,
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of both versions of this protocol."""
    produce = partial(Route, write_error=FACE.write_error)
    routes = [("POST", "", handle(gateway, FACE, ANSWER))]
    if gateway.storage is not None:
        stored = InteractionEndpoints(gateway, gateway.storage, FACE)
        routes += [
            ("GET", "/{id}", stored.retrieve),
            ("DELETE", "/{id}", stored.delete),
            ("POST", "/{id}/cancel", stored.cancel),
        ]
    return tuple(
        produce(method=method, pattern=f"/{version}/interactions{suffix}", handler=handler)
        for version in ("v1beta", "v1")
        for method, suffix, handler in routes
    )
