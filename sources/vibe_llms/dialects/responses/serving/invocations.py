"""Tools, tool choice and schemas in a client's request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from vibe_llms.dialects.extras import AS_IT_IS, collect_extras, make_native, without
from vibe_llms.dialects.invocations import TakenNames, is_closed
from vibe_llms.dialects.responses.calling.invocations import write_tool_choice
from vibe_llms.dialects.responses.namespaces import (
    LOADED_NOTE,
    SEARCH,
    SEARCH_NOTE,
    QualifiedName,
    describe_in_namespace,
    is_plain,
    is_search,
    list_loaded,
    name_tools,
    open_namespace,
)
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.serving import describe_function, describe_own_tool, read_once
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation

_NOTHING: Final[Mapping[str, Any]] = {}
_Pair: TypeAlias = tuple[InvocableDescription, Mapping[str, Any]]
"""A tool's description, and the tool as the client described it."""


def normalize_invocables(
    native: Mapping[str, Any],
) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
    """Return the descriptions and the choice in a client's request."""
    tools = native.get("tools") or ()
    names = name_tools(native)
    taken_names = TakenNames((*CHOICES, *names.values()))
    pairs: list[_Pair] = []
    seen: set[QualifiedName] = set()
    for tool in tools:
        qualified_names = [
            QualifiedName(tool["name"], each["name"]) for each in open_namespace(tool)
        ]
        if qualified_names and seen.isdisjoint(qualified_names):
            seen.update(qualified_names)
            pairs += _normalize_namespace(tool, qualified_names, names)
            continue
        if is_search(tool):
            pairs.append((_normalize_search(tool, names[SEARCH], {}), tool))
            continue
        invocable = _normalize_tool(tool, taken_names)
        taken_names.add(invocable.name)
        pairs.append((invocable, tool))
    pairs += _normalize_loaded(native, names, {invocable.name for invocable, _ in pairs})
    invocables = tuple(invocable for invocable, _ in pairs)
    return Translation((invocables, _normalize_choice(native, pairs)))


def _normalize_loaded(
    native: Mapping[str, Any], names: Mapping[QualifiedName, str], offered: set[str]
) -> list[_Pair]:
    """Return the tools among the items that any model can use, with their latest descriptions.

    Args:
        offered: The names of the tools in the request itself.
    """
    loaded: dict[str, _Pair] = {}
    for tool in list_loaded(native):
        pairs: Iterable[_Pair] = ()
        if inner := open_namespace(tool):
            qualified_names = [QualifiedName(tool["name"], each["name"]) for each in inner]
            pairs = _normalize_namespace(tool, qualified_names, names, {LOADED_NOTE: True})
        elif is_search(tool):
            pairs = ((_normalize_search(tool, names[SEARCH], {LOADED_NOTE: True}), tool),)
        elif is_plain(tool):
            pairs = ((_normalize_plain(tool, {LOADED_NOTE: True}), tool),)
        for pair in pairs:
            name = pair[0].name
            if name not in offered and name not in CHOICES:
                loaded[name] = pair
    return list(loaded.values())


def _normalize_namespace(
    namespace: Mapping[str, Any],
    qualified_names: Sequence[QualifiedName],
    names: Mapping[QualifiedName, str],
    extra_notes: Mapping[str, Any] = _NOTHING,
) -> Iterator[_Pair]:
    """Yield the tools in a namespace, each under its name in other protocols.

    Args:
        extra_notes: Notes about each.
    """
    for qualified_name, tool in zip(qualified_names, namespace["tools"], strict=True):
        own_description = str(tool.get("description") or "")
        description, notes = describe_in_namespace(
            namespace,
            qualified_name,
            own_description,
            is_first=qualified_name is qualified_names[0],
        )
        notes |= extra_notes
        named = {**tool, "name": names[qualified_name], "description": description}
        yield _normalize_plain(named, notes), {**tool, "namespace": qualified_name.namespace}


def _normalize_tool(tool: Mapping[str, Any], taken_names: TakenNames) -> InvocableDescription:
    if not is_plain(tool) or tool["name"] in taken_names:  # the vendor reports invalid names
        name = str(tool.get("name") or tool.get("server_label") or tool.get("type") or "tool")
        return describe_own_tool(PROTOCOL, tool, name, taken_names)
    return _normalize_plain(tool, {})


@read_once
def _normalize_plain(tool: Mapping[str, Any], notes: dict[str, Any]) -> InvocableDescription:
    """Return the description of a function or a custom tool.

    Args:
        notes: Notes about it.
    """
    extras = collect_extras(tool, ("type", "name", "description")) | notes
    if tool["type"] == "custom":
        description = str(tool.get("description") or "")
        native = make_native(PROTOCOL, extras)
        return InvocableDescription(
            name=tool["name"], description=description, schema=None, native=native
        )
    schema, enforced = extras.pop("parameters", None), extras.pop("strict", None)
    if enforced is True and not is_closed(schema):
        extras[AS_IT_IS] = True
    if enforced is None:  # the vendor then enforces the schema as far as possible
        extras["strict"] = None
    schema = schema if isinstance(schema, Mapping) else None
    return describe_function(PROTOCOL, tool, schema, extras, enforced=enforced is True)


def _normalize_search(
    tool: Mapping[str, Any], name: str, notes: dict[str, Any]
) -> InvocableDescription:
    """Return a client's tool search as a function for any model."""
    extras = {SEARCH_NOTE: without(tool, "description", "parameters"), **notes}
    function = {"name": name, "description": tool.get("description")}
    return describe_function(PROTOCOL, function, tool["parameters"], extras)


def _normalize_choice(native: Mapping[str, Any], pairs: Sequence[_Pair]) -> str:
    """Return the choice as our value; the request keeps a choice that has no counterpart."""
    choice = native.get("tool_choice")
    names = {invocable.name for invocable, _ in pairs}
    match choice:
        case "none":
            return "none"
        case "required":
            return "required" if names else "auto"
        case {"type": "allowed_tools", "mode": "required"}:
            return "required" if names else "auto"
        case {"type": "function" | "custom", "name": str(name), **rest} if (
            name in names and not rest.get("namespace")
        ):
            return name
        case {"type": str(kind), **rest}:
            client_choice = {"type": kind, **rest}
            for invocable, tool in pairs:
                tool_choice = {"namespace": None, **write_tool_choice(tool)}
                if all(client_choice.get(name) == value for name, value in tool_choice.items()):
                    return invocable.name
    return "auto"


def find_allowed(native: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names of the tools that may be called, if the choice allows only some."""
    choice = native.get("tool_choice")
    match choice:
        case {"type": "allowed_tools", "tools": [*tools]}:
            names = name_tools(native)
            allowed = (
                _list_allowed_names(tool, names) for tool in tools if isinstance(tool, Mapping)
            )
            return frozenset(name for each in allowed for name in each)
    return None


def _list_allowed_names(tool: Mapping[str, Any], names: Mapping[QualifiedName, str]) -> list[str]:
    """Return the names that an entry of the choice allows: a tool, or all of a namespace."""
    name, namespace = str(tool.get("name")), tool.get("namespace")
    if tool.get("type") == "namespace":
        return [
            joined_name
            for qualified_name, joined_name in names.items()
            if qualified_name.namespace == name
        ]
    return [names.get(QualifiedName(str(namespace), name), name) if namespace else name]


def normalize_schema(native: Mapping[str, Any]) -> Translation[JsonObject | None]:
    """Return the schema in a client's request; ``None`` if any text is allowed."""
    text = native.get("text")
    answer_format = text.get("format") if isinstance(text, Mapping) else None
    match answer_format:
        case {"type": "json_schema", "schema": Mapping() as schema}:
            return Translation(dict(schema))
        case {"type": "json_object"}:
            return Translation({"type": "object"})
        case None | {"type": "text"}:
            return Translation(None)
    reason = "a format of this type has no common field; it is kept as native data"
    return Translation(None, (Loss(kind=LossKind.COERCED, path="text.format", reason=reason),))
