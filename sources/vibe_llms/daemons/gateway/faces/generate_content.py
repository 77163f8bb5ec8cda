"""Gemini's generateContent, whose path names the model, and whether the answer is streamed."""

from __future__ import annotations

from functools import partial

import attrs

from vibe_llms.daemons.asgi import HttpCall, refuse_body
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import generate_content
from vibe_llms.providers.remote_models import RemoteModel

FACE = Face(
    name="generate_content",
    dialect=generate_content,
    passed=("x-goog-api-client",),
    model_field="modelVersion",
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Returns the paths of this protocol, of both versions that its clients use."""
    produce = partial(Route, method="POST", write_error=FACE.write_error)
    routes = []
    for version in ("v1beta", "v1"):
        base = f"/{version}/models/{{model:path}}"
        for method, streaming in (("generateContent", False), ("streamGenerateContent", True)):
            handler = partial(_answer, gateway=gateway, streaming=streaming)
            routes.append(produce(pattern=f"{base}:{method}", handler=handler))
        routes.append(produce(pattern=f"{base}:countTokens", handler=partial(_count, gateway)))
    return tuple(routes)


async def _answer(call: HttpCall, record: CallRecord, *, gateway: Gateway, streaming: bool) -> None:
    await gateway.answer(call, record, FACE, partial(_read, call, streaming))


async def _count(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    await gateway.count(
        call,
        record,
        FACE,
        path="",
        write=lambda counted: {"totalTokens": counted.tokens},
        read=partial(_read_count, call),
    )


def _read(call: HttpCall, streaming: bool, face: Face, body: bytes) -> ClientRequest:
    # Without this query a stream is one JSON array, which grows.
    form = call.query.get("alt", "json")
    if streaming and form not in ("json", "sse"):
        raise refuse_body("alt is sse or json.", "alt")
    is_array = streaming and form == "json"
    return ClientRequest(
        body=body,
        model=call.names["model"],
        streaming=streaming,
        rename=None,
        find_path=_find_array if is_array else None,
        writing={"array": True} if is_array else {},
    )


def _find_array(model: RemoteModel) -> str:
    return model.compose_path(streaming=True).partition("?")[0]


def _find_count(model: RemoteModel) -> str:
    return model.compose_path(streaming=False).replace(":generateContent", ":countTokens")


def _read_count(call: HttpCall, face: Face, body: bytes) -> ClientRequest:
    return attrs.evolve(_read(call, False, face, body), find_path=_find_count)
