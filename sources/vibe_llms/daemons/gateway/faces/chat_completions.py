"""OpenAI's Chat Completions."""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.gateway.calls import GatewayCall, handle
from vibe_llms.daemons.gateway.client_requests import (
    ClientRequest,
    Face,
    read_client_request,
    rename_model,
)
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.stages import ANSWER
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import chat_completions

FACE = Face(
    name="chat_completions",
    dialect=chat_completions,
    restricts_tools=True,
    knows_quirks=True,
    keeps_unknown=True,
    # The gateway, not the client, chooses the vendor account.
    forwarded_headers=("openai-beta", "idempotency-key", "x-client-request-id"),
    id_header="x-request-id",
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of this protocol, and those of Azure's clients."""
    produce = partial(Route, method="POST", write_error=FACE.write_error)
    deployment = "/openai/deployments/{model:path}/chat/completions"
    answer_azure = handle(gateway, FACE, ANSWER, _read_deployment)
    return (
        produce(pattern="/v1/chat/completions", handler=handle(gateway, FACE, ANSWER)),
        produce(pattern=deployment, handler=answer_azure),
    )


def _read_deployment(call: GatewayCall, body: bytes) -> ClientRequest:
    request = read_client_request(FACE, body)
    model = call.http.names["model"]  # takes precedence over the body
    if request.model == model:
        return request
    return read_client_request(FACE, rename_model(body, model))
