"""Where something stands in a request: the names on the way to it, the outermost first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def put(body: dict[str, Any], place: Sequence[str], value: Any) -> None:
    """Puts a value there, with the objects around it that are missing."""
    *groups, field = place
    for group in groups:
        body = body.setdefault(group, {})
    body[field] = value


def look_up(body: object, place: Sequence[str]) -> Any:
    """Returns what stands there; ``None`` where nothing does."""
    for name in place:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def take(body: dict[str, Any], place: Sequence[str]) -> Any:
    """Takes out what stands there, and an object around it that is left empty.

    Objects within are not changed, but replaced: they may be somebody else's.
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
