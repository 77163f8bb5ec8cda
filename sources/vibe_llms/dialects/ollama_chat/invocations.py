"""Descriptions of invocables as tools, the choice among them, and schemas; both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.ollama_chat.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.residues import keep_native, leave, merge
from vibe_llms.dialects.tools import is_vendors_own
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.plain import JsonObject

ANY_OBJECT: Final[JsonObject] = {"type": "object"}
"""The schema for which ``"format": "json"`` stands."""

_NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}


def nativize_invocables(
    invocables: Sequence[InvocableDescription],
    choice: str,
    quirks: Quirks | None = None,
    *,
    provider: str = "",
) -> Translation[JsonObject]:
    """Returns ``tools``; nothing where there are no invocables.

    This protocol has no word for the choice: what may not be invoked is not told of.
    """
    del quirks  # no vendor of this dialect has any of these
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    place = "invocation_choice"
    offered = list(enumerate(invocables))
    if choice == "none":
        if invocables:
            ledger.coerce(place, "no invocable is told of, as none may be invoked")
        offered = []
    elif choice == "required":
        ledger.drop(place, "this protocol cannot require an invocation")
    elif choice != "auto":
        ledger.coerce(place, f"only {choice} is told of; this protocol cannot require it")
        offered = [(index, item) for index, item in offered if item.name == choice]
    tools = [_nativize_tool(item, f"invocables[{index}]", ledger) for index, item in offered]
    told = [tool for tool in tools if tool is not None]
    return Translation({"tools": told} if told else {}, ledger.losses)


def _nativize_tool(item: InvocableDescription, path: str, ledger: Ledger) -> JsonObject | None:
    is_own = item.schema is None and is_vendors_own(item)
    if is_own and item.native is not None and not ledger.admits(item.native):
        ledger.withhold(path, f"{item.name} is another vendor's own tool")
        return None
    residue = ledger.open(item.native, path)
    if is_own:
        return residue  # a tool that is of this protocol alone is whole in its native
    schema: Any = item.schema
    if schema is None:
        ledger.coerce(path, "a tool of free text takes it as its argument 'input'")
        schema = {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
        }
    if item.enforced:
        ledger.drop(f"{path}.enforced", "this protocol cannot hold a model to a tool's schema")
    function = {"name": item.name, "description": item.description, "parameters": schema}
    tool: dict[str, Any] = {"type": "function", "function": function}
    return merge(tool, residue)


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Returns the descriptions in a client's request; the choice is always ``auto``.

    Raises:
        RequestError: A tool makes no sense.
    """
    invocables: list[InvocableDescription] = []
    losses: list[Loss] = []
    for index, tool in enumerate(native.get("tools") or ()):
        path = f"tools[{index}]"
        try:
            invocables.append(_normalize_tool(tool, path, losses))
        except (AttributeError, KeyError, TypeError) as error:
            raise RequestError(
                path=path,
                detail=f"The tool at {path} makes no sense: {error!r}.",
                remedy="Compare it with the reference of Ollama's /api/chat.",
            ) from error
    return Translation((tuple(invocables), "auto"), losses)


def _normalize_tool(tool: Mapping[str, Any], path: str, losses: list[Loss]) -> InvocableDescription:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        name = str(tool.get("name") or tool["type"])
        native = keep_native(PROTOCOL, tool)
        return InvocableDescription(name=name, description="", schema=None, native=native)
    residue = leave(tool, "function")
    if residue.get("type") == "function":
        del residue["type"]
    name, description = function["name"], function.get("description")
    if not isinstance(description, str) or not description.strip():
        description = name  # ours is mandatory, and a client may give none
        reason = "it has no description; its name stands in"
        losses.append(Loss(kind=LossKind.SYNTHESIZED, path=path, reason=reason))
    schema = function.get("parameters")
    if not isinstance(schema, Mapping):
        schema = _NO_ARGUMENTS
    if inner := leave(function, "name", "description", "parameters"):
        residue["function"] = inner
    return InvocableDescription(
        name=name,
        description=description,
        schema=schema,
        native=keep_native(PROTOCOL, residue),
    )


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Returns the ``format`` which holds an answer to a schema."""
    return {} if schema is None else {"format": "json" if schema == ANY_OBJECT else schema}


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Returns the schema in a client's request, ``None`` where any text will do."""
    wanted = native.get("format")
    if wanted == "json":
        return Translation(ANY_OBJECT)
    return Translation(wanted if isinstance(wanted, Mapping) and wanted else None)
