"""Translation of invocables to tools, of the tool choice, and of schemas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from vibe_llms.dialects.bedrock.calling.caching import CACHE_POINT, write_cache_point
from vibe_llms.dialects.bedrock.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.extras import AS_IT_IS, merge, without, write_json
from vibe_llms.dialects.invocations import (
    NO_ARGUMENTS,
    InvocablesWriter,
    Offer,
    describe,
    write_parameters,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.descriptions import InvocableDescription

FUNCTION: Final = "toolSpec"
"""The field of a tool that the client executes."""

CHOICES: Final = {"auto": "auto", "required": "any"}
"""The vendor's word for each choice, unless the choice is a tool."""

SCHEMA_NAME: Final = "answer"
"""Name of the schema of an answer, which the protocol requires to have one for some models."""


def _write_tool(
    invocable: InvocableDescription, path: str, quirks: Quirks, ledger: Ledger
) -> dict[str, Any] | None:
    if invocable.schema is None:
        ledger.withhold(
            path,
            f"{invocable.name} takes free text, and the vendor accepts only tools with a schema",
        )
        return None
    extras = ledger.read_sendable(invocable.native, path)
    schema = write_parameters(invocable, extras) or NO_ARGUMENTS
    function = {
        "name": invocable.name,
        **describe(invocable),
        "inputSchema": {"json": schema},
    }
    if invocable.enforced and (extras.pop(AS_IT_IS, False) or is_closed(schema)):
        function["strict"] = True
    elif invocable.enforced:
        ledger.drop(f"{path}.enforced", "the vendor enforces only closed schemas")
    return merge({FUNCTION: function}, extras)


def is_closed(schema: Any) -> bool:
    """Return whether all objects of a schema forbid unknown properties."""
    if isinstance(schema, (list, tuple)):
        return all(map(is_closed, schema))
    if not isinstance(schema, Mapping):
        return True
    kinds = schema.get("type")
    is_object = "object" in kinds if isinstance(kinds, (list, tuple)) else kinds == "object"
    if is_object and schema.get("additionalProperties") is not False:
        return False
    return all(map(is_closed, schema.values()))


def _mark_tool(
    tool: dict[str, Any], hint: CacheHint, path: str, quirks: Quirks, ledger: Ledger
) -> dict[str, Any]:
    """Return a tool with its cache point, which becomes an entry of its own."""
    return {**tool, **write_cache_point(hint, path, ledger)}


def _compose(offer: Offer) -> dict[str, Any]:
    tools: list[dict[str, Any]] = []
    for tool in offer.tools.values():
        if CACHE_POINT in tool and len(tool) > 1:
            tools += (without(tool, CACHE_POINT), {CACHE_POINT: tool[CACHE_POINT]})
        else:
            tools.append(tool)
    if not tools:
        return {}
    config: dict[str, Any] = {"tools": tools}
    if offer.choice in offer.tools:
        config["toolChoice"] = {"tool": {"name": offer.choice}}
    elif offer.choice == "required":
        config["toolChoice"] = {CHOICES[offer.choice]: {}}
    return {"toolConfig": config}


nativize_invocables = InvocablesWriter(
    PROTOCOL,
    _write_tool,
    _compose,
    lambda tool: FUNCTION in tool,
    mark_tool=_mark_tool,
    service="bedrock",
).nativize


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Return the ``outputConfig`` that constrains an answer to a schema."""
    if schema is None:
        return {}
    structure = {"jsonSchema": {"schema": write_json(schema), "name": SCHEMA_NAME}}
    return {"outputConfig": {"textFormat": {"type": "json_schema", "structure": structure}}}


def complete_tools(body: dict[str, Any], choice: str, ledger: Ledger) -> None:
    """Complete the tools of a request, which are required if its messages contain calls.

    Args:
        choice: The choice of the request: the protocol cannot forbid calls, except by a request
            without tools.
    """
    names = dict.fromkeys(_find_called(body.get("messages") or ()))
    if "toolConfig" in body:
        if choice != "none":
            return
        path = "invocation_choice"
        if names:
            ledger.drop(path, "this protocol cannot forbid invocations after earlier ones")
        else:
            ledger.coerce(path, "no invocables are sent, as none may be called")
            del body["toolConfig"]
    elif names:
        tools = [
            {FUNCTION: {"name": name, "inputSchema": {"json": NO_ARGUMENTS}}} for name in names
        ]
        body["toolConfig"] = {"tools": tools}
        ledger.synthesize(
            "invocables", "the protocol requires the tools of earlier invocations; they were added"
        )


def _find_called(messages: Iterable[Any]) -> Iterable[str]:
    """Yield the names of the tools that messages call."""
    for message in messages:
        for block in message.get("content") or () if isinstance(message, Mapping) else ():
            call = block.get("toolUse") if isinstance(block, Mapping) else None
            if isinstance(call, Mapping) and call.get("type") is None:
                yield str(call.get("name"))
