"""Descriptions of invocables as tools, the choice among them, and schemas; both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.ledger import Ledger, keep_native, seal_native
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.responses.residue import collect_rest, find_absent, forget, merge
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.plain import JsonObject

NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}


def nativize_invocables(
    invocables: Sequence[InvocableDescription], choice: str
) -> Translation[JsonObject]:
    """Returns ``tools`` and ``tool_choice``; nothing where there are no invocables."""
    ledger = Ledger(protocol=PROTOCOL)
    tools: dict[str, Mapping[str, Any]] = {}
    for index, invocable in enumerate(invocables):
        tool = _nativize_tool(invocable, f"invocables[{index}]", ledger)
        if tool is not None:
            tools[invocable.name] = tool
    native: dict[str, Any] = {"tools": list(tools.values())} if tools else {}
    if choice in tools:
        native["tool_choice"] = _point_at(tools[choice])
    elif choice not in CHOICES or (choice == "required" and not tools):
        ledger.coerce("invocation_choice", f"{choice} is not offered to this vendor; now auto")
    elif choice != "auto":  # which is what silence means
        native["tool_choice"] = choice
    return Translation(native, ledger.losses)


def _nativize_tool(
    invocable: InvocableDescription, path: str, ledger: Ledger
) -> dict[str, Any] | None:
    residue = ledger.open(invocable.native, path)
    if invocable.schema is None:
        if "type" in residue:
            return merge({}, residue)
        if invocable.native is not None and not ledger.admits(invocable.native):
            ledger.withhold(path, f"{invocable.name} is another vendor's own tool")
            return None
        ledger.omit(invocable, path, "enforced", reason="free text has no schema to keep to")
        custom = {"type": "custom", "name": invocable.name, "description": invocable.description}
        return merge(custom, residue)
    tool: dict[str, Any] = {
        "type": "function",
        "name": invocable.name,
        "description": invocable.description,
        "parameters": invocable.schema,
        "strict": invocable.enforced,
    }
    if invocable.enforced:
        residue = forget(residue, "strict")
    if invocable.schema != NO_ARGUMENTS:
        residue = forget(residue, "parameters")
    return merge(tool, residue)


def _point_at(tool: Mapping[str, Any]) -> JsonObject:
    """Returns the choice that names a tool."""
    kind = str(tool["type"])
    if kind in ("function", "custom"):
        return {"type": kind, "name": tool["name"]}
    if kind == "mcp":
        return {"type": kind, "server_label": tool.get("server_label")}
    return {"type": kind}


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Returns the descriptions and the choice in a client's request."""
    losses: list[Loss] = []
    invocables: list[InvocableDescription] = []
    names: set[str] = set()
    for index, tool in enumerate(native.get("tools") or ()):
        invocable = _normalize_tool(tool, f"tools[{index}]", names, losses)
        names.add(invocable.name)
        invocables.append(invocable)
    return Translation((tuple(invocables), _normalize_choice(native, invocables)), losses)


def _normalize_tool(
    tool: Mapping[str, Any], path: str, names: set[str], losses: list[Loss]
) -> InvocableDescription:
    kind = tool["type"]
    if kind not in ("function", "custom") or not isinstance(tool.get("name"), str):
        return InvocableDescription(
            name=_name_tool(tool, names),
            description=str(tool.get("description") or ""),
            schema=None,
            native=seal_native(PROTOCOL, tool),
        )
    description = tool.get("description") or ""
    known = ["type", "name"]
    absent = find_absent(tool, "description")
    if description.strip():
        known.append("description")
    else:
        # Ours is mandatory, and a client may give none.
        description = tool["name"]
        reason = "it has no description; its name stands in"
        losses.append(Loss(kind=LossKind.SYNTHESIZED, path=path, reason=reason))
    if kind == "custom":
        rest = collect_rest(tool, known, absent=absent)
        native = seal_native(PROTOCOL, rest)
        return InvocableDescription(
            name=tool["name"], description=description, schema=None, native=native
        )
    schema = tool.get("parameters")
    if isinstance(schema, Mapping):
        known.append("parameters")
    if isinstance(tool.get("strict"), bool):
        known.append("strict")
    absent += find_absent(tool, "parameters", "strict")
    return InvocableDescription(
        name=tool["name"],
        description=description,
        schema=dict(schema) if isinstance(schema, Mapping) else dict(NO_ARGUMENTS),
        enforced=tool.get("strict") is True,
        native=keep_native(PROTOCOL, collect_rest(tool, known, absent=absent)),
    )


def _name_tool(tool: Mapping[str, Any], names: set[str]) -> str:
    """Returns a name for a vendor's own tool, such as no other has."""
    name = str(tool.get("name") or tool.get("server_label") or tool["type"])
    number, unique = 1, name
    while unique in names or unique in CHOICES:
        number += 1
        unique = f"{name}_{number}"
    return unique


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
                    wanted.get(k) == v for k, v in _point_at(tool).items()
                ):
                    return invocable.name
    return "auto"


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Returns the ``text`` which holds an answer to a schema.

    The vendor enforces only schemas in which every object is closed and needs all its
    properties; it takes others as a wish.
    """
    if schema is None:
        return {}
    strict = is_closed(schema)
    return {
        "text": {
            "format": {
                "type": "json_schema",
                "name": "answer",
                "schema": schema,
                "strict": strict,
            }
        }
    }


def is_closed(schema: Any) -> bool:
    """Tells whether every object of a schema is closed and needs all its properties."""
    if isinstance(schema, list):
        return all(is_closed(each) for each in schema)
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, Mapping):
        names = properties.keys() if isinstance(properties, Mapping) else set()
        required = schema.get("required") or []
        if schema.get("additionalProperties") is not False or set(required) != set(names):
            return False
    inner = [
        value
        for name, value in schema.items()
        if name not in ("properties", "$defs", "definitions", "enum", "const", "default")
    ]
    for name in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(name), Mapping):
            inner += schema[name].values()
    return all(is_closed(each) for each in inner)


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
