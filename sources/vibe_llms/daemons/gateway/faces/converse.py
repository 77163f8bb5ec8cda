"""Our own protocol, by which another vibe-llms asks (the provider ``remote``)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.bodies import read_head
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import converse

FACE = Face(name="converse", dialect=converse, is_ours=True)


class _Inner(msgspec.Struct):
    model: str = ""


class _Head(msgspec.Struct):
    request: _Inner
    stream: bool = False


_HEAD: Final = msgspec.json.Decoder(_Head)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Returns the paths of this protocol."""
    produce = partial(Route, write_error=FACE.write_error)
    answer = partial(gateway.answer, face=FACE, read=read_client_request)
    count = partial(
        gateway.count, face=FACE, path="", write=converse.nativize_count, read=read_client_request
    )
    return (
        produce(method="POST", pattern="/v1/converse", handler=answer),
        produce(method="POST", pattern="/v1/converse/count", handler=count),
        produce(method="GET", pattern="/v1/converse/models", handler=partial(_list, gateway)),
    )


async def _list(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    models = await gateway.list_models(call, record, call.query.get("model"))
    body: Any = converse.nativize_models(models)
    await call.tell(body)


def read_client_request(face: Face, body: bytes) -> ClientRequest:
    """Reads of a body who is asked, and how the answer is wanted. Raises RequestError."""
    head = read_head(_HEAD, body)
    return ClientRequest(body=body, model=head.request.model, streaming=head.stream, rename=None)
