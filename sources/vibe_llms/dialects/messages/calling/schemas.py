"""Schemas in the subset that the vendor enforces; it rejects all others.

Every object is closed there, and bounds of numbers, lengths and lists are unknown:
https://platform.claude.com/docs/en/build-with-claude/structured-outputs (read 2026-11-26).
A bound that cannot be enforced is described to the model in the description beside it.
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
_BY_NAME: Final = ("$defs", "definitions", "properties")
_LISTS: Final = ("allOf", "anyOf", "oneOf")


def can_be_enforced(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema can be enforced unchanged."""
    return fit_schema(schema) == schema


def fit_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an enforceable schema, unchanged if possible."""
    fitted: dict[str, Any] = {}
    told: dict[str, Any] = {}
    for name, value in schema.items():
        if _is_unknown(name, value):
            told[name] = value
        elif name in _BY_NAME and isinstance(value, Mapping):
            fitted[name] = {key: _fit(inner) for key, inner in value.items()}
        elif name in _LISTS and isinstance(value, list):
            fitted["anyOf" if name == "oneOf" else name] = [_fit(inner) for inner in value]
        elif name == "items":
            fitted[name] = _fit(value)
        else:
            fitted[name] = value
    if _is_object(schema):
        fitted["additionalProperties"] = False
    if told:
        words = (fitted.get("description"), write_json(told))
        fitted["description"] = "\n\n".join(str(each) for each in words if each)
    return fitted


def _is_unknown(name: str, value: Any) -> bool:
    """Return whether the vendor rejects the value of a keyword."""
    match name:
        case "minItems":
            return value not in (0, 1)
        case "format":
            return value not in _FORMATS
        case _:
            return name in _BOUNDS


def _fit(schema: Any) -> Any:
    return fit_schema(schema) if isinstance(schema, Mapping) else schema


def _is_object(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    return "object" in kinds or isinstance(schema.get("properties"), Mapping)
