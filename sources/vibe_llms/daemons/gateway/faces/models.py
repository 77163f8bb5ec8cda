"""Lists of models, for clients of OpenAI, Anthropic and Gemini."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Final

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.client_requests import Face
from vibe_llms.daemons.gateway.faces import chat_completions, generate_content, messages
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.routes import ErrorWriter, Route
from vibe_llms.exceptions import ConverseError, UnknownNameError

_GEMINI_HEADERS: Final = frozenset({"x-goog-api-client", "x-goog-api-key"})
"""Headers of Gemini's clients, which use OpenAI's path and expect other fields."""

_METHODS: Final = ("generateContent", "streamGenerateContent", "countTokens")
"""Methods of a model for clients of Gemini."""


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Return the routes."""
    openai = chat_completions.FACE.write_error
    produce = partial(Route, method="GET", write_error=openai, choose_writer=choose_writer)
    produce_gemini = partial(Route, method="GET", write_error=generate_content.FACE.write_error)
    model_path = "/v1beta/models/{name:path}"
    return (
        produce(pattern="/v1/models", handler=partial(_list, gateway)),
        produce(pattern="/v1/models/{name:path}", handler=partial(_show, gateway)),
        produce_gemini(pattern="/v1beta/models", handler=partial(_list_for_gemini, gateway)),
        produce_gemini(pattern=model_path, handler=partial(_show_to_gemini, gateway)),
    )


def is_gemini(call: HttpCall) -> bool:
    """Return whether a request comes from a client of Gemini's protocol."""
    return bool(_GEMINI_HEADERS & call.headers.keys())


def choose_writer(call: HttpCall) -> ErrorWriter:
    """Return the error writer for the client: three protocols share this path."""
    face: Face = chat_completions.FACE
    if is_gemini(call):
        face = generate_content.FACE
    elif "anthropic-version" in call.headers:
        face = messages.FACE
    return face.write_error


async def _list(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    if is_gemini(call):
        await _list_for_gemini(gateway, call, record)
        return
    names = await gateway.list_names(call, record)
    body = {
        "object": "list",
        "data": [_describe(name) for name in names],
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }
    await call.send_json(body)


async def _show(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    if is_gemini(call):
        await _show_to_gemini(gateway, call, record)
        return
    name = await _find(gateway, call, record)
    await call.send_json(_describe(name))


async def _list_for_gemini(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    names = await gateway.list_names(call, record)
    await call.send_json({"models": [_describe_to_gemini(name) for name in names]})


async def _show_to_gemini(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    name = await _find(gateway, call, record)
    await call.send_json(_describe_to_gemini(name))


async def _find(gateway: Gateway, call: HttpCall, record: CallRecord) -> str:
    """Return the name of the model in the path, if it is listed or can be loaded.

    Vendors do not list all models that they serve, and some clients (Claude Code) request the
    description of their model before they use it.

    Raises:
        AccessError: The client is unknown.
        UnknownNameError: The model is unknown.
    """
    name = call.names["name"]
    names = await gateway.list_names(call, record)
    if name in names:
        return name
    # A path such as /v1beta/models/NAME:countTokens is a call with the wrong HTTP method.
    is_call = name.rpartition(":")[2] in _METHODS
    with suppress(ConverseError):
        if not is_call and await gateway.list_models(call, record, name):
            return name
    raise UnknownNameError(kind="model", name=name, known=tuple(names))


def _describe_to_gemini(name: str) -> dict[str, Any]:
    methods = list(_METHODS)
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}


def _describe(name: str) -> dict[str, Any]:
    # Fields of both protocols; clients ignore unknown fields.
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": name.partition(":")[0] if ":" in name else "gateway",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    }
