"""Descriptions of invocables as tools, the tool choice, and schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.invocations import is_vendors_own, write_parameters
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.server_tools import NO_TOOL

ANY_OBJECT: Final[JsonObject] = {"type": "object"}
"""The schema for ``"format": "json"``."""


def nativize_invocables(
    invocables: Sequence[InvocableDescription],
    choice: str,
    quirks: Quirks | None = None,
    *,
    provider: str = "",
    model: str = "",
) -> Translation[JsonObject]:
    """Return ``tools``; empty without invocables.

    This protocol has no tool choice: tools that must not be called are left out.
    """
    del quirks, model  # no vendor of this dialect has quirks or server tools
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    path = "invocation_choice"
    offered = list(enumerate(invocables))
    if choice == "none":
        if invocables:
            ledger.coerce(path, "no invocables are sent, as none may be called")
        offered = []
    elif choice == "required":
        ledger.drop(path, "this protocol cannot require an invocation")
    elif choice != "auto":
        ledger.coerce(path, f"only {choice} is sent; this protocol cannot require it")
        offered = [(index, item) for index, item in offered if item.name == choice]
    tools = [_nativize_tool(item, f"invocables[{index}]", ledger) for index, item in offered]
    sent = [tool for tool in tools if tool is not None]
    return Translation({"tools": sent} if sent else {}, ledger.losses)


def _nativize_tool(item: InvocableDescription, path: str, ledger: Ledger) -> JsonObject | None:
    is_own = item.schema is None and is_vendors_own(item)
    if item.cache is not None:
        ledger.omit_hint(f"{path}.cache")
    if item.server_tool is not None and not ledger.admits(item.native):
        from vibe_llms.dialects.server_tools import find_function

        reason, stand_in = NO_TOOL.format(item.server_tool.name), find_function(item)
        if stand_in is None:
            ledger.withhold(path, reason)
            return None
        ledger.coerce(path, f"{reason}; a function is sent")
        item, is_own = stand_in, False
    if is_own and item.native is not None and not ledger.admits(item.native):
        ledger.withhold(path, f"{item.name} is another vendor's own tool")
        return None
    if is_own:  # its native data are the whole tool
        return ledger.read_sendable(item.native, path)
    if item.schema is None:
        ledger.withhold(path, f"{item.name} takes free text, but Ollama's tools need a schema")
        return None
    extras = ledger.read_sendable(item.native, path)
    if item.enforced:
        ledger.drop(f"{path}.enforced", "this protocol cannot enforce a tool's schema")
    function = {
        "name": item.name,
        "description": item.description,
        "parameters": write_parameters(item, extras),
    }
    tool: dict[str, Any] = {"type": "function", "function": function}
    return merge(tool, extras)


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Return the ``format`` that constrains an answer to a schema."""
    return {} if schema is None else {"format": "json" if schema == ANY_OBJECT else schema}
