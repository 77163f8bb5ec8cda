"""What tells a vendor's own tool from one that anybody may offer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.residues import read_native, without
from vibe_llms.messages.descriptions import InvocableDescription

_TAKING_TEXT: Final = frozenset({"chat_completions", "responses"})
"""The protocols with custom tools, which take free text. In any other what has no schema is its
vendor's own, which nobody else knows, and nobody here executes."""


def is_vendors_own(invocable: InvocableDescription) -> bool:
    """Tells whether the native of an invocable is a tool by itself, rather than the rest of one.

    Raises:
        RequestError: The native holds no JSON object.
    """
    native = invocable.native
    if native is None:
        return False
    fields = read_native(native, "the description of an invocable")
    if native.protocol not in _TAKING_TEXT:
        return invocable.schema is None or fields.get("type") not in (None, "custom")
    return "type" in fields


def keep_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is kept of a vendor's own tool: its type, be it none, says that it is whole."""
    return {"type": None, **tool}


def open_tool(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the tool of which :func:`keep_tool` has made what is kept."""
    return dict(kept) if kept.get("type") is not None else without(kept, "type")
