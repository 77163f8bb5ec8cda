"""Features of a JSON Schema that not every vendor enforces, by the capabilities that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MAPS = "supports_schema_with_maps"
RECURSION = "supports_schema_with_recursion"

_BY_NAME = ("properties", "$defs", "definitions")
_DATA = ("enum", "const", "default", "examples")
_COMPOSED = ("$ref", "anyOf", "oneOf", "allOf")


def survey_features(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the capabilities that enforcing a schema needs, beyond enforcing schemas at all."""
    nodes = list(_walk(schema))
    features = [MAPS] if any(map(_is_map, nodes)) else []
    return (*features, RECURSION) if _is_recursive(schema) else tuple(features)


def _walk(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all schemas within one, including itself."""
    pending = [schema]
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending += each
        elif isinstance(each, Mapping):
            yield each
            for name, value in each.items():
                if name in _BY_NAME and isinstance(value, Mapping):
                    pending += value.values()
                elif name not in _DATA:
                    pending.append(value)


def _is_map(schema: Mapping[str, Any]) -> bool:
    """Return whether an object has keys that are not known in advance."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    is_object = "object" in kinds
    is_composed = any(name in schema for name in _COMPOSED)
    is_open = schema.get("additionalProperties") is not False
    return is_object and is_open and not schema.get("properties") and not is_composed


def _is_recursive(schema: Mapping[str, Any]) -> bool:
    """Return whether a definition refers to itself, also through others."""
    definitions: dict[str, Any] = {"#": {**schema, "$defs": {}, "definitions": {}}}
    for field in ("$defs", "definitions"):
        if isinstance(table := schema.get(field), Mapping):
            definitions |= {f"#/{field}/{name}": inner for name, inner in table.items()}
    references = {
        name: {str(node["$ref"]) for node in _walk(inner) if "$ref" in node} & definitions.keys()
        for name, inner in definitions.items()
    }
    # Repeatedly remove definitions without references; what remains is a cycle.
    while leaves := [name for name, targets in references.items() if not targets]:
        for name in leaves:
            del references[name]
        references = {name: targets.difference(leaves) for name, targets in references.items()}
    return bool(references)
