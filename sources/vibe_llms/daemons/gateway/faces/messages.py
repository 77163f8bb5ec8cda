"""Anthropic's Messages, with its count of tokens."""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import messages

FACE = Face(name="messages", dialect=messages, passed=("anthropic-",), id_header="request-id")


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Returns the paths of this protocol."""
    produce = partial(Route, method="POST", write_error=FACE.write_error)
    count = partial(
        gateway.count,
        face=FACE,
        path="/v1/messages/count_tokens",
        write=lambda counted: {"input_tokens": counted.tokens},
    )
    return (
        produce(pattern="/v1/messages", handler=partial(gateway.answer, face=FACE)),
        produce(pattern="/v1/messages/count_tokens", handler=count),
    )
