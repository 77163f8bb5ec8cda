"""Gemini's Interactions. Stored interactions are those of an upstream of the same protocol.

The gateway waits for an interaction in the background, and returns it complete; a streamed one is
passed through.
"""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.gateway.calls import handle
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.stages import ANSWER
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import interactions

FACE = Face(
    name="interactions",
    dialect=interactions,
    restricts_tools=True,
    knows_quirks=True,
    forwarded_headers=("api-revision", "x-goog-api-client"),
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of both versions of this protocol."""
    produce = partial(Route, method="POST", write_error=FACE.write_error)
    handler = handle(gateway, FACE, ANSWER)
    return tuple(
        produce(pattern=f"/{version}/interactions", handler=handler) for version in ("v1beta", "v1")
    )
