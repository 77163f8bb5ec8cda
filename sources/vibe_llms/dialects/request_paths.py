"""Paths in a request: sequences of names, the outermost first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def put(body: dict[str, Any], place: Sequence[str], value: Any) -> None:
    """Put a value at a path; create the objects around it that are missing."""
    *groups, field = place
    for group in groups:
        body = body.setdefault(group, {})
    body[field] = value


def look_up(body: object, place: Sequence[str]) -> Any:
    """Return the value at a path; ``None`` without one."""
    for name in place:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def take(body: dict[str, Any], place: Sequence[str]) -> Any:
    """Remove the value at a path, and an object around it that becomes empty; return the value.

    Objects within are replaced, not changed, as the caller may share them.
    """
    name, *inner = place
    if not inner:
        return body.pop(name)
    left = dict(body[name])
    value = take(left, inner)
    if left:
        body[name] = left
    else:
        del body[name]
    return value
