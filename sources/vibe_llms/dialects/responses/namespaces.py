"""Tools in namespaces and among items, which only Responses has.

In other protocols all tools are offered with the request, and a tool in a namespace gets a joined
name, such as ``mcp__tides__look_up`` for ``look_up`` in ``mcp__tides``. A joined name is resolved
with the tools of the same request, so no state is kept between requests. In Responses itself, a
call contains its namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from vibe_llms.dialects.extras import REPORTED_AS, read_native, without
from vibe_llms.dialects.invocations import TakenNames
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.tool_names import clean_name, mark_name

NAMESPACE_NOTE: Final = "$namespace"
"""Key of a note on a tool or a call: the namespace, and the tool's name in the namespace."""

LOADED_NOTE: Final = "$loaded"
"""Key of a note on a tool that is among the items of a request, and is sent with the items."""

_LOADING_ITEMS: Final = ("additional_tools", "tool_search_output")
_KINDS: Final = ("function", "custom")
_DEFAULT_NAMESPACE: Final = "functions"
"""Namespace under which OpenAI's models know the tools without a namespace."""


class QualifiedName(NamedTuple):
    """Qualified name of a tool: its namespace, and its name in that namespace."""

    namespace: str
    name: str

    def join(self) -> str:
        """Return the tool's name in other protocols, unless another tool has that name."""
        if self.namespace in (_DEFAULT_NAMESPACE, ""):
            return self.name
        separator = "" if self.namespace.endswith("__") else "__"
        return f"{self.namespace}{separator}{self.name}"


SEARCH: Final = QualifiedName("", "tool_search")
"""The tool search that a client executes; its calls are items of their own type."""


SEARCH_NOTE: Final = "$search"
"""Key of the note on a tool search with its other fields."""


def is_search(tool: Mapping[str, Any]) -> bool:
    """Return whether a tool is a tool search that the client executes."""
    is_clients = tool.get("type") == SEARCH.name and tool.get("execution") == "client"
    return is_clients and isinstance(tool.get("parameters"), Mapping)


def is_plain(tool: Mapping[str, Any]) -> bool:
    """Return whether a tool is a function or a custom tool with a name."""
    return tool.get("type") in _KINDS and isinstance(tool.get("name"), str)


def open_namespace(tool: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tools in a namespace; empty for other tools, or if the namespace is invalid."""
    inner, name = tool.get("tools"), tool.get("name")
    if tool.get("type") != "namespace" or not isinstance(name, str) or not name:
        return []
    if not isinstance(inner, list) or not all(isinstance(each, Mapping) for each in inner):
        return []
    unique_names = {each.get("name") for each in inner if is_plain(each)}
    has_only_named_tools = len(unique_names) == len(inner)
    return inner if has_only_named_tools else []


def list_loaded(native: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tools among the items of a request, in their order."""
    items = native.get("input")
    if not isinstance(items, list):
        return []
    loaded: list[Mapping[str, Any]] = []
    for item in items:
        # Most items have no tools. The check of the class is a fast path.
        is_mapping = item.__class__ is dict or isinstance(item, Mapping)
        if not is_mapping or "tools" not in item or item.get("type") not in _LOADING_ITEMS:
            continue
        tools = item["tools"]
        if isinstance(tools, list):
            loaded += [tool for tool in tools if isinstance(tool, Mapping)]
    return loaded


def name_tools(native: Mapping[str, Any]) -> dict[QualifiedName, str]:
    """Return the names, in other protocols, of the tools of a request that are in a namespace.

    A name depends only on the tool, unless another tool has that name.
    """
    tools = (*(native.get("tools") or ()), *list_loaded(native))
    valid_tools = [tool for tool in tools if isinstance(tool, Mapping)]
    plain_names = (str(tool["name"]) for tool in valid_tools if is_plain(tool))
    taken_names = TakenNames((*CHOICES, *plain_names))
    names: dict[QualifiedName, str] = {}
    for tool in valid_tools:
        qualified_names = [
            QualifiedName(str(tool["name"]), str(inner["name"])) for inner in open_namespace(tool)
        ]
        if is_search(tool):
            qualified_names.append(SEARCH)
        for qualified_name in qualified_names:
            if qualified_name in names:
                continue
            name = qualified_name.join()
            if name in taken_names:
                marked = mark_name(
                    clean_name(name), f"{qualified_name.namespace}\0{qualified_name.name}"
                )
                name = taken_names.find_free(marked)
            names[qualified_name] = name
            taken_names.add(name)
    return names


def name_call(
    item: Mapping[str, Any], names: Mapping[QualifiedName, str]
) -> tuple[str, dict[str, Any]]:
    """Return the name of the tool that an item calls, and the note with its qualified name."""
    name, namespace = str(item.get("name") or ""), item.get("namespace")
    if not isinstance(namespace, str) or not namespace:
        return name, {}
    qualified_name = QualifiedName(namespace, name)
    note = {NAMESPACE_NOTE: {"name": namespace, "tool": name}}
    return names.get(qualified_name) or qualified_name.join(), note


def describe_in_namespace(
    namespace: Mapping[str, Any],
    qualified_name: QualifiedName,
    own_description: str,
    *,
    is_first: bool,
) -> tuple[str, dict[str, Any]]:
    """Return the description of a tool in other protocols, and the note with its qualified name.

    Args:
        namespace: The namespace, as the client describes it.
        own_description: Description of the tool itself.
        is_first: Whether the tool is the first of its namespace. The description of the first tool
            includes the description of the namespace, and the change is reported as a loss.
    """
    note: dict[str, Any] = {"name": qualified_name.namespace, "tool": qualified_name.name}
    if not is_first:
        return own_description, {NAMESPACE_NOTE: note}
    note |= {"rest": without(namespace, "type", "name", "tools"), REPORTED_AS: "namespace"}
    shared_description = namespace.get("description")
    if not isinstance(shared_description, str) or not shared_description.strip():
        return own_description, {NAMESPACE_NOTE: note}
    note["described"] = own_description
    description = f"About all tools of {qualified_name.namespace}: {shared_description}"
    if own_description.strip():
        description = f"{own_description}\n\n{description}"
    return description, {NAMESPACE_NOTE: note}


def read_qualified_name(extras: Mapping[str, Any]) -> QualifiedName | None:
    """Return the qualified name that is noted in extras."""
    note = extras.get(NAMESPACE_NOTE)
    return None if note is None else QualifiedName(note["name"], note["tool"])


def find_qualified_names(invocables: Iterable[InvocableDescription]) -> dict[str, QualifiedName]:
    """Index the qualified names of tools by their names in other protocols."""
    return dict(_find_qualified_names(invocables))


def _find_qualified_names(
    invocables: Iterable[InvocableDescription],
) -> Iterator[tuple[str, QualifiedName]]:
    for each in invocables:
        qualified_name = find_qualified_name(each.native)
        if qualified_name is not None:
            yield each.name, qualified_name


def find_qualified_name(native: Native | None) -> QualifiedName | None:
    """Return the qualified name that is noted in native data. Raises RequestError."""
    if native is None or native.protocol != PROTOCOL:
        return None
    if NAMESPACE_NOTE not in native.data and SEARCH_NOTE not in native.data:  # fast path
        return None
    fields = read_native(native, "invocable")
    return SEARCH if SEARCH_NOTE in fields else read_qualified_name(fields)


def write_qualified_name(tool: Mapping[str, Any], extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool with its name in the namespace, for :func:`group_by_namespace`."""
    loaded_note = {LOADED_NOTE: True} if LOADED_NOTE in extras else {}
    note = extras.get(NAMESPACE_NOTE)
    if note is None:
        return {**tool, **loaded_note}
    written = {"name": note["tool"]}
    description = note.get("described", tool.get("description"))
    if description:
        written["description"] = description
    other_fields = without(tool, "name", "description")
    return {**written, **other_fields, NAMESPACE_NOTE: note, **loaded_note}


def write_tool_name(
    name: str, noted_name: QualifiedName | None, qualified_names: Mapping[str, QualifiedName]
) -> dict[str, str]:
    """Return the fields of a call that name the tool.

    Args:
        noted_name: The qualified name that is noted on the call itself.
        qualified_names: The qualified names of the offered tools, by their names in the
            conversation.
    """
    qualified_name = noted_name or qualified_names.get(name)
    if qualified_name is None or qualified_name == SEARCH:
        return {"name": name}
    return {"name": qualified_name.name, "namespace": qualified_name.namespace}


def group_by_namespace(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools, with all tools of a namespace in one entry.

    The entry is at the position of the first tool of the namespace. Tools that are sent with the
    items are omitted.
    """
    grouped: list[dict[str, Any]] = []
    tools_by_namespace: dict[str, list[dict[str, Any]]] = {}
    for tool in tools:
        if LOADED_NOTE in tool:
            continue
        note, plain_tool = tool.get(NAMESPACE_NOTE), without(tool, NAMESPACE_NOTE)
        if note is None:
            grouped.append(plain_tool)
            continue
        name = note["name"]
        if name not in tools_by_namespace:
            tools_by_namespace[name] = []
            namespace_fields = note.get("rest") or {}
            grouped.append(
                {
                    "type": "namespace",
                    "name": name,
                    **namespace_fields,
                    "tools": tools_by_namespace[name],
                }
            )
        tools_by_namespace[name].append(plain_tool)
    return grouped
