"""Conversion of schemas to the subset that the vendor enforces; the vendor rejects other schemas.

In that subset, every object is closed, and bounds of numbers, lengths and lists are unsupported:
https://platform.claude.com/docs/en/build-with-claude/structured-outputs (read 2026-11-26).
A bound that cannot be enforced is added to the description, so that the model knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import write_json

_BOUNDS: Final = frozenset(
    {
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "uniqueItems",
    }
)
_FORMATS: Final = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid")
)
_KEYWORDS_WITH_NAMES: Final = ("$defs", "definitions", "properties")
_KEYWORDS_WITH_LISTS: Final = ("allOf", "anyOf", "oneOf")


def can_be_enforced(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema can be enforced unchanged."""
    return make_enforceable(schema) == schema


def make_enforceable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a schema to an enforceable one; an enforceable schema does not change."""
    enforceable: dict[str, Any] = {}
    unsupported: dict[str, Any] = {}
    for name, value in schema.items():
        if _is_unsupported(name, value):
            unsupported[name] = value
        elif name in _KEYWORDS_WITH_NAMES and isinstance(value, Mapping):
            enforceable[name] = {
                key: _make_inner_enforceable(inner) for key, inner in value.items()
            }
        elif name in _KEYWORDS_WITH_LISTS and isinstance(value, list):
            supported_name = "anyOf" if name == "oneOf" else name
            enforceable[supported_name] = [_make_inner_enforceable(inner) for inner in value]
        elif name == "items":
            enforceable[name] = _make_inner_enforceable(value)
        else:
            enforceable[name] = value
    if _is_object(schema):
        enforceable["additionalProperties"] = False
    if unsupported:
        words = (enforceable.get("description"), write_json(unsupported))
        enforceable["description"] = "\n\n".join(str(each) for each in words if each)
    return enforceable


def _is_unsupported(name: str, value: Any) -> bool:
    """Return whether the vendor rejects the value of a keyword."""
    match name:
        case "minItems":
            return value not in (0, 1)
        case "format":
            return value not in _FORMATS
        case _:
            return name in _BOUNDS


def _make_inner_enforceable(schema: Any) -> Any:
    return make_enforceable(schema) if isinstance(schema, Mapping) else schema


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return "object" in kinds or isinstance(schema.get("properties"), Mapping)
