"""Tools, tool choice and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgspec

from vibe_llms.dialects.bedrock.calling.caching import read_cache_point
from vibe_llms.dialects.bedrock.calling.invocations import (
    CHOICES,
    FUNCTION,
    SCHEMA_NAME,
    is_closed,
)
from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.extras import AS_IT_IS, collect_extras
from vibe_llms.dialects.invocations import TakenNames
from vibe_llms.dialects.request_paths import look_up, take
from vibe_llms.dialects.serving import describe_function, describe_own_tool, read_once
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import CHOICES as OUR_CHOICES
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation

_CHOICES_BY_NATIVE = {native: choice for choice, native in CHOICES.items()}
_SCHEMA_PLACE = ("outputConfig", "textFormat", "structure", "jsonSchema", "schema")
_TYPE_PLACE = ("outputConfig", "textFormat", "type")
_KNOWN = frozenset({"name", "description", "inputSchema", "strict"})


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Return the descriptions and the choice in a client's request."""
    return Translation(take_invocables(dict(native)))


def take_invocables(
    request_fields: dict[str, Any],
) -> tuple[tuple[InvocableDescription, ...], str]:
    """Remove the tools and the choice from a request; return both.

    An unknown choice is not removed.
    """
    config = dict(request_fields.pop("toolConfig", None) or {})
    invocables: list[InvocableDescription] = []
    used_names = TakenNames(OUR_CHOICES)
    for tool in config.pop("tools", None) or ():
        hint = read_cache_point(tool)
        if hint is not None and invocables and invocables[-1].cache is None:
            invocables[-1] = attrs.evolve(invocables[-1], cache=hint)
            continue
        invocables.append(_read_tool(tool, used_names))
        used_names.add(invocables[-1].name)
    choice = _read_choice(config.get("toolChoice"), invocables)
    if choice is not None:
        config.pop("toolChoice", None)
    if config:
        request_fields["toolConfig"] = config
    return tuple(invocables), choice or "auto"


def _read_tool(tool: Mapping[str, Any], used_names: TakenNames) -> InvocableDescription:
    function = tool.get(FUNCTION)
    if not isinstance(function, Mapping) or function["name"] in used_names:
        kind, fields = next(iter(tool.items()), ("tool", None))
        name = fields.get("name") if isinstance(fields, Mapping) else None
        return describe_own_tool(PROTOCOL, tool, str(name or kind), used_names)
    return _read_function(tool)


@read_once
def _read_function(tool: Mapping[str, Any]) -> InvocableDescription:
    function = tool[FUNCTION]
    schema = function["inputSchema"]["json"]
    inner = collect_extras(function, _KNOWN)
    inner_schema = collect_extras(function["inputSchema"], ("json",))
    inner |= {"inputSchema": inner_schema} if inner_schema else {}
    extras = collect_extras(tool, (FUNCTION,)) | ({FUNCTION: inner} if inner else {})
    is_strict = function.get("strict") is True
    if is_strict and not is_closed(schema):
        extras[AS_IT_IS] = True
    return describe_function(PROTOCOL, function, schema, extras, enforced=is_strict)


def _read_choice(choice: Any, invocables: Sequence[InvocableDescription]) -> str | None:
    """Return the choice; ``None`` for an unknown one."""
    names = {each.name for each in invocables if each.schema is not None}
    match choice:
        case None:
            return "auto"
        case {"tool": {"name": str(name)}} if name in names:
            return name
        case Mapping() if len(choice) == 1 and names:
            return _CHOICES_BY_NATIVE.get(next(iter(choice)))
    return None


def take_schema(request_fields: dict[str, Any]) -> JsonObject | None:
    """Remove the schema of an answer from a request, and return it."""
    if look_up(request_fields, _TYPE_PLACE) != "json_schema":
        return None
    try:
        schema: JsonObject = msgspec.json.decode(
            str(look_up(request_fields, _SCHEMA_PLACE)), type=dict[str, Any]
        )
    except UNREADABLE:
        return None  # the vendor will report it
    take(request_fields, _SCHEMA_PLACE)
    take(request_fields, _TYPE_PLACE)
    name_place = (*_SCHEMA_PLACE[:-1], "name")
    if look_up(request_fields, name_place) == SCHEMA_NAME:
        take(request_fields, name_place)
    return schema
