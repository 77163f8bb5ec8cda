"""Descriptions of invocables as tools, the choice among them, and schemas; both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.plain import JsonObject, JsonValue


def nativize_invocables(
    invocables: Sequence[InvocableDescription], choice: str
) -> Translation[JsonObject]:
    """Returns ``tools`` and ``tool_choice``; nothing where there are no invocables."""
    losses: list[Loss] = []
    offered = withhold_schemaless(invocables, losses)
    if not offered:
        return Translation({}, losses)
    native: dict[str, JsonValue] = {"tools": [_nativize_tool(item) for item in offered]}
    if choice == "auto":  # what silence means
        return Translation(native, losses)
    if choice in CHOICES:
        native["tool_choice"] = choice
        return Translation(native, losses)
    native["tool_choice"] = {"type": "function", "function": {"name": choice}}
    return Translation(native, losses)


def withhold_schemaless(
    invocables: Sequence[InvocableDescription], losses: list[Loss]
) -> tuple[InvocableDescription, ...]:
    """Returns those with a schema; tools of free text, and vendors' own, become losses."""
    for index, invocable in enumerate(invocables):
        if invocable.schema is None:
            reason = f"{invocable.name} takes no arguments by a schema, and only such are offered"
            path = f"invocables[{index}]"
            losses.append(Loss(kind=LossKind.WITHHELD, path=path, reason=reason))
        elif invocable.native is not None:
            reason = f"{invocable.name} is a vendor's own tool and goes as an ordinary function"
            path = f"invocables[{index}]"
            losses.append(Loss(kind=LossKind.COERCED, path=path, reason=reason))
    return tuple(invocable for invocable in invocables if invocable.schema is not None)


def _nativize_tool(invocable: InvocableDescription) -> JsonObject:
    function: dict[str, JsonValue] = {
        "name": invocable.name,
        "description": invocable.description,
        "parameters": invocable.schema,
    }
    if invocable.enforced:
        function["strict"] = True
    return {"type": "function", "function": function}


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Returns the descriptions and the choice in a client's request."""
    invocables = []
    losses = []
    for index, tool in enumerate(native.get("tools") or ()):
        path = f"tools[{index}]"
        function = tool.get("function")
        if tool.get("type") != "function" or not isinstance(function, Mapping):
            reason = f"a tool of type {tool.get('type')!r} has no common meaning"
            losses.append(Loss(kind=LossKind.DROPPED, path=path, reason=reason))
            continue
        description = function.get("description") or ""
        if not description.strip():
            # Ours is mandatory, and a client may give none.
            description = function["name"]
            reason = "it has no description; its name stands in"
            losses.append(Loss(kind=LossKind.SYNTHESIZED, path=path, reason=reason))
        invocables.append(
            InvocableDescription(
                name=function["name"],
                description=description,
                schema=function.get("parameters") or {"type": "object", "properties": {}},
                enforced=bool(function.get("strict")),
            )
        )
    return Translation((tuple(invocables), _normalize_choice(native, losses)), losses)


def _normalize_choice(native: Mapping[str, Any], losses: list[Loss]) -> str:
    choice = native.get("tool_choice") or "auto"
    if isinstance(choice, str):
        return choice
    if choice.get("type") == "function":
        return str(choice["function"]["name"])
    reason = f"a choice of type {choice.get('type')!r} has no common meaning"
    losses.append(Loss(kind=LossKind.COERCED, path="tool_choice", reason=f"{reason}; now auto"))
    return "auto"


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Returns the ``response_format`` which holds an answer to a schema."""
    if schema is None:
        return {}
    return {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema, "strict": True},
        }
    }


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Returns the schema in a client's request, ``None`` where any text will do."""
    wanted = native.get("response_format") or {}
    kind = wanted.get("type", "text")
    if kind == "text":
        return Translation(None)
    if kind == "json_schema":
        return Translation(wanted["json_schema"]["schema"])
    if kind == "json_object":
        return Translation({"type": "object"})
    reason = f"a format of type {kind!r} has no common meaning"
    return Translation(None, (Loss(kind=LossKind.DROPPED, path="response_format", reason=reason),))
