"""OpenAI's Chat Completions."""

from __future__ import annotations

from functools import partial

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.client_requests import (
    ClientRequest,
    Face,
    read_client_request,
    rename_model,
)
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import chat_completions

FACE = Face(
    name="chat_completions",
    dialect=chat_completions,
    # Whose account pays is ours to say.
    passed=("openai-beta", "idempotency-key", "x-client-request-id"),
    id_header="x-request-id",
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Returns the paths of this protocol, and where Azure's clients look for it."""
    produce = partial(Route, method="POST", write_error=FACE.write_error)
    deployment = "/openai/deployments/{model:path}/chat/completions"
    return (
        produce(pattern="/v1/chat/completions", handler=partial(gateway.answer, face=FACE)),
        produce(pattern=deployment, handler=partial(_answer_azure, gateway)),
    )


async def _answer_azure(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    await gateway.answer(call, record, FACE, partial(_read_deployment, call))


def _read_deployment(call: HttpCall, face: Face, body: bytes) -> ClientRequest:
    asked = read_client_request(face, body)
    model = call.names["model"]  # which counts there, whatever the body says
    return asked if asked.model == model else read_client_request(face, rename_model(body, model))
