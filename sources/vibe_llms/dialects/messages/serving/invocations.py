"""Tools, tool choice and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.cache_hints import take_cache_control
from vibe_llms.dialects.extras import AS_IT_IS, collect_extras
from vibe_llms.dialects.invocations import TakenNames
from vibe_llms.dialects.messages.calling.schemas import can_be_enforced
from vibe_llms.dialects.messages.quirks import PROTOCOL
from vibe_llms.dialects.messages.tables import CHOICE_WORDS
from vibe_llms.dialects.serving import describe_function, describe_own_tool, read_once
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Translation

_CHOICES_BY_NATIVE = {native: choice for choice, native in CHOICE_WORDS.items()}


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Return the descriptions and the choice in a client's request."""
    other_fields = dict(native)
    invocables = take_invocables(other_fields)
    return Translation((invocables, take_choice(other_fields, invocables)))


def take_invocables(request_fields: dict[str, Any]) -> tuple[InvocableDescription, ...]:
    """Remove the tools from a request and return them."""
    invocables: list[InvocableDescription] = []
    used_names = TakenNames(CHOICES)
    for tool in request_fields.pop("tools", None) or ():
        invocables.append(_read_tool(tool, used_names, request_fields))
        used_names.add(invocables[-1].name)
    _take_servers(request_fields, invocables)
    return tuple(invocables)


def _take_servers(
    request_fields: dict[str, Any], invocables: Sequence[InvocableDescription]
) -> None:
    """Remove the MCP servers of tools from a request: they are kept with their tools."""
    servers = request_fields.get("mcp_servers")
    if not isinstance(servers, list):
        return
    labels = {each.server_tool.label for each in invocables if each.server_tool is not None}
    others = [
        each
        for each in servers
        if not isinstance(each, Mapping) or each.get("name") not in labels - {None}
    ]
    if others:
        request_fields["mcp_servers"] = others
    else:
        del request_fields["mcp_servers"]


def _read_tool(
    tool: Mapping[str, Any], used_names: TakenNames, request_fields: Mapping[str, Any]
) -> InvocableDescription:
    schema = tool.get("input_schema")
    is_ours = tool.get("type") in (None, "custom") and isinstance(schema, Mapping)
    if not is_ours or tool["name"] in used_names:  # the vendor will report duplicate names
        name = _name_own_tool(tool)
        return describe_own_tool(PROTOCOL, tool, name, used_names, request_fields)
    return _read_function(tool)


@read_once
def _read_function(tool: Mapping[str, Any]) -> InvocableDescription:
    schema = tool["input_schema"]
    tool, hint = take_cache_control(tool)
    extras = collect_extras(tool, ("name", "description", "input_schema", "strict"))
    is_strict = tool.get("strict") is True
    if is_strict and not can_be_enforced(schema):
        extras[AS_IT_IS] = True
    return describe_function(PROTOCOL, tool, schema, extras, enforced=is_strict, cache=hint)


def _name_own_tool(tool: Mapping[str, Any]) -> str:
    """Return a name for a vendor's tool; for a set of tools, a name is composed."""
    kind = str(tool.get("type") or "tool")
    server = tool.get("mcp_server_name")
    default_name = f"{kind}:{server}" if server else kind
    return str(tool.get("name") or default_name)


def take_choice(request_fields: dict[str, Any], invocables: Sequence[InvocableDescription]) -> str:
    """Remove the tool choice from a request and return it; an unknown choice is not removed."""
    choice = request_fields.get("tool_choice")
    if not isinstance(choice, Mapping):
        return "auto"
    kind, names = choice.get("type"), {invocable.name for invocable in invocables}
    our_choice = _CHOICES_BY_NATIVE.get(str(kind))
    if kind == "tool" and choice.get("name") in names:
        our_choice = str(choice["name"])
    if our_choice is None:
        return "auto"
    if not names:  # without our tools it has no meaning; it stays for the vendor
        return our_choice if our_choice == "none" else "auto"
    extras = collect_extras(choice, ("type", "name"))
    if extras:
        request_fields["tool_choice"] = extras
    else:
        del request_fields["tool_choice"]
    return our_choice


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Return the schema in a client's request; ``None`` if any text is allowed."""
    return Translation(take_schema(dict(native)))


def take_schema(request_fields: dict[str, Any]) -> JsonObject | None:
    """Remove the schema from a request, or from its older field, and return it."""
    match request_fields:
        case {
            "output_config": {
                "format": {"type": "json_schema", "schema": dict(schema)} as output_format
            }
        }:
            extras = collect_extras(output_format, ("type", "schema"))
            config = collect_extras(request_fields.pop("output_config"), ("format",))
            if extras:
                config["format"] = extras
            if config:
                request_fields["output_config"] = config
        case {"output_format": {"type": "json_schema", "schema": dict(schema)} as output_format}:
            if extras := collect_extras(output_format, ("type", "schema")):
                request_fields["output_config"] = {
                    **(request_fields.get("output_config") or {}),
                    "format": extras,
                }
            del request_fields["output_format"]
        case _:
            return None
    if not can_be_enforced(schema):
        request_fields[AS_IT_IS] = True
    return schema
