"""Tools in namespaces and among items, which only Responses has.

In other protocols all tools are offered with the request, and a tool in a namespace gets a joined
name, such as ``mcp__tides__look_up`` for ``look_up`` in ``mcp__tides``. The tools of the request
tell which tool a joined name means, so no state is kept between requests; a call that was made in
this protocol names its namespace itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from vibe_llms.dialects.extras import TOLD, read_native, without
from vibe_llms.dialects.invocations import TakenNames
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.messages.contents import Native
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.tool_names import clean_name, mark_name

MARK: Final = "$namespace"
"""Key of the note on a tool or a call that has its namespace and its name there."""

LOADED: Final = "$loaded"
"""Key of the note on a tool that is among the items of its request, and is sent with them."""

_LOADING: Final = ("additional_tools", "tool_search_output")
_KINDS: Final = ("function", "custom")
_DEFAULT: Final = "functions"
"""Namespace under which OpenAI's models know the tools without a namespace."""


class Home(NamedTuple):
    """Namespace of a tool, and its name there."""

    namespace: str
    name: str

    def join(self) -> str:
        """Return the tool's name in other protocols, unless another tool has that name."""
        if self.namespace in (_DEFAULT, ""):
            return self.name
        separator = "" if self.namespace.endswith("__") else "__"
        return f"{self.namespace}{separator}{self.name}"


SEARCH: Final = Home("", "tool_search")
"""The search for tools that a client executes; its calls are items of their own kind."""


SOUGHT: Final = "$search"
"""Key of the note with the further fields of such a search."""


def is_search(tool: Mapping[str, Any]) -> bool:
    """Tell whether a tool is the search for tools that the client makes itself."""
    is_clients = tool.get("type") == SEARCH.name and tool.get("execution") == "client"
    return is_clients and isinstance(tool.get("parameters"), Mapping)


def is_plain(tool: Mapping[str, Any]) -> bool:
    """Tell whether a tool is a function or a custom tool with a name."""
    return tool.get("type") in _KINDS and isinstance(tool.get("name"), str)


def open_namespace(tool: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tools in a namespace; empty for other tools, or if a part is not understood."""
    inner, name = tool.get("tools"), tool.get("name")
    if tool.get("type") != "namespace" or not isinstance(name, str) or not name:
        return []
    if not isinstance(inner, list) or not all(isinstance(each, Mapping) for each in inner):
        return []
    names = [each.get("name") for each in inner if is_plain(each)]
    return inner if len(set(names)) == len(inner) else []


def list_loaded(native: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the tools among the items of a request, in their order."""
    items = native.get("input")
    listed = [
        item["tools"]
        for item in (items if isinstance(items, list) else ())
        if (item.__class__ is dict or isinstance(item, Mapping))
        and "tools" in item
        and item.get("type") in _LOADING
        and isinstance(item.get("tools"), list)
    ]
    return [tool for tools in listed for tool in tools if isinstance(tool, Mapping)]


def name_tools(native: Mapping[str, Any]) -> dict[Home, str]:
    """Return the names, in other protocols, of the tools of a request that are in a namespace.

    A name depends only on the tool, unless another tool has that name.
    """
    tools = (*(native.get("tools") or ()), *list_loaded(native))
    given = [tool for tool in tools if isinstance(tool, Mapping)]
    taken = TakenNames((*CHOICES, *(str(tool["name"]) for tool in given if is_plain(tool))))
    names: dict[Home, str] = {}
    for tool in given:
        homes = [Home(str(tool["name"]), str(inner["name"])) for inner in open_namespace(tool)]
        for home in (*homes, *((SEARCH,) if is_search(tool) else ())):
            if home in names:
                continue
            name = home.join()
            if name in taken:
                marked = mark_name(clean_name(name), f"{home.namespace}\0{home.name}")
                name = taken.find_free(marked)
            names[home] = name
            taken.add(name)
    return names


def name_call(item: Mapping[str, Any], names: Mapping[Home, str]) -> tuple[str, dict[str, Any]]:
    """Return the name of the tool that an item calls, and the note of its home."""
    name, namespace = str(item.get("name") or ""), item.get("namespace")
    if not isinstance(namespace, str) or not namespace:
        return name, {}
    home = Home(namespace, name)
    return names.get(home) or home.join(), {MARK: {"name": namespace, "tool": name}}


def note_home(
    namespace: Mapping[str, Any], home: Home, described: str, *, is_first: bool
) -> tuple[str, dict[str, Any]]:
    """Return the description of a tool in other protocols, and the note of its home.

    Args:
        namespace: The namespace, as the client describes it.
        described: Description of the tool itself.
        is_first: Whether the tool is the first of its namespace: its description includes that of
            the namespace, and the change is reported as a loss.
    """
    noted: dict[str, Any] = {"name": home.namespace, "tool": home.name}
    if not is_first:
        return described, {MARK: noted}
    noted |= {"rest": without(namespace, "type", "name", "tools"), TOLD: "namespace"}
    about = namespace.get("description")
    if not isinstance(about, str) or not about.strip():
        return described, {MARK: noted}
    noted["described"] = described
    told = f"About all tools of {home.namespace}: {about}"
    return (f"{described}\n\n{told}" if described.strip() else told), {MARK: noted}


def read_home(extras: Mapping[str, Any]) -> Home | None:
    """Return the home noted in extras."""
    noted = extras.get(MARK)
    return None if noted is None else Home(noted["name"], noted["tool"])


def find_homes(invocables: Iterable[InvocableDescription]) -> dict[str, Home]:
    """Index the homes of tools by their names in other protocols."""
    return dict(_find_homes(invocables))


def _find_homes(invocables: Iterable[InvocableDescription]) -> Iterator[tuple[str, Home]]:
    for each in invocables:
        home = read_home_of(each.native)
        if home is not None:
            yield each.name, home


def read_home_of(native: Native | None) -> Home | None:
    """Return the home noted in a native. Raises RequestError."""
    if native is None or native.protocol != PROTOCOL:
        return None
    if MARK not in native.data and SOUGHT not in native.data:  # as nearly all
        return None
    fields = read_native(native, "invocable")
    return SEARCH if SOUGHT in fields else read_home(fields)


def write_home(tool: Mapping[str, Any], extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool under its own name, for :func:`gather`."""
    noted, loaded = extras.get(MARK), {LOADED: True} if LOADED in extras else {}
    if noted is None:
        return {**tool, **loaded}
    described = noted.get("described", tool.get("description"))
    rest = without(tool, "name", "description")
    own = {"name": noted["tool"], **({"description": described} if described else {})}
    return {**own, **rest, MARK: noted, **loaded}


def name_at_home(name: str, noted: Home | None, homes: Mapping[str, Home]) -> dict[str, str]:
    """Return the fields of a call that name the tool.

    Args:
        noted: The home noted on the call itself.
        homes: The homes of the tools that were offered.
    """
    home = noted or homes.get(name)
    home = None if home == SEARCH else home
    return {"name": name} if home is None else {"name": home.name, "namespace": home.namespace}


def gather(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the tools, with the tools of each namespace gathered at the place of its first one.

    Tools that are sent with the items are left out.
    """
    gathered: list[dict[str, Any]] = []
    spaces: dict[str, list[dict[str, Any]]] = {}
    for tool in tools:
        if LOADED in tool:
            continue
        noted, plain = tool.get(MARK), without(tool, MARK)
        if noted is None:
            gathered.append(plain)
            continue
        name = noted["name"]
        if name not in spaces:
            spaces[name] = []
            rest = noted.get("rest") or {}
            gathered.append({"type": "namespace", "name": name, **rest, "tools": spaces[name]})
        spaces[name].append(plain)
    return gathered
