"""What vendors demand of schemas, and what stands for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.plain import JsonObject

NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}}
"""The schema of a function that takes none."""


def is_closed(schema: Any) -> bool:
    """Tells whether every object of a schema is closed and needs all its properties."""
    if isinstance(schema, list):
        return all(is_closed(each) for each in schema)
    if not isinstance(schema, Mapping):
        return True
    properties = schema.get("properties")
    if schema.get("type") == "object" or isinstance(properties, Mapping):
        names = properties.keys() if isinstance(properties, Mapping) else set()
        required = schema.get("required") or []
        if schema.get("additionalProperties") is not False or set(required) != set(names):
            return False
    inner = [
        value
        for name, value in schema.items()
        if name not in ("properties", "$defs", "definitions", "enum", "const", "default")
    ]
    for name in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(name), Mapping):
            inner += schema[name].values()
    return all(is_closed(each) for each in inner)
