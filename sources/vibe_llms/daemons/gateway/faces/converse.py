"""vibe-llms' own protocol, used by the provider ``remote`` of another vibe-llms."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import read_head
from vibe_llms.daemons.gateway.calls import GatewayCall, handle
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.stages import ANSWER, COUNT
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import converse

FACE = Face(name="converse", dialect=converse, write_count=converse.nativize_count, is_ours=True)


class _Inner(msgspec.Struct):
    model: str = ""


class _Head(msgspec.Struct):
    request: _Inner
    stream: bool = False


_HEAD: Final = msgspec.json.Decoder(_Head)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of this protocol."""
    produce = partial(Route, write_error=FACE.write_error)
    answer = handle(gateway, FACE, ANSWER, _read)
    count = handle(gateway, FACE, COUNT, _read)
    return (
        produce(method="POST", pattern="/v1/converse", handler=answer),
        produce(method="POST", pattern="/v1/converse/count", handler=count),
        produce(method="GET", pattern="/v1/converse/models", handler=partial(_list, gateway)),
    )


async def _list(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    models = await gateway.list_models(call, record, call.query.get("model"))
    body: Any = converse.nativize_models(models)
    await call.send_json(body)


def _read(call: GatewayCall, body: bytes) -> ClientRequest:
    head = read_head(_HEAD, body)
    return ClientRequest(body=body, model=head.request.model, streaming=head.stream, rename=None)
