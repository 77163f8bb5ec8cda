"""Templates of server tools: objects in a vendor's format, with placeholders for options.

A placeholder is a text that begins with ``$``, followed by an option of
:class:`~vibe_llms.messages.server_tools.ServerTool`, a part of one (``$location.city``), or a name
below.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.messages.server_tools import ServerTool


@frozen
class Placeholder:
    """A placeholder of the templates.

    Attributes:
        options: The options that it contains.
        write: Returns its value for a tool, or ``ABSENT``.
        read: Returns the options for its value; ``None`` if there is no counterpart.
    """

    options: tuple[str, ...]
    write: Callable[[ServerTool], Any]
    read: Callable[[Any], Mapping[str, Any] | None]


@functools.cache
def find_placeholder(name: str) -> Placeholder:
    if name in _SLOTS:
        return _SLOTS[name]
    option, _, part = name.partition(".")
    if option == "location":
        return Placeholder(
            (option,),
            lambda tool: (tool.location or {}).get(part, ABSENT),
            lambda value: {option: {part: value}} if isinstance(value, str) else None,
        )
    if option == "display":
        return Placeholder(
            (option,),
            lambda tool: tool.display[int(part)] if tool.display else ABSENT,
            lambda value: {option: {part: value}} if isinstance(value, int) else None,
        )

    def write(tool: ServerTool) -> Any:
        value = getattr(tool, option)
        if value in (None, ()):
            return ABSENT
        return list(value) if isinstance(value, tuple) else value

    def read(value: Any) -> Mapping[str, Any] | None:
        if isinstance(value, list):
            is_valid = option in _LISTS and all(isinstance(each, str) for each in value)
        else:
            is_valid = isinstance(value, int if option in _NUMBERS else str)
            is_valid = is_valid and option not in _LISTS
        return {option: value} if is_valid else None

    return Placeholder((option,), write, read)


_LISTS: Final = frozenset({"domains", "blocked_domains", "stores", "files", "tools"})
_NUMBERS: Final = frozenset({"max_uses", "max_results"})
_MINUS: Final = "-"
_BEARER: Final = "Bearer "
_ENVIRONMENT: Final = "ENVIRONMENT_"


def _write_container(tool: ServerTool) -> Any:
    files = {"file_ids": list(tool.files)} if tool.files else {}
    return tool.container or {"type": "auto", **files}


def _read_container(value: Any) -> Mapping[str, Any] | None:
    match value:
        case str():
            return {"container": value}
        case {"type": "auto", **rest} if rest.keys() <= {"file_ids"}:
            return {"files": rest.get("file_ids") or ()}
    return None


def _write_signed(tool: ServerTool) -> Any:
    return [*tool.domains, *(_MINUS + each for each in tool.blocked_domains)] or ABSENT


def _read_signed(value: Any) -> Mapping[str, Any] | None:
    texts = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    return {
        "domains": [each for each in texts if not each.startswith(_MINUS)],
        "blocked_domains": [each[1:] for each in texts if each.startswith(_MINUS)],
    }


def _read_allowed(value: Any) -> Mapping[str, Any] | None:
    match value:
        case [{"tools": [*tools], **rest}] if not rest:
            return {"tools": tools}
    return None


def _read_enabled(value: Any) -> Mapping[str, Any] | None:
    if not isinstance(value, Mapping) or any(each != {"enabled": True} for each in value.values()):
        return None
    return {"tools": list(value)}


_SLOTS: Final[Mapping[str, Placeholder]] = {
    "openai_container": Placeholder(("container", "files"), _write_container, _read_container),
    "signed_domains": Placeholder(("domains", "blocked_domains"), _write_signed, _read_signed),
    "enabled_tools": Placeholder(
        ("tools",),
        lambda tool: {name: {"enabled": True} for name in tool.tools} or ABSENT,
        _read_enabled,
    ),
    "allowed_tools": Placeholder(
        ("tools",),
        lambda tool: [{"tools": list(tool.tools)}] if tool.tools else ABSENT,
        _read_allowed,
    ),
    "only_enabled": Placeholder(
        ("tools",),
        lambda tool: {"enabled": False} if tool.tools else ABSENT,
        lambda value: {} if value == {"enabled": False} else None,
    ),
    "bearer": Placeholder(
        ("authorization",),
        lambda tool: _BEARER + tool.authorization if tool.authorization else ABSENT,
        lambda value: {"authorization": str(value).removeprefix(_BEARER)},
    ),
    "google_environment": Placeholder(
        ("environment",),
        lambda tool: _ENVIRONMENT + tool.environment.upper() if tool.environment else ABSENT,
        lambda value: {"environment": str(value).removeprefix(_ENVIRONMENT).lower()},
    ),
}
"""Placeholders that are more than the value of one option."""


def _read_placeholder(template: Any) -> str | None:
    is_placeholder = isinstance(template, str) and template.startswith("$")
    return template[1:] if is_placeholder else None


def survey_placeholders(template: Any) -> set[str]:
    name = _read_placeholder(template)
    if name is not None:
        return {name}
    inner = template.values() if isinstance(template, Mapping) else template
    if not isinstance(template, (Mapping, list)):
        return set()
    return {name for each in inner for name in survey_placeholders(each)}


def fill(template: Any, tool: ServerTool) -> Any:
    """Return a template with the options of a tool; ``ABSENT`` if all its options are missing."""
    name = _read_placeholder(template)
    if name is not None:
        return find_placeholder(name).write(tool)
    if not isinstance(template, (Mapping, list)):
        return template
    if isinstance(template, list):
        members = [fill(each, tool) for each in template]
        return [each for each in members if each is not ABSENT]
    filled = {key: fill(value, tool) for key, value in template.items()}
    optional = [key for key, value in template.items() if survey_placeholders(value)]
    if optional and all(filled[key] is ABSENT for key in optional):
        constants = [key for key in template if key not in optional and key != "type"]
        if not constants:
            return ABSENT
    return {key: value for key, value in filled.items() if value is not ABSENT}


def bind(template: Any, value: Any, found: dict[str, Any]) -> Any:
    """Find the options in a value; return the rest that has no counterpart, or ``ABSENT``.

    Args:
        found: Receives the options.
    """
    name = _read_placeholder(template)
    if value is None:
        return ABSENT
    if name is not None:
        options = find_placeholder(name).read(value)
        if options is None:
            return value
        for option, each in options.items():
            is_part = isinstance(each, Mapping)
            found[option] = {**found.get(option, {}), **each} if is_part else each
        return ABSENT
    if isinstance(template, Mapping) and isinstance(value, Mapping):
        rest = {key: bind(template.get(key), each, found) for key, each in value.items()}
        rest = {key: each for key, each in rest.items() if each is not ABSENT}
        return rest or ABSENT
    if isinstance(template, list) and isinstance(value, list):
        return _bind_member(template, value, found)
    return ABSENT if template == value else value


def _bind_member(template: list[Any], value: list[Any], found: dict[str, Any]) -> Any:
    """Find the options in the member of a list that has the label of the tool."""
    pattern = template[0] if template and isinstance(template[0], Mapping) else {}
    label_field = next((key for key, each in pattern.items() if each == "$label"), None)
    if label_field is None:
        return ABSENT if template == value else value
    for member in value:
        if not isinstance(member, Mapping):
            continue
        if found.get("label") in (None, member.get(label_field)):
            rest = bind(pattern, member, found)
            return ABSENT if rest is ABSENT else [rest]
    return value
