"""What is left of a vendor's object, and how it comes back upon what was written anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def leave(block: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """Returns the fields of an object that are not known; null means that one is not there."""
    return {k: value for k, value in block.items() if k not in known and value is not None}


def merge(fields: Mapping[str, Any], further: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of two objects; the further ones win, objects within are merged."""
    merged = dict(fields)
    for name, value in further.items():
        before = merged.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            value = merge(before, value)
        merged[name] = value
    return merged


def merge_all(objects: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the fields of several objects, merged one upon the other."""
    merged: dict[str, Any] = {}
    for fields in filter(None, objects):
        merged = merge(merged, fields)
    return merged


def read_text(value: Any) -> str | None:
    """Returns a value that is text; ``None`` for any other."""
    return value if isinstance(value, str) else None
