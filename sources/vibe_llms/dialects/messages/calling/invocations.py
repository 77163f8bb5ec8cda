"""Descriptions of invocables as tools, the choice among them, and schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vibe_llms.dialects.extras import merge, read_native
from vibe_llms.dialects.invocations import is_vendors_own
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.messages.tables import CHOICE_WORDS
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
    return Translation(_write_all(invocables, choice, ledger), ledger.losses)


def _write_all(
    invocables: Sequence[InvocableDescription], choice: str, ledger: Ledger
) -> dict[str, Any]:
    tools, names = [], set()
    for index, invocable in enumerate(invocables):
        tool = _write_tool(invocable, f"invocables[{index}]", ledger)
        if tool is not None:
            tools.append(tool)
            names.add(invocable.name)
    if not tools:
        if choice not in ("auto", "none"):
            ledger.drop("invocation_choice", "there is nothing left to choose from")
        return {}
    if choice == "auto":  # what silence means
        return {"tools": tools}
    if choice in CHOICES:
        return {"tools": tools, "tool_choice": {"type": CHOICE_WORDS[choice]}}
    if choice not in names:
        ledger.drop("invocation_choice", f"{choice} is not offered to this vendor")
        return {"tools": tools}
    return {"tools": tools, "tool_choice": {"type": "tool", "name": choice}}


def _write_tool(
    invocable: InvocableDescription, path: str, ledger: Ledger
) -> dict[str, Any] | None:
    if invocable.schema is None:
        if invocable.native is None or not is_vendors_own(invocable):
            reason = f"{invocable.name} takes free text, and only schemas can be offered"
            ledger.withhold(path, reason)
        elif ledger.admits(invocable.native):
            return read_native(invocable.native, path)
        else:
            ledger.withhold(path, f"{invocable.name} is another vendor's own tool")
        return None
    tool: dict[str, Any] = {"name": invocable.name, "input_schema": invocable.schema}
    if invocable.description:
        tool["description"] = invocable.description
    extras = ledger.open(invocable.native, path)
    if invocable.enforced:
        tool["strict"] = True
    return merge(tool, extras)


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Returns the ``output_config`` which holds an answer to a schema."""
    if schema is None:
        return {}
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
