"""Descriptions of invocables as tools, the tool choice, and schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from vibe_llms.dialects.chat_completions.calling.caching import mark_tool
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.extras import LENIENT, merge, read_native
from vibe_llms.dialects.free_text import split_format, write_chat_format
from vibe_llms.dialects.invocations import (
    InvocablesWriter,
    Offer,
    describe,
    is_closed,
    is_sent_strict,
    is_vendors_own,
    unwrap_own_tool,
    write_parameters,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.server_tools import NO_TOOL


def withhold_schemaless(
    invocables: Sequence[InvocableDescription], losses: list[Loss]
) -> tuple[InvocableDescription, ...]:
    """Return the invocables that have a schema; record losses of all others.

    A vendor's own tool is kept as an ordinary function, which is also recorded as a loss.
    """
    for index, invocable in enumerate(invocables):
        path = f"invocables[{index}]"
        if invocable.schema is None:
            reason = f"{invocable.name} has no schema, and the vendor accepts only tools with one"
            if invocable.server_tool is not None:
                reason = NO_TOOL.format(invocable.server_tool.name)
            losses.append(Loss(kind=LossKind.WITHHELD, path=path, reason=reason))
        elif is_vendors_own(invocable):
            reason = f"{invocable.name} is a vendor's own tool; it is sent as an ordinary function"
            losses.append(Loss(kind=LossKind.COERCED, path=path, reason=reason))
    return tuple(invocable for invocable in invocables if invocable.schema is not None)


def _write_tool(
    invocable: InvocableDescription, path: str, quirks: Quirks | None, ledger: Ledger
) -> dict[str, Any] | None:
    native, quirks = invocable.native, quirks or Quirks()
    is_custom, is_own = invocable.schema is None, is_vendors_own(invocable)
    if not quirks.takes_tools:
        ledger.withhold(path, f"{invocable.name} is not sent: the vendor does not support tools")
        return None
    if is_custom and not quirks.takes_custom:
        reason = f"{invocable.name} takes free text, which the vendor's tools do not support"
        ledger.withhold(path, reason)
        return None
    if native is not None and is_own:
        if ledger.admits(native):
            return unwrap_own_tool(read_native(native, path))
        ledger.coerce(path, f"{invocable.name} is a vendor's own tool; it is sent as a function")
    named: dict[str, Any] = {"name": invocable.name, **describe(invocable)}
    if is_custom:
        ledger.omit(invocable, path, "enforced", reason="free text has no schema to enforce")
        text_format, native = split_format(native, path)
        if text_format is not None:
            named["format"] = write_chat_format(text_format)
        return merge({"type": "custom", "custom": named}, ledger.read_sendable(native, path))
    extras = {} if is_own else ledger.read_sendable(native, path)
    function: dict[str, Any] = {**named, "parameters": write_parameters(invocable, extras)}
    if quirks.takes_strict:
        if is_sent_strict(invocable, extras, path, ledger):
            function["strict"] = True
        elif extras.get(LENIENT):
            function["strict"] = False
    elif invocable.enforced:
        ledger.drop(f"{path}.enforced", "the vendor does not enforce schemas of arguments")
    if _FUNCTIONS in extras:
        return {_FUNCTIONS: merge(function, extras[_FUNCTIONS])}
    return merge({"type": "function", "function": function}, extras)


_FUNCTIONS: Final = "functions"
"""Key of tools in the deprecated format: in requests, in native data, around each written tool."""


def _compose(offer: Offer) -> dict[str, Any]:
    tools, choice, native = offer.tools, offer.choice, dict[str, Any]()
    for tool in tools.values():
        # A tool in the deprecated format is wrapped: {"functions": {...}}.
        field = _FUNCTIONS if tool.keys() == {_FUNCTIONS} else "tools"
        native.setdefault(field, []).append(tool.get(_FUNCTIONS, tool))
    if choice == "auto" or not native:  # the default
        return native
    # If all tools are in the deprecated format, the choice has another field, too.
    if "tools" not in native:
        native["function_call"] = choice if choice in CHOICES else {"name": choice}
    elif choice in tools:
        kind = "custom" if tools[choice].get("type") == "custom" else "function"
        native["tool_choice"] = {"type": kind, kind: {"name": choice}}
    else:
        is_required, quirks = choice == "required", offer.quirks or Quirks()
        native["tool_choice"] = quirks.required_word if is_required else choice
    return native


nativize_invocables = InvocablesWriter(
    PROTOCOL, _write_tool, _compose, mark_tool=mark_tool
).nativize


def nativize_schema(
    schema: JsonObject | None, quirks: Quirks | None = None
) -> Translation[JsonObject]:
    """Return the parameters that constrain an answer to a schema.

    Strict enforcement requires closed schemas whose properties are all required.
    """
    quirks = quirks or Quirks()
    if schema is None:
        return Translation({})
    # Any object is allowed: there is a format that requires no schema.
    if schema in ({"type": "object"}, {}):
        return Translation({"response_format": {"type": "json_object"}})
    if quirks.schema_form == "structured_outputs":
        return Translation({"structured_outputs": {"json": schema}})
    if quirks.schema_form == "json_object":
        reason = "the vendor enforces JSON, but no schema; the schema is described in the prompt"
        loss = Loss(kind=LossKind.COERCED, path="schema", reason=reason)
        return Translation({"response_format": {"type": "json_object"}}, (loss,))
    inner: dict[str, JsonValue] = {"name": "answer", "schema": schema}
    if quirks.takes_strict:
        inner["strict"] = is_closed(schema)
    return Translation({"response_format": {"type": "json_schema", "json_schema": inner}})
