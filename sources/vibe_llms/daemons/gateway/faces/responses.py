"""OpenAI's Responses."""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.gateway.calls import GatewayCall, handle
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face, read_client_request
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.responses.conversations import ConversationEndpoints
from vibe_llms.daemons.gateway.responses.endpoints import ResponseEndpoints
from vibe_llms.daemons.gateway.stages import ANSWER, COMPACT, COUNT
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import responses
from vibe_llms.dialects.responses.serving.responses import echo_request
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.providers.interfaces import TokenCount


def _write_count(counted: TokenCount) -> JsonObject:
    """Write the number of tokens of a request."""
    return {"object": "response.input_tokens", "input_tokens": counted.tokens}


def _read_compact(call: GatewayCall, body: bytes) -> ClientRequest:
    return read_client_request(call.face, body).move("/responses/compact")


FACE = Face(
    name="responses",
    dialect=responses,
    restricts_tools=True,
    echo=echo_request,
    # The gateway, not the client, chooses the vendor account.
    passed=("openai-beta", "idempotency-key", "x-client-request-id"),
    id_header="x-request-id",
    count_path="/responses/input_tokens",
    write_count=_write_count,
    is_stored=True,
)

_RESPONSE = "/v1/responses/{id}"
_CONVERSATION = "/v1/conversations/{id}"


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of this protocol."""
    produce = partial(Route, write_error=FACE.write_error)
    count = handle(gateway, FACE, COUNT)
    routes = [
        produce(method="POST", pattern="/v1/responses", handler=handle(gateway, FACE, ANSWER)),
        produce(method="POST", pattern="/v1/responses/input_tokens", handler=count),
    ]
    storage = gateway.storage
    if storage is None:
        return tuple(routes)
    stored = ResponseEndpoints(gateway, storage, FACE)
    begun = ConversationEndpoints(gateway, storage, FACE)
    compact = handle(gateway, FACE, COMPACT, _read_compact)
    table = (
        ("POST", "/v1/responses/compact", compact),
        ("GET", _RESPONSE, stored.retrieve),
        ("DELETE", _RESPONSE, stored.delete),
        ("POST", f"{_RESPONSE}/cancel", stored.cancel),
        ("GET", f"{_RESPONSE}/input_items", stored.list_input),
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
