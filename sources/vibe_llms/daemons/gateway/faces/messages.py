"""Anthropic's Messages, with its count of tokens."""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.gateway.calls import handle
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.stages import ANSWER, COUNT
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import messages

FACE = Face(
    name="messages",
    dialect=messages,
    forwarded_headers=("anthropic-",),
    id_header="request-id",
    count_path="/v1/messages/count_tokens",
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of this protocol."""
    produce = partial(Route, method="POST", write_error=FACE.write_error)
    return (
        produce(pattern="/v1/messages", handler=handle(gateway, FACE, ANSWER)),
        produce(pattern="/v1/messages/count_tokens", handler=handle(gateway, FACE, COUNT)),
    )
