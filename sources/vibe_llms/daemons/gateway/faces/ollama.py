"""Ollama's chat, older endpoint for prompts, and lists of models: https://docs.ollama.com/api."""

from __future__ import annotations

from functools import partial
from typing import Any

import attrs

from vibe_llms.daemons.asgi import JSON, HttpCall, refuse_body
from vibe_llms.daemons.bodies import decode_body, read_json_body
from vibe_llms.daemons.gateway.calls import GatewayCall, handle
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face, read_client_request
from vibe_llms.daemons.gateway.gateway import Gateway, ensure_admitted
from vibe_llms.daemons.gateway.stages import ANSWER
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import Route
from vibe_llms.dialects import ollama_chat
from vibe_llms.dialects.ollama_chat.serving import generation
from vibe_llms.models.attributes import Capability
from vibe_llms.models.descriptors import ModelDescriptor

FACE = Face(name="ollama", dialect=ollama_chat, framing="ndjson", streams_by_default=True)
_GENERATION = attrs.evolve(FACE, name="ollama_generate", dialect=generation)

BODY_TYPES = (JSON, "application/x-www-form-urlencoded", "text/plain", "")
"""Content types of clients that set none, as in the examples of Ollama's documentation: curl sends
the second, JavaScript's ``fetch`` the third, and most HTTP libraries the last."""

_VERSION = "0.20.0"
"""Version of the Ollama server that is imitated; clients require a minimum."""

_CAPABILITIES = (
    ("tools", "supports_invocations"),
    ("vision", "supports_images"),
    ("thinking", "supports_reasoning"),
)


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes of this protocol."""
    produce = partial(Route, write_error=FACE.write_error, body_types=BODY_TYPES)
    generate = handle(gateway, _GENERATION, ANSWER, _read_generation)
    return (
        produce(method="POST", pattern="/api/chat", handler=handle(gateway, FACE, ANSWER)),
        produce(method="POST", pattern="/api/generate", handler=generate),
        produce(method="GET", pattern="/api/tags", handler=partial(_list, gateway)),
        produce(method="GET", pattern="/api/ps", handler=partial(_list_loaded, gateway)),
        produce(method="POST", pattern="/api/show", handler=partial(_show, gateway)),
        produce(method="GET", pattern="/api/version", handler=_show_version, is_admitted=False),
    )


def _read_generation(call: GatewayCall, body: bytes) -> ClientRequest:
    return read_client_request(_GENERATION, body).move("/api/generate")


async def _list_loaded(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    await gateway.authorize(call, record)
    await call.send_json({"models": []})  # upstream models occupy no memory of the gateway


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
    await call.send_json({"models": models})


_DETAILS = {
    "parent_model": "",
    "format": "",
    "family": "",
    "families": [],
    "parameter_size": "",
    "quantization_level": "",
}
"""Details of model files, which are unknown for upstream models."""


async def _show(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    grant = await gateway.authorize(call, record)
    body = decode_body(await read_json_body(call))
    name = next((body[key] for key in ("model", "name") if body.get(key) not in (None, "")), "")
    if not isinstance(name, str):
        raise refuse_body("The model's name must be a string.", "model")
    record.model = name
    upstream = await gateway.upstreams.access(name)
    ensure_admitted(grant, name or upstream.address)
    await call.send_json(describe(upstream.model.descriptor))


def describe(descriptor: ModelDescriptor) -> dict[str, Any]:
    """Return a model's details in Ollama's protocol."""
    attributes = descriptor.attributes
    capabilities = ["completion"]
    for name, attribute in _CAPABILITIES:
        if attributes.access_capability(attribute) is Capability.YES:
            capabilities.append(name)
    family = descriptor.provider
    info: dict[str, Any] = {"general.architecture": family}
    window = attributes.access_value("context_window_tokens")
    if isinstance(window, int):
        info[f"{family}.context_length"] = window
    return {
        "details": {**_DETAILS, "family": family, "families": [family]},
        "model_info": info,
        "capabilities": capabilities,
        "modified_at": "1970-01-01T00:00:00Z",
    }


async def _show_version(call: HttpCall, record: CallRecord) -> None:
    await call.send_json({"version": _VERSION})
