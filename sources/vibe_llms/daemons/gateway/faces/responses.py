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


def _write_count(count: TokenCount) -> JsonObject:
    """Write the number of tokens of a request."""
    return {"object": "response.input_tokens", "input_tokens": count.tokens}


def _read_compact(call: GatewayCall, body: bytes) -> ClientRequest:
    return read_client_request(call.face, body).move("/responses/compact")


FACE = Face(
    name="responses",
    dialect=responses,
    restricts_tools=True,
    echo=echo_request,
    # The gateway, not the client, chooses the vendor account.
    forwarded_headers=("openai-beta", "idempotency-key", "x-client-request-id"),
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
    stored_responses = ResponseEndpoints(gateway, storage, FACE)
    conversations = ConversationEndpoints(gateway, storage, FACE)
    compact = handle(gateway, FACE, COMPACT, _read_compact)
    table = (
        ("POST", "/v1/responses/compact", compact),
        ("GET", _RESPONSE, stored_responses.retrieve),
        ("DELETE", _RESPONSE, stored_responses.delete),
        ("POST", f"{_RESPONSE}/cancel", stored_responses.cancel),
        ("GET", f"{_RESPONSE}/input_items", stored_responses.list_input),
        ("POST", "/v1/conversations", conversations.create),
        ("GET", _CONVERSATION, conversations.retrieve),
        ("POST", _CONVERSATION, conversations.update),
        ("DELETE", _CONVERSATION, conversations.delete),
        ("POST", f"{_CONVERSATION}/items", conversations.add_items),
        ("GET", f"{_CONVERSATION}/items", conversations.list_items),
        ("GET", f"{_CONVERSATION}/items/{{item}}", conversations.retrieve_item),
        ("DELETE", f"{_CONVERSATION}/items/{{item}}", conversations.delete_item),
    )
    routes += [
        produce(method=method, pattern=pattern, handler=handler)
        for method, pattern, handler in table
    ]
    return tuple(routes)
