"""Paths in a request: sequences of names, the outermost first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def put(body: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Put a value at a path; create the objects around it that are missing."""
    *groups, field = path
    for group in groups:
        body = body.setdefault(group, {})
    body[field] = value


def look_up(body: object, path: Sequence[str]) -> Any:
    """Return the value at a path; ``None`` without one."""
    for name in path:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def take(body: dict[str, Any], path: Sequence[str]) -> Any:
    """Remove the value at a path, and objects around it that become empty; return the value.

    Inner objects are replaced instead of changed, as the caller may share them.
    """
    name, *inner = path
    if not inner:
        return body.pop(name)
    remaining = dict(body[name])
    value = take(remaining, inner)
    if remaining:
        body[name] = remaining
    else:
        del body[name]
    return value
