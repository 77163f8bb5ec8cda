"""Descriptions of invocables as tools, the tool choice, and schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.free_text import part_format
from vibe_llms.dialects.invocations import (
    InvocablesWriter,
    Offer,
    describe,
    holds_strictly,
    is_closed,
    write_parameters,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.namespaces import LOADED, SOUGHT, gather, read_home, write_home
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription


def _write_tool(
    invocable: InvocableDescription, path: str, quirks: Quirks, ledger: Ledger
) -> dict[str, Any]:
    named: dict[str, Any] = {"name": invocable.name, **describe(invocable)}
    if invocable.schema is None:
        ledger.omit(invocable, path, "enforced", reason="free text has no schema to enforce")
        form, native = part_format(invocable.native, path)
        if form is not None:
            named["format"] = form
        extras = ledger.open(native, path)
        return write_home(merge({"type": "custom", **named}, extras), extras)
    extras = ledger.open(invocable.native, path)
    if SOUGHT in extras:  # the search for tools, which has a type of its own
        search = {**extras[SOUGHT], **describe(invocable), "parameters": invocable.schema}
        return search | ({LOADED: True} if LOADED in extras else {})
    is_strict = holds_strictly(invocable, extras, path, ledger)
    if is_strict:
        extras.pop("strict", None)
    held = {"parameters": write_parameters(invocable, extras), "strict": is_strict}
    return write_home(merge({"type": "function", **named, **held}, extras), extras)


def _compose(offer: Offer) -> dict[str, Any]:
    tools, choice = offer.tools, offer.choice
    gathered = gather(tools.values())
    native: dict[str, Any] = {"tools": gathered} if gathered else {}
    if choice in tools:
        native["tool_choice"] = point_at(tools[choice])
    elif choice != "auto":  # which is the default
        native["tool_choice"] = choice
    return native


def point_at(tool: Mapping[str, Any]) -> JsonObject:
    """Return the choice that names a tool."""
    kind = str(tool.get("type"))
    if kind in ("function", "custom"):
        home = read_home(tool)
        space = tool.get("namespace") if home is None else home.namespace
        return {"type": kind, "name": tool["name"], **({"namespace": space} if space else {})}
    if kind == "mcp":
        return {"type": kind, "server_label": tool.get("server_label")}
    return {"type": kind}


nativize_invocables = InvocablesWriter(PROTOCOL, _write_tool, _compose).nativize


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Return the ``text`` that constrains an answer to a schema.

    The vendor enforces only schemas in which every object is closed and requires all its
    properties; it treats others as a wish.
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
