"""Tools, tool choice and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from vibe_llms.dialects.cache_hints import take_cache_control
from vibe_llms.dialects.chat_completions.calling.invocations import nativize_invocables
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.extras import AS_IT_IS, BODY, LENIENT, collect_extras, make_native
from vibe_llms.dialects.invocations import TakenNames, is_closed
from vibe_llms.dialects.serving import describe_function, describe_own_tool, read_once
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Translation

_FIELDS: Final = frozenset(
    {"tools", "functions", "web_search_options", "tool_choice", "function_call"}
)
"""Fields of a request about tools."""


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Return the descriptions and the choice in a client's request.

    An unknown choice becomes ``auto``; the request keeps it as native data.
    """
    if native.keys().isdisjoint(_FIELDS):  # as in most requests of a chat
        return Translation(((), "auto"))
    invocables: list[InvocableDescription] = []
    # A tool with the name of a choice, such as `none`, could not be chosen.
    taken_names = TakenNames(CHOICES)
    for tool in native.get("tools") or ():
        invocables.append(_normalize_tool(tool, taken_names))
        taken_names.add(invocables[-1].name)
    for function in native.get("functions") or ():
        invocables.append(_normalize_function({"function": function}, "functions"))
    options = native.get("web_search_options")
    if isinstance(options, Mapping):
        invocables.append(_describe_search(options, taken_names))
    names = {each.name for each in invocables}
    choice = _normalize_choice(native)
    is_valid = choice in ("auto", "none") or (choice == "required" and names) or choice in names
    if not is_valid:
        choice = "auto"
    return Translation((tuple(invocables), choice))


def _describe_search(options: Mapping[str, Any], taken_names: TakenNames) -> InvocableDescription:
    """Return the web search, which has no entry in ``tools``."""
    from vibe_llms.dialects.server_tools import SEARCH_OPTIONS, read_search_options

    return InvocableDescription(
        name=taken_names.find_free("web_search"),
        description="",
        schema=None,
        native=make_native(PROTOCOL, {"type": None, BODY: {SEARCH_OPTIONS: options}}),
        server_tool=read_search_options(PROTOCOL, options),
    )


def _normalize_tool(tool: Mapping[str, Any], taken_names: TakenNames) -> InvocableDescription:
    match tool:
        case {"function": {"name": str(name), **inner}} if name and _is_function(tool):
            if name not in taken_names and isinstance(inner.get("parameters"), Mapping | None):
                return _normalize_function(tool)
        case {"type": "custom", "custom": {"name": str(name), **inner}, **rest} if name:
            description = inner.pop("description", None)
            extras = {**rest, "custom": inner} if inner else rest
            if name not in taken_names and isinstance(description, str | None):
                return InvocableDescription(
                    name=name,
                    description=description or "",
                    schema=None,
                    native=make_native(PROTOCOL, extras),
                )
    name = str(tool.get("name") or tool.get("type") or "tool")
    return describe_own_tool(PROTOCOL, tool, name, taken_names)


def _is_function(tool: Mapping[str, Any]) -> bool:
    """Return whether a tool is an ordinary function; some vendors let clients omit the type."""
    return tool.get("type") in (None, "function")


@read_once
def _normalize_function(tool: Mapping[str, Any], field: str = "function") -> InvocableDescription:
    tool, hint = take_cache_control(tool)
    function, inner_hint = take_cache_control(tool["function"])
    extras = collect_extras(tool, ("type", "function"))
    strict = function.get("strict")
    enforced, known = strict is True, ("name", "description", "parameters")
    inner = collect_extras(function, (*known, "strict") if isinstance(strict, bool) else known)
    if inner or field == "functions":
        extras[field] = inner
    if strict is False:
        extras[LENIENT] = True
    schema = function.get("parameters")
    if enforced and not is_closed(schema):
        extras[AS_IT_IS] = True
    return describe_function(
        PROTOCOL, function, schema, extras, enforced=enforced, cache=hint or inner_hint
    )


def _normalize_choice(native: Mapping[str, Any]) -> str:
    choice: Any = native.get("tool_choice") or native.get("function_call") or "auto"
    if choice == "any":  # Mistral's value
        return "required"
    if isinstance(choice, str):
        return choice if choice in CHOICES else "auto"
    match choice:
        case {"function": {"name": str(name)}} | {"custom": {"name": str(name)}}:
            return name
        case {"allowed_tools": {"mode": "required"}}:
            return "required"
        case {"name": str(name)}:
            return name
    return "auto"


def find_allowed(native: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names of the tools that may be called, if the choice allows only some."""
    choice = native.get("tool_choice")
    allowed = choice.get("allowed_tools") if isinstance(choice, Mapping) else None
    tools = allowed.get("tools") if isinstance(allowed, Mapping) else None
    if not isinstance(tools, list):
        return None
    definitions = [tool.get(str(tool.get("type"))) for tool in tools if isinstance(tool, Mapping)]
    return frozenset(str(each.get("name")) for each in definitions if isinstance(each, Mapping))


def is_simplified(native_choice: Any, choice: str) -> bool:
    """Return whether a part of the meaning of a client's choice is lost for other vendors."""
    if isinstance(native_choice, Mapping) and "allowed_tools" in native_choice:
        return True
    return choice == "auto" and native_choice not in ("auto", {"type": "auto"})


def is_choice_unchanged(
    native: Mapping[str, Any], choice: str, invocables: Sequence[InvocableDescription]
) -> bool:
    """Return whether a choice would be written exactly as the client wrote it."""
    written = nativize_invocables(invocables, choice).value.get("tool_choice", "auto")
    return bool(written == native["tool_choice"])


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Return the schema in a client's request; ``None`` if any text is allowed.

    Any other format, such as a grammar, is kept as native data.
    """
    match native.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": Mapping() as schema}}:
            return Translation(schema)
        case {"type": "json_object"}:
            return Translation({"type": "object"})
    return Translation(None)
