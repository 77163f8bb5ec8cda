"""Gemini's generateContent, whose path contains the model and whether to stream."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from vibe_llms.daemons.asgi import refuse_body
from vibe_llms.daemons.gateway.calls import GatewayCall, handle
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.stages import ANSWER, COUNT
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import generate_content
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.models.tokens import TokenCount
from vibe_llms.providers.remote_models import RemoteModel


def _write_count(count: TokenCount) -> JsonObject:
    return {"totalTokens": count.tokens}


FACE = Face(
    name="generate_content",
    dialect=generate_content,
    restricts_tools=True,
    knows_quirks=True,
    write_count=_write_count,
    forwarded_headers=("x-goog-api-client",),
    model_field="modelVersion",
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of both versions of this protocol."""
    produce = partial(Route, method="POST", write_error=FACE.write_error)
    routes = []
    for version in ("v1beta", "v1"):
        base = f"/{version}/models/{{model:path}}"
        for method, streaming in (("generateContent", False), ("streamGenerateContent", True)):
            handler = handle(gateway, FACE, ANSWER, partial(_read, streaming=streaming))
            routes.append(produce(pattern=f"{base}:{method}", handler=handler))
        routes.append(
            produce(
                pattern=f"{base}:countTokens", handler=handle(gateway, FACE, COUNT, _read_count)
            )
        )
    return tuple(routes)


def _read(call: GatewayCall, body: bytes, *, streaming: bool) -> ClientRequest:
    # By default a stream is one JSON array.
    stream_format = call.http.query.get("alt", "json")
    if streaming and stream_format not in ("json", "sse"):
        raise refuse_body("alt must be sse or json.", "alt")
    is_array = streaming and stream_format == "json"
    return ClientRequest(
        body=body,
        model=call.http.names["model"],
        streaming=streaming,
        rename=None,
        find_path=_find_array if is_array else None,
        writing={"array": True} if is_array else {},
    )


def _find_array(model: RemoteModel) -> str:
    return model.compose_path(streaming=True).partition("?")[0]


def _find_count(model: RemoteModel) -> str:
    return model.compose_path(streaming=False).replace(":generateContent", ":countTokens")


def _read_count(call: GatewayCall, body: bytes) -> ClientRequest:
    return replace(_read(call, body, streaming=False), find_path=_find_count)
