"""Descriptions of invocables as tools, the choice among them, and schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.extras import merge, read_native
from vibe_llms.dialects.invocations import is_closed, is_vendors_own, open_tool
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.plain import JsonObject, JsonValue


def nativize_invocables(
    invocables: Sequence[InvocableDescription],
    choice: str,
    quirks: Quirks | None = None,
    *,
    provider: str = "",
) -> Translation[JsonObject]:
    """Returns ``tools`` and ``tool_choice``; nothing where there are no invocables."""
    quirks = quirks or Quirks()
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    if not quirks.takes_tools:
        for index, invocable in enumerate(invocables):
            reason = f"{invocable.name} cannot be invoked: the vendor has no tools"
            ledger.withhold(f"invocables[{index}]", reason)
        if choice not in ("auto", "none"):
            ledger.drop("invocation_choice", "the vendor has no tools")
        return Translation({}, ledger.losses)
    native: dict[str, Any] = {}
    custom, offered = set(), set()
    for index, invocable in enumerate(invocables):
        group, tool = _nativize_tool(invocable, f"invocables[{index}]", quirks, ledger)
        if tool is not None:
            native.setdefault(group, []).append(tool)
            offered.add(invocable.name)
        if tool is not None and tool.get("type") == "custom":
            custom.add(invocable.name)
    if choice not in (*CHOICES, *offered) or (choice == "required" and not offered):
        ledger.drop("invocation_choice", f"{choice}: it is not offered to this vendor")
        choice = "auto"
    if choice == "auto" or not native:  # what silence means
        return Translation(native, ledger.losses)
    if "tools" not in native:
        native["function_call"] = choice if choice in CHOICES else {"name": choice}
    elif choice in CHOICES:
        native["tool_choice"] = quirks.required_word if choice == "required" else choice
    else:
        kind = "custom" if choice in custom else "function"
        native["tool_choice"] = {"type": kind, kind: {"name": choice}}
    return Translation(native, ledger.losses)


def withhold_schemaless(
    invocables: Sequence[InvocableDescription], losses: list[Loss]
) -> tuple[InvocableDescription, ...]:
    """Returns those with a schema; tools of free text, and vendors' own, become losses."""
    for index, invocable in enumerate(invocables):
        path = f"invocables[{index}]"
        if invocable.schema is None:
            reason = f"{invocable.name} takes no arguments by a schema, and only such are offered"
            losses.append(Loss(kind=LossKind.WITHHELD, path=path, reason=reason))
        elif is_vendors_own(invocable):
            reason = f"{invocable.name} is a vendor's own tool and goes as an ordinary function"
            losses.append(Loss(kind=LossKind.COERCED, path=path, reason=reason))
    return tuple(invocable for invocable in invocables if invocable.schema is not None)


def _nativize_tool(
    invocable: InvocableDescription, path: str, quirks: Quirks, ledger: Ledger
) -> tuple[str, dict[str, Any] | None]:
    """Returns the field in which a tool goes, and the tool; None where it is a loss."""
    native = invocable.native
    if native is not None and is_vendors_own(invocable):
        if ledger.admits(native):
            return "tools", open_tool(read_native(native, path))
        if invocable.schema is None:
            ledger.withhold(path, f"{invocable.name} is known to its own vendor alone")
            return "tools", None
        ledger.coerce(path, f"{invocable.name} is a vendor's own tool and goes as a function")
        kept = {}
    else:
        kept = ledger.open(native, path)
    if invocable.schema is None:
        if not quirks.takes_custom:
            reason = f"{invocable.name} takes free text, and the vendor has no such tools"
            ledger.withhold(path, reason)
            return "tools", None
        ledger.omit(invocable, path, "enforced", reason="free text has no schema to keep to")
        custom = {"name": invocable.name} | _describe(invocable)
        return "tools", merge({"type": "custom", "custom": custom}, kept)
    function = {"name": invocable.name, **_describe(invocable), "parameters": invocable.schema}
    if invocable.enforced and quirks.takes_strict:
        function["strict"] = True
    elif invocable.enforced:
        ledger.drop(f"{path}.enforced", "the vendor holds no arguments to their schema")
    if "functions" in kept:
        return "functions", merge(function, kept["functions"])
    return "tools", merge({"type": "function", "function": function}, kept)


def _describe(invocable: InvocableDescription) -> dict[str, Any]:
    return {"description": invocable.description} if invocable.description else {}


def nativize_schema(
    schema: JsonObject | None, quirks: Quirks | None = None
) -> Translation[JsonObject]:
    """Returns what holds an answer to a schema.

    Strictly it can be held to closed ones alone, whose properties are all required.
    """
    quirks = quirks or Quirks()
    if schema is None:
        return Translation({})
    if schema == {"type": "object"}:
        return Translation({"response_format": {"type": "json_object"}})
    if quirks.schema_form == "structured_outputs":
        return Translation({"structured_outputs": {"json": schema}})
    if quirks.schema_form == "json_object":
        reason = "the vendor holds an answer to JSON only; the schema is told in words"
        loss = Loss(kind=LossKind.COERCED, path="schema", reason=reason)
        return Translation({"response_format": {"type": "json_object"}}, (loss,))
    inner: dict[str, JsonValue] = {"name": "answer", "schema": schema}
    if quirks.takes_strict:
        inner["strict"] = is_closed(schema)
    return Translation({"response_format": {"type": "json_schema", "json_schema": inner}})
