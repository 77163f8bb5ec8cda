"""Tools, the choice among them, and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from vibe_llms.dialects.extras import keep_native, leave, make_native
from vibe_llms.dialects.invocations import NO_ARGUMENTS, find_free_name, keep_tool
from vibe_llms.dialects.responses.calling.invocations import point_at
from vibe_llms.dialects.responses.quirks import PROTOCOL
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
        return InvocableDescription(
            name=find_free_name(name, taken),
            description=str(tool.get("description") or ""),
            schema=None,
            native=make_native(PROTOCOL, keep_tool(tool)),
        )
    description = str(tool.get("description") or "")
    if not description.strip():
        description = ""  # a client may leave it out; only beside a native may we
    rest = leave(tool, "type", "name", "description")
    schema = rest.pop("parameters", None) if kind == "function" else None
    if kind == "function":
        enforced = rest.pop("strict", None)
        if enforced is None:  # then the vendor tries to enforce the schema, as far as it can
            rest["strict"] = None
    keep = keep_native if description and kind == "function" else make_native
    return InvocableDescription(
        name=tool["name"],
        description=description,
        schema=None
        if kind == "custom"
        else dict(schema if isinstance(schema, Mapping) else NO_ARGUMENTS),
        enforced=tool.get("strict") is True,
        native=keep(PROTOCOL, rest),
    )


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
