"""Merging of native fields that arrive in pieces, as clients do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# Some vendors repeat the values of these fields with every piece: joining would be wrong.
_REPLACED: Final = frozenset({"index", "type", "id", "finish_reason", "role"})


def append_piece(whole: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Append a piece of an object to the pieces received before.

    Texts and lists are extended, objects are merged, other values are replaced. Items of a list
    that have the same index are merged; null replaces nothing.
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
            append_piece(before, value)
        elif isinstance(before, list) and isinstance(value, list):
            _append_items(before, value)
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


def _append_items(whole: list[Any], piece: list[Any]) -> None:
    for entry in piece:
        index = entry.get("index") if isinstance(entry, Mapping) else None
        same = None if index is None else _find(whole, index)
        if same is None:
            whole.append(copy_plain(entry))
        else:
            append_piece(same, entry)


def _find(entries: list[Any], index: object) -> dict[str, Any] | None:
    for entry in entries:
        if isinstance(entry, dict) and entry.get("index") == index:
            return entry
    return None


def copy_plain(value: Any) -> Any:
    """Return a copy that can be extended without changing the caller's data."""
    if value is None or isinstance(value, (str, int, float)):  # fast path
        return value
    if isinstance(value, Mapping):
        return {name: copy_plain(inner) for name, inner in value.items()}
    return [copy_plain(inner) for inner in value] if isinstance(value, list) else value
