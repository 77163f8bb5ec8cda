"""Descriptions of invocables as tools, the choice among them, and schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.invocations import is_closed, is_vendors_own, open_tool
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.plain import JsonObject


def nativize_invocables(
    invocables: Sequence[InvocableDescription],
    choice: str,
    quirks: Quirks | None = None,
    *,
    provider: str = "",
) -> Translation[JsonObject]:
    """Returns ``tools`` and ``tool_choice``; nothing where there are no invocables."""
    del quirks  # no vendor of this dialect has any of these
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    tools: dict[str, Mapping[str, Any]] = {}
    for index, invocable in enumerate(invocables):
        tool = _nativize_tool(invocable, f"invocables[{index}]", ledger)
        if tool is not None:
            tools[invocable.name] = tool
    native: dict[str, Any] = {"tools": list(tools.values())} if tools else {}
    if choice in tools:
        native["tool_choice"] = point_at(tools[choice])
    elif choice not in CHOICES or (choice == "required" and not tools):
        ledger.coerce("invocation_choice", f"{choice} is not offered to this vendor; now auto")
    elif choice != "auto":  # which is what silence means
        native["tool_choice"] = choice
    return Translation(native, ledger.losses)


def _nativize_tool(
    invocable: InvocableDescription, path: str, ledger: Ledger
) -> dict[str, Any] | None:
    native = invocable.native
    described = {"description": invocable.description} if invocable.description else {}
    if native is not None and invocable.schema is None and is_vendors_own(invocable):
        if not ledger.admits(native):
            ledger.withhold(path, f"{invocable.name} is another vendor's own tool")
            return None
        return open_tool(ledger.open(native, path))
    extras = ledger.open(native, path)
    if invocable.schema is None:
        ledger.omit(invocable, path, "enforced", reason="free text has no schema to keep to")
        return merge({"type": "custom", "name": invocable.name, **described}, extras)
    tool: dict[str, Any] = {
        "type": "function",
        "name": invocable.name,
        **described,
        "parameters": invocable.schema,
        "strict": invocable.enforced,
    }
    if invocable.enforced:
        extras.pop("strict", None)
    return merge(tool, extras)


def point_at(tool: Mapping[str, Any]) -> JsonObject:
    """Returns the choice that names a tool."""
    kind = str(tool.get("type"))
    if kind in ("function", "custom"):
        return {"type": kind, "name": tool["name"]}
    if kind == "mcp":
        return {"type": kind, "server_label": tool.get("server_label")}
    return {"type": kind}


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
