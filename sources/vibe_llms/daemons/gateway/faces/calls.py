"""Calls outside of a conversation: embeddings, rankings and moderation, in several protocols."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import attrs
from msgspec.structs import replace

from vibe_llms.daemons.gateway.accounting import account
from vibe_llms.daemons.gateway.basic_stages import (
    authenticate,
    cache,
    fall_back,
    read,
    route,
)
from vibe_llms.daemons.gateway.calling import answer_call
from vibe_llms.daemons.gateway.calls import GatewayCall, handle
from vibe_llms.daemons.gateway.client_requests import (
    ClientRequest,
    Face,
    read_client_request,
    read_form_request,
    rename_model,
    rename_model_in_form,
)
from vibe_llms.daemons.gateway.faces.ollama import BODY_TYPES
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import (
    chat_completions,
    generate_content,
    moderations,
    ollama_chat,
    rankings,
)
from vibe_llms.dialects.calls import ClientFormat
from vibe_llms.dialects.client_answers import ErrorAnswer, compose_error_message
from vibe_llms.dialects.embeddings import cohere, google, ollama, openai
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.forms import is_form
from vibe_llms.models.genera import Genus

EMBEDDINGS: Final = Face(
    name="embeddings",
    dialect=chat_completions,
    forwarded_headers=("openai-beta", "idempotency-key", "x-client-request-id"),
    id_header="x-request-id",
    genus=Genus.EMBEDDER,
)


class CohereFace(Face):
    """The protocol of Cohere's clients; those of Jina and others share a part of it."""

    def write_error(self, error: ConverseError) -> ErrorAnswer:
        """Write an error for both: with ``message`` for Cohere, and ``error`` for the others."""
        answer = super().write_error(error)
        return attrs.evolve(answer, body={"message": compose_error_message(error), **answer.body})


RANKINGS: Final = CohereFace(name="rankings", dialect=chat_completions, genus=Genus.RANKER)
COHERE: Final = CohereFace(name="cohere_embed", dialect=chat_completions, genus=Genus.EMBEDDER)
MODERATIONS: Final = attrs.evolve(EMBEDDINGS, name="moderations", genus=Genus.MODERATOR)
OLLAMA: Final = Face(name="ollama_embed", dialect=ollama_chat, genus=Genus.EMBEDDER)
GEMINI: Final = Face(
    name="embed_contents",
    dialect=generate_content,
    forwarded_headers=("x-goog-api-client",),
    genus=Genus.EMBEDDER,
)

DEPLOYMENT: Final = "/openai/deployments/{model:path}"
"""Beginning of the paths of Azure's clients."""


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of embeddings, rankings and moderation."""
    produce = partial(produce_route, gateway)
    gemini = [
        produce(GEMINI, client_format, f"/{version}/models/{{model:path}}:{method}", _read_path)
        for version in ("v1beta", "v1")
        for method, client_format in (
            ("embedContent", google.CLIENT_FORMAT),
            ("batchEmbedContents", google.BATCH_FORMAT),
        )
    ]
    return (
        produce(EMBEDDINGS, openai.CLIENT_FORMAT, "/v1/embeddings"),
        produce(EMBEDDINGS, openai.CLIENT_FORMAT, f"{DEPLOYMENT}/embeddings", read_deployment),
        produce(RANKINGS, rankings.CLIENT_FORMAT, "/v1/rerank"),
        produce(RANKINGS, rankings.CLIENT_FORMAT, "/v2/rerank"),
        produce(MODERATIONS, moderations.CLIENT_FORMAT, "/v1/moderations"),
        produce(COHERE, cohere.FIRST_FORMAT, "/v1/embed"),
        produce(COHERE, cohere.CLIENT_FORMAT, "/v2/embed"),
        produce(OLLAMA, ollama.CLIENT_FORMAT, "/api/embed", body_types=BODY_TYPES),
        produce(OLLAMA, ollama.PROMPT_FORMAT, "/api/embeddings", body_types=BODY_TYPES),
        *gemini,
    )


def produce_route(
    gateway: Gateway,
    face: Face,
    client_format: ClientFormat[Any, Any],
    pattern: str,
    read_request: Callable[[GatewayCall, bytes], ClientRequest] | None = None,
    **route_options: Any,
) -> Route:
    """Return the route of one kind of call.

    Args:
        read_request: Parses the body and finds the model; by default in the body.
        route_options: Further fields of the route.
    """
    answer = partial(answer_call, client_format=client_format)
    stages = (authenticate, read, route, cache, fall_back, account, answer)
    handler = handle(gateway, face, stages, read_request or read_call)
    return Route(
        method="POST",
        pattern=pattern,
        handler=handler,
        write_error=face.write_error,
        **route_options,
    )


def read_call(call: GatewayCall, body: bytes) -> ClientRequest:
    """Find the model in the body: JSON, or a form."""
    content_type = call.http.headers.get("content-type", "")
    if is_form(content_type):
        return read_form_request(body, content_type)
    return read_client_request(call.face, body)


def read_deployment(call: GatewayCall, body: bytes) -> ClientRequest:
    """Find the model in the path, where Azure's clients name it; the path takes precedence."""
    request, model = read_call(call, body), call.http.names["model"]
    if request.model == model:
        return request
    if request.fields is not None:
        renamed = rename_model_in_form(body, model)
        return replace(request, model=model, body=renamed)
    return read_client_request(call.face, rename_model(body, model))


def _read_path(call: GatewayCall, body: bytes) -> ClientRequest:
    return ClientRequest(body=body, model=call.http.names["model"], streaming=False, rename=None)


_PATH_ENDS: Final = (
    "/audio/speech",
    "/audio/transcriptions",
    "/audio/translations",
    "/v1/completions",
    "/fim/completions",
    "{model:path}/completions",
    "/embed",
    "/embeddings",
    "/rerank",
    "/moderations",
    "/images/generations",
    "/images/edits",
)


def is_call(pattern: str) -> bool:
    """Return whether a path, or that of a deployment, belongs to such a call, or to a prompt."""
    return pattern.endswith(_PATH_ENDS) or "mbedContent" in pattern
