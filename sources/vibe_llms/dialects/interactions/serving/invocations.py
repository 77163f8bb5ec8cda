"""Tools, tool choice and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.dialects.extras import collect_extras, without
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.interactions.tables import CONFIG, JSON_TYPE
from vibe_llms.dialects.invocations import TakenNames
from vibe_llms.dialects.serving import describe_function, describe_own_tool, read_once
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation

_FUNCTION_FIELDS = ("type", "name", "description", "parameters")


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Return the descriptions and the choice in a client's request."""
    choice = _find_choice(native)
    enforced = choice == "validated"
    invocables: list[InvocableDescription] = []
    taken_names = TakenNames()
    for tool in native.get("tools") or ():
        if tool.get("type", "function") == "function":
            description = _read_function(tool, enforced)
        else:
            description = describe_own_tool(PROTOCOL, tool, str(tool["type"]), taken_names)
        invocables.append(description)
        taken_names.add(description.name)
    functions = {each.name for each in invocables if each.schema is not None}
    return Translation((tuple(invocables), _read_choice(choice, functions)))


@read_once
def _read_function(tool: Mapping[str, Any], enforced: bool) -> InvocableDescription:
    extras = collect_extras(tool, _FUNCTION_FIELDS)
    return describe_function(PROTOCOL, tool, tool.get("parameters"), extras, enforced=enforced)


def _find_choice(native: Mapping[str, Any]) -> Any:
    config = native.get(CONFIG)
    return config.get("tool_choice") if isinstance(config, Mapping) else None


def _list_allowed(choice: Any) -> Sequence[str]:
    allowed = choice.get("allowed_tools") if isinstance(choice, Mapping) else None
    names = allowed.get("tools") if isinstance(allowed, Mapping) else None
    return [str(each) for each in names] if isinstance(names, list) else []


def _find_mode(choice: Any) -> str:
    if isinstance(choice, Mapping):
        allowed = choice.get("allowed_tools")
        return str(allowed.get("mode", "auto")) if isinstance(allowed, Mapping) else "auto"
    return str(choice or "auto")


def _read_choice(choice: Any, names: set[str]) -> str:
    allowed = _list_allowed(choice)
    match _find_mode(choice):
        case "none":
            return "none"
        case "any" if len(allowed) == 1 and allowed[0] in names:  # we have no choice for several
            return allowed[0]
        case "any" if names:
            return "required"
    return "auto"


def find_allowed(native: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names of the functions that may be called, if the choice allows only some."""
    choice = _find_choice(native)
    allowed = _list_allowed(choice)
    if not allowed:
        return None
    names = frozenset(allowed)
    # A single required function is a choice of that function, not a limit.
    is_single = _read_choice(choice, {*names}) in names
    return None if is_single else names


def remove_choice(fields: dict[str, Any], choice: str) -> dict[str, Any]:
    """Return a request's parameters without a choice that the common one represents fully."""
    config = fields.get(CONFIG)
    if not isinstance(config, Mapping) or "tool_choice" not in config:
        return fields
    native_choice = config["tool_choice"]
    is_limit = len(_list_allowed(native_choice)) > 1 or (
        choice == "auto" and native_choice != "validated"
    )
    if is_limit:
        return fields
    remaining = without(config, "tool_choice")
    return without(fields, CONFIG) | ({CONFIG: remaining} if remaining else {})


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Return the schema in a client's request; ``None`` without one.

    A request for any JSON is kept as extras.
    """
    text_format = _find_text_format(native.get("response_format"))
    schema = text_format.get("schema") if text_format is not None else None
    return Translation(schema if isinstance(schema, Mapping) else None)


def _find_text_format(formats: Any) -> Mapping[str, Any] | None:
    for each in formats if isinstance(formats, list) else [formats]:
        if isinstance(each, Mapping) and each.get("mime_type") == JSON_TYPE:
            return each
    return None


def remove_schema(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a request's parameters without a schema that is the only format of the answer."""
    formats = fields.get("response_format")
    text_format = _find_text_format(formats)
    if text_format is None or not isinstance(text_format.get("schema"), Mapping):
        return fields
    is_only = not isinstance(formats, list) or len(formats) == 1
    is_plain = text_format.keys() <= {"type", "mime_type", "schema"}
    return without(fields, "response_format") if is_only and is_plain else fields
