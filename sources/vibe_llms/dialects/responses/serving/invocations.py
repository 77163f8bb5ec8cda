"""Tools, the choice among them, and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from vibe_llms.dialects.extras import AS_IT_IS, leave, make_native
from vibe_llms.dialects.invocations import is_closed
from vibe_llms.dialects.responses.calling.invocations import point_at
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.serving import describe_function, describe_own_tool
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.plain import JsonObject


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Returns the descriptions and the choice in a client's request."""
    invocables: dict[str, InvocableDescription] = {}
    for tool in native.get("tools") or ():
        invocable = _normalize_tool(tool, {*invocables, *CHOICES})
        invocables[invocable.name] = invocable
    described = tuple(invocables.values())
    return Translation((described, _normalize_choice(native, described)))


def _normalize_tool(tool: Mapping[str, Any], taken: Container[str]) -> InvocableDescription:
    kind = tool.get("type")
    is_ours = kind in ("function", "custom") and isinstance(tool.get("name"), str)
    if not is_ours or tool["name"] in taken:  # what is wrong with a name, the vendor says
        name = str(tool.get("name") or tool.get("server_label") or kind or "tool")
        return describe_own_tool(PROTOCOL, tool, name, taken)
    rest = leave(tool, ("type", "name", "description"))
    if kind == "custom":
        description = str(tool.get("description") or "")
        native = make_native(PROTOCOL, rest)
        return InvocableDescription(
            name=tool["name"], description=description, schema=None, native=native
        )
    schema, enforced = rest.pop("parameters", None), rest.pop("strict", None)
    if enforced is True and not is_closed(schema):
        rest[AS_IT_IS] = True
    if enforced is None:  # then the vendor tries to enforce the schema, as far as it can
        rest["strict"] = None
    schema = schema if isinstance(schema, Mapping) else None
    return describe_function(PROTOCOL, tool, schema, rest, enforced=enforced is True)


def _normalize_choice(native: Mapping[str, Any], invocables: Sequence[InvocableDescription]) -> str:
    """Returns the choice, as far as ours can say it; the request keeps the rest."""
    choice = native.get("tool_choice")
    names = [invocable.name for invocable in invocables]
    match choice:
        case "none":
            return "none"
        case "required":
            return "required" if names else "auto"
        case {"type": "allowed_tools", "mode": "required"}:
            return "required" if names else "auto"
        case {"type": "function" | "custom", "name": str(name)} if name in names:
            return name
        case {"type": str(kind), **rest}:
            wanted = {"type": kind, **rest}
            for invocable, tool in zip(invocables, native.get("tools") or (), strict=True):
                if tool.get("type") == kind and all(
                    wanted.get(k) == v for k, v in point_at(tool).items()
                ):
                    return invocable.name
    return "auto"


def find_allowed(native: Mapping[str, Any]) -> frozenset[str] | None:
    """Returns the names of the tools that may be called, where the choice is among some alone."""
    choice = native.get("tool_choice")
    match choice:
        case {"type": "allowed_tools", "tools": [*tools]}:
            return frozenset(str(tool.get("name")) for tool in tools if isinstance(tool, Mapping))
    return None


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Returns the schema in a client's request, ``None`` where any text will do."""
    text = native.get("text")
    wanted = text.get("format") if isinstance(text, Mapping) else None
    match wanted:
        case {"type": "json_schema", "schema": Mapping() as schema}:
            return Translation(dict(schema))
        case {"type": "json_object"}:
            return Translation({"type": "object"})
        case None | {"type": "text"}:
            return Translation(None)
    reason = "a format of this type has no common meaning; the request keeps it"
    return Translation(None, (Loss(kind=LossKind.COERCED, path="text.format", reason=reason),))
