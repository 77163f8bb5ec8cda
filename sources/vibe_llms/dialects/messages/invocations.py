"""Descriptions of invocables as tools, the choice among them, and schemas; both directions."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.naming import find_free_name
from vibe_llms.dialects.residues import keep_native, leave, merge, read_native, seal_native
from vibe_llms.dialects.tools import is_vendors_own
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.plain import JsonObject

_CHOICES = {"auto": "auto", "none": "none", "required": "any"}
_CHOICES_BACK = {native: choice for choice, native in _CHOICES.items()}


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
        return {"tools": tools, "tool_choice": {"type": _CHOICES[choice]}}
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
    residue = ledger.open(invocable.native, path)
    if invocable.enforced:
        tool["strict"] = True
    return merge(tool, residue)


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Returns the descriptions and the choice in a client's request."""
    rest = dict(native)
    invocables = take_invocables(rest)
    return Translation((invocables, take_choice(rest, invocables)))


def take_invocables(rest: dict[str, Any]) -> tuple[InvocableDescription, ...]:
    """Takes the tools out of a request."""
    invocables: dict[str, InvocableDescription] = {}
    for tool in rest.pop("tools", None) or ():
        invocable = _read_tool(tool, {*invocables, *CHOICES})
        invocables[invocable.name] = invocable
    return tuple(invocables.values())


def _read_tool(tool: Mapping[str, Any], taken: Container[str]) -> InvocableDescription:
    schema = tool.get("input_schema")
    is_ours = tool.get("type") in (None, "custom") and isinstance(schema, Mapping)
    if not is_ours or tool["name"] in taken:  # what is wrong with a name, the vendor says
        return InvocableDescription(
            name=find_free_name(_name_own_tool(tool), taken),
            description=str(tool.get("description") or ""),
            schema=None,
            native=seal_native(PROTOCOL, tool),
        )
    residue = leave(tool, "name", "description", "input_schema", "strict")
    description = tool.get("description") or ""
    native = keep_native(PROTOCOL, residue)
    if not description.strip():  # a client may leave it out; only beside a native may we
        native = seal_native(PROTOCOL, residue | leave(tool, *(tool.keys() - {"description"})))
        description = ""
    return InvocableDescription(
        name=tool["name"],
        description=description,
        schema=schema,
        enforced=tool.get("strict") is True,
        native=native,
    )


def _name_own_tool(tool: Mapping[str, Any]) -> str:
    """Returns a name for a tool of the vendor's: whole sets of tools have none."""
    kind = str(tool.get("type") or "tool")
    server = tool.get("mcp_server_name")
    return str(tool.get("name") or (f"{kind}:{server}" if server else kind))


def take_choice(rest: dict[str, Any], invocables: Sequence[InvocableDescription]) -> str:
    """Takes the choice out of a request; one without a common word stays in it."""
    choice = rest.get("tool_choice")
    if not isinstance(choice, Mapping):
        return "auto"
    kind, names = choice.get("type"), {invocable.name for invocable in invocables}
    word = _CHOICES_BACK.get(str(kind))
    if kind == "tool" and choice.get("name") in names:
        word = str(choice["name"])
    if word is None:
        return "auto"
    if not names:  # it says nothing here; the vendor may be told as it was
        return word if word == "none" else "auto"
    left = leave(choice, "type", "name")
    if left:
        rest["tool_choice"] = left
    else:
        del rest["tool_choice"]
    return word


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Returns the ``output_config`` which holds an answer to a schema."""
    if schema is None:
        return {}
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Returns the schema in a client's request, ``None`` where any text will do."""
    return Translation(take_schema(dict(native)))


def take_schema(rest: dict[str, Any]) -> JsonObject | None:
    """Takes the schema out of a request, also from the older place for it."""
    match rest:
        case {"output_config": {"format": {"type": "json_schema", "schema": dict(schema)} as form}}:
            left = leave(form, "type", "schema")
            config = leave(rest["output_config"], "format") | ({"format": left} if left else {})
            del rest["output_config"]
            rest |= {"output_config": config} if config else {}
            return schema
        case {"output_format": {"type": "json_schema", "schema": dict(schema)}}:
            del rest["output_format"]
            return schema
    return None
