"""JSON Schemas of answers, derived from their classes."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from vibe_llms.foundation.json_types import JsonObject

_PRIMITIVES: Final[Mapping[type, JsonObject]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
}


def describe_class(kind: type, title: str = "") -> JsonObject:
    """Return the schema of a class's JSON: each field, by its type."""
    hints = get_type_hints(kind)
    names = [each.name for each in attrs.fields(kind)] if attrs.has(kind) else [*hints]
    return {
        **({"title": title} if title else {}),
        "type": "object",
        "required": list(names),
        "properties": {name: _describe(hints[name]) for name in names},
    }


def _describe(hint: Any) -> JsonObject:
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_describe(each) for each in arguments]}
    if origin in (tuple, list) or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return {"type": "array", "items": _describe(arguments[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object"}
    if isinstance(hint, type) and attrs.has(hint):
        return describe_class(hint)
    return {}
