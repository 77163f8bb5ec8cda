"""Converse of Amazon Bedrock, whose path contains the model and whether to stream."""

from __future__ import annotations

from functools import partial
from typing import Final

import attrs
from msgspec.structs import replace

from vibe_llms.daemons.gateway.calls import GatewayCall, handle
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.stages import ANSWER, COUNT
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import bedrock
from vibe_llms.dialects.bedrock.serving import counting
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.models.tokens import TokenCount
from vibe_llms.providers.remote_models import RemoteModel


def _write_count(count: TokenCount) -> JsonObject:
    return {"inputTokens": count.tokens}


FACE: Final = Face(
    name="bedrock",
    dialect=bedrock,
    framing="aws",
    model_field="",
    id_header="x-amzn-requestid",
    write_count=_write_count,
)
_COUNTING: Final = attrs.evolve(FACE, dialect=counting)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of this protocol."""
    produce = partial(Route, method="POST", write_error=FACE.write_error)
    routes = [
        produce(
            pattern=f"/model/{{model:path}}/{operation}",
            handler=handle(gateway, FACE, ANSWER, partial(_read, streaming=streaming)),
        )
        for operation, streaming in (("converse", False), ("converse-stream", True))
    ]
    count = handle(gateway, _COUNTING, COUNT, _read_count)
    return (*routes, produce(pattern="/model/{model:path}/count-tokens", handler=count))


def _read(call: GatewayCall, body: bytes, *, streaming: bool) -> ClientRequest:
    model = call.http.names["model"]
    return ClientRequest(body=body, model=model, streaming=streaming, rename=None)


def _read_count(call: GatewayCall, body: bytes) -> ClientRequest:
    return replace(_read(call, body, streaming=False), find_path=_find_count)


def _find_count(model: RemoteModel) -> str:
    return model.compose_path(streaming=False).removesuffix("converse") + "count-tokens"
