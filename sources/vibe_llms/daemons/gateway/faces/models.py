"""The list of models, as the clients of OpenAI and of Anthropic both read it, and Gemini's."""

from __future__ import annotations

from functools import partial
from typing import Any

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.service import Route, encode, write_plain_error
from vibe_llms.exceptions import UnknownNameError


def produce_routes(gateway: Gateway) -> tuple[Route, ...]:
    """Returns the paths."""
    produce = partial(Route, method="GET", write_error=write_plain_error)
    return (
        produce(pattern="/v1/models", handler=partial(_list, gateway)),
        produce(pattern="/v1/models/{name:path}", handler=partial(_show, gateway)),
        produce(pattern="/v1beta/models", handler=partial(_list_for_gemini, gateway)),
    )


async def _list(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    names = await gateway.list_names(call, record)
    body = {
        "object": "list",
        "data": [_describe(name) for name in names],
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }
    await call.answer(200, encode(body), {})


async def _show(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    name = call.names["name"]
    names = await gateway.list_names(call, record)
    if name not in names:
        raise UnknownNameError(kind="model", name=name, known=tuple(names))
    await call.answer(200, encode(_describe(name)), {})


async def _list_for_gemini(gateway: Gateway, call: HttpCall, record: CallRecord) -> None:
    names = await gateway.list_names(call, record)
    methods = ["generateContent", "streamGenerateContent", "countTokens"]
    models = [
        {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
        for name in names
    ]
    await call.answer(200, encode({"models": models}), {})


def _describe(name: str) -> dict[str, Any]:
    # The fields of both: each of their clients passes by those of the other.
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": name.partition(":")[0] if ":" in name else "gateway",
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
    }
