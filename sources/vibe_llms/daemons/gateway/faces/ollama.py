"""Ollama's chat, its older call for a prompt, and its lists of models: https://docs.ollama.com/api."""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs

from vibe_llms.daemons.asgi import JSON, HttpCall, refuse_body
from vibe_llms.daemons.bodies import decode_body, read_json_body
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face, read_client_request
from vibe_llms.daemons.gateway.gateway import Gateway, ensure_admitted
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import ollama_chat
from vibe_llms.dialects.ollama_chat.serving import generation
from vibe_llms.models.attributes import Capability
from vibe_llms.models.descriptors import ModelDescriptor

FACE = Face(name="ollama", dialect=ollama_chat, framing="ndjson", streams_by_default=True)
_GENERATION = attrs.evolve(FACE, name="ollama_generate", dialect=generation)

_BODY_TYPES = (JSON, "application/x-www-form-urlencoded", "text/plain", "")
"""Those of clients that name no type, as in the examples of Ollama's documentation: curl sends the
second, JavaScript's ``fetch`` the third, and most HTTP libraries none."""

_VERSION = "0.20.0"
"""Of the server whose protocol this is; clients look whether it is new enough."""

_CAPABILITIES = (
    ("tools", "supports_invocations"),
    ("vision", "supports_images"),
    ("thinking", "supports_reasoning"),
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Returns the paths of this protocol."""
    produce = partial(Route, write_error=FACE.write_error, body_types=_BODY_TYPES)
    generate = partial(gateway.answer, face=_GENERATION, read=_read_generation)
    return (
        produce(method="POST", pattern="/api/chat", handler=partial(gateway.answer, face=FACE)),
        produce(method="POST", pattern="/api/generate", handler=generate),
        produce(method="GET", pattern="/api/tags", handler=partial(_list, gateway)),
        produce(method="GET", pattern="/api/ps", handler=partial(_list_loaded, gateway)),
        produce(method="POST", pattern="/api/show", handler=partial(_show, gateway)),
        produce(method="GET", pattern="/api/version", handler=_tell_version, is_admitted=False),
    )


def _read_generation(face: Face, body: bytes) -> ClientRequest:
    return read_client_request(face, body).move("/api/generate")


async def _list_loaded(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    await gateway.authorize(call, record)
    await call.tell({"models": []})  # none of them takes memory here


async def _list(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    names = await gateway.list_names(call, record)
    models = [
        {
            "name": name,
            "model": name,
            "modified_at": "1970-01-01T00:00:00Z",
            "size": 0,
            "digest": "",
            "details": _DETAILS,
        }
        for name in names
    ]
    await call.tell({"models": models})


_DETAILS = {
    "parent_model": "",
    "format": "",
    "family": "",
    "families": [],
    "parameter_size": "",
    "quantization_level": "",
}
"""What is known of files alone, and of no model that is asked elsewhere."""


async def _show(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    grant = await gateway.authorize(call, record)
    body = decode_body(await read_json_body(call))
    name = next((body[key] for key in ("model", "name") if body.get(key) not in (None, "")), "")
    if not isinstance(name, str):
        raise refuse_body("The name of a model is a text.", "model")
    record.model = name
    upstream = await gateway.upstreams.access(name)
    ensure_admitted(grant, name or upstream.address)
    await call.tell(describe(upstream.model.descriptor))


def describe(descriptor: ModelDescriptor) -> dict[str, Any]:
    """Returns what is known of a model in Ollama's words."""
    attributes = descriptor.attributes
    told = ["completion"]
    for word, capability in _CAPABILITIES:
        if attributes.access_capability(capability) is Capability.YES:
            told.append(word)
    family = descriptor.provider
    info: dict[str, Any] = {"general.architecture": family}
    window = attributes.access_value("context_window_tokens")
    if isinstance(window, int):
        info[f"{family}.context_length"] = window
    return {
        "details": {**_DETAILS, "family": family, "families": [family]},
        "model_info": info,
        "capabilities": told,
        "modified_at": "1970-01-01T00:00:00Z",
    }


async def _tell_version(call: HttpCall, record: CallRecord) -> None:
    await call.tell({"version": _VERSION})
