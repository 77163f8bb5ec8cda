"""Descriptions of invocables as tools, the tool choice, and schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.free_text import split_format
from vibe_llms.dialects.invocations import (
    InvocablesWriter,
    Offer,
    describe,
    is_closed,
    is_sent_strict,
    write_parameters,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.namespaces import (
    LOADED_NOTE,
    SEARCH_NOTE,
    group_by_namespace,
    read_qualified_name,
    write_qualified_name,
)
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription


def _write_tool(
    invocable: InvocableDescription, path: str, quirks: Quirks, ledger: Ledger
) -> dict[str, Any]:
    named: dict[str, Any] = {"name": invocable.name, **describe(invocable)}
    if invocable.schema is None:
        ledger.omit(invocable, path, "enforced", reason="free text has no schema to enforce")
        text_format, native = split_format(invocable.native, path)
        if text_format is not None:
            named["format"] = text_format
        extras = ledger.read_sendable(native, path)
        return write_qualified_name(merge({"type": "custom", **named}, extras), extras)
    extras = ledger.read_sendable(invocable.native, path)
    if SEARCH_NOTE in extras:  # the search for tools, which has a separate type
        search = {**extras[SEARCH_NOTE], **describe(invocable), "parameters": invocable.schema}
        return search | ({LOADED_NOTE: True} if LOADED_NOTE in extras else {})
    is_strict = is_sent_strict(invocable, extras, path, ledger)
    if is_strict:
        extras.pop("strict", None)
    schema = {"parameters": write_parameters(invocable, extras), "strict": is_strict}
    return write_qualified_name(merge({"type": "function", **named, **schema}, extras), extras)


def _compose(offer: Offer) -> dict[str, Any]:
    tools, choice = offer.tools, offer.choice
    grouped = group_by_namespace(tools.values())
    native: dict[str, Any] = {"tools": grouped} if grouped else {}
    if choice in tools:
        native["tool_choice"] = write_tool_choice(tools[choice])
    elif choice != "auto":  # which is the default
        native["tool_choice"] = choice
    return native


def write_tool_choice(tool: Mapping[str, Any]) -> JsonObject:
    """Return the value of ``tool_choice`` that requires a call of one tool."""
    kind = str(tool.get("type"))
    if kind in ("function", "custom"):
        qualified_name = read_qualified_name(tool)
        choice = {"type": kind, "name": tool["name"]}
        namespace = tool.get("namespace") if qualified_name is None else qualified_name.namespace
        return {**choice, "namespace": namespace} if namespace else choice
    if kind == "mcp":
        return {"type": kind, "server_label": tool.get("server_label")}
    return {"type": kind}


nativize_invocables = InvocablesWriter(PROTOCOL, _write_tool, _compose, service="openai").nativize


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Return the ``text`` that constrains an answer to a schema.

    The vendor enforces only schemas in which every object is closed and requires all its
    properties; it does not guarantee any other schema.
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
