"""Merging of native fields that arrive in pieces, as clients do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# Some vendors repeat these with every piece: joining them would be wrong.
_REPLACED: Final = frozenset({"index", "type", "id", "finish_reason", "role"})


def grow(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Merge a piece of an object: texts and lists are extended, objects are merged, others
    replaced.

    Items of lists with an index are merged by it; null replaces nothing.
    """
    for name, value in piece.items():
        before = whole.get(name)
        if value is None or before is None:
            if name not in whole or value is not None:
                whole[name] = copy_plain(value)
        elif name in _REPLACED:
            whole[name] = value
        elif isinstance(before, str) and isinstance(value, str):
            whole[name] = before + value
        elif isinstance(before, dict) and isinstance(value, Mapping):
            grow(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            _grow_list(before, value)
        else:
            whole[name] = value


def update(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Keep the latest value of each field; null and empty values replace nothing."""
    for name, value in piece.items():
        before = whole.get(name)
        if isinstance(before, dict) and isinstance(value, Mapping):
            update(before, value)
        elif name not in whole or value not in (None, [], {}):
            whole[name] = copy_plain(value)


def _grow_list(whole: list[Any], piece: list[Any]) -> None:
    for entry in piece:
        index = entry.get("index") if isinstance(entry, Mapping) else None
        mine = None if index is None else _find(whole, index)
        if mine is None:
            whole.append(copy_plain(entry))
        else:
            grow(mine, entry)


def _find(entries: list[Any], index: object) -> dict[str, Any] | None:
    for entry in entries:
        if isinstance(entry, dict) and entry.get("index") == index:
            return entry
    return None


def copy_plain(value: Any) -> Any:
    """Return a copy that can grow without changing the caller's data."""
    if value is None or isinstance(value, (str, int, float)):  # fast path
        return value
    if isinstance(value, Mapping):
        return {name: copy_plain(inner) for name, inner in value.items()}
    return [copy_plain(inner) for inner in value] if isinstance(value, list) else value
