"""OpenAI's Responses."""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.responses.conversations import ConversationEndpoints
from vibe_llms.daemons.gateway.responses.endpoints import ResponseEndpoints
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import responses
from vibe_llms.dialects.responses.serving.responses import echo_request
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import TokenCount

FACE = Face(
    name="responses",
    dialect=responses,
    echo=echo_request,
    # Whose account pays is ours to say.
    passed=("openai-beta", "idempotency-key", "x-client-request-id"),
    id_header="x-request-id",
    is_kept=True,
)

_RESPONSE = "/v1/responses/{id}"
_CONVERSATION = "/v1/conversations/{id}"


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Returns the paths of this protocol."""
    produce = partial(Route, write_error=FACE.write_error)
    count = partial(gateway.count, face=FACE, path="/responses/input_tokens", write=write_count)
    answer = partial(gateway.answer, face=FACE)
    routes = [
        produce(method="POST", pattern="/v1/responses", handler=answer),
        produce(method="POST", pattern="/v1/responses/input_tokens", handler=count),
    ]
    keeper = gateway.keeper
    if keeper is None:
        return tuple(routes)
    kept = ResponseEndpoints(gateway, keeper, FACE)
    begun = ConversationEndpoints(gateway, keeper, FACE)
    table = (
        ("POST", "/v1/responses/compact", kept.compact),
        ("GET", _RESPONSE, kept.retrieve),
        ("DELETE", _RESPONSE, kept.delete),
        ("POST", f"{_RESPONSE}/cancel", kept.cancel),
        ("GET", f"{_RESPONSE}/input_items", kept.list_input),
        ("POST", "/v1/conversations", begun.create),
        ("GET", _CONVERSATION, begun.retrieve),
        ("POST", _CONVERSATION, begun.update),
        ("DELETE", _CONVERSATION, begun.delete),
        ("POST", f"{_CONVERSATION}/items", begun.add_items),
        ("GET", f"{_CONVERSATION}/items", begun.list_items),
        ("GET", f"{_CONVERSATION}/items/{{item}}", begun.retrieve_item),
        ("DELETE", f"{_CONVERSATION}/items/{{item}}", begun.delete_item),
    )
    routes += [
        produce(method=method, pattern=pattern, handler=handler)
        for method, pattern, handler in table
    ]
    return tuple(routes)


def write_count(counted: TokenCount) -> JsonObject:
    """Writes how many tokens a request has."""
    return {"object": "response.input_tokens", "input_tokens": counted.tokens}
