"""The protocol's older form of schemas (a part of OpenAPI 3.0), as JSON Schema.

Newer fields (``parametersJsonSchema``, ``responseJsonSchema``) accept JSON Schema itself; requests
are written with these.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.generate_content.fields import camelize

_NUMBERS: Final = frozenset(
    {"maxItems", "minItems", "maxLength", "minLength", "maxProperties", "minProperties"}
)
"""Keywords with 64-bit integers, which this protocol may write as texts."""


def normalize_schema_form(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema for a schema in the older form.

    Types become lower case, ``nullable`` a type or an alternative, ``propertyOrdering`` the order
    of the properties.
    """
    fields = camelize(schema)
    ordering = fields.pop("propertyOrdering", None)
    nullable = fields.pop("nullable", False)
    normalized: dict[str, Any] = {}
    for name, value in fields.items():
        match name:
            case "type" if isinstance(value, str):
                if value.upper() != "TYPE_UNSPECIFIED":
                    normalized["type"] = value.lower()
            case "properties" if isinstance(value, Mapping):
                normalized[name] = _normalize_properties(value, ordering)
            case "items" | "additionalProperties" if isinstance(value, Mapping):
                normalized[name] = normalize_schema_form(value)
            case "anyOf" if isinstance(value, list):
                normalized[name] = [
                    normalize_schema_form(each) if isinstance(each, Mapping) else each
                    for each in value
                ]
            case "example":
                normalized["examples"] = [value]
            case "defs" | "ref":
                normalized[f"${name}"] = value
            case _:
                is_number = name in _NUMBERS and isinstance(value, str) and value.isdecimal()
                normalized[name] = int(value) if is_number else value
    return _admit_null(normalized) if nullable else normalized


def _normalize_properties(properties: Mapping[str, Any], ordering: Any) -> dict[str, Any]:
    first = [name for name in ordering or () if name in properties]
    order = dict.fromkeys([*first, *properties])
    return {
        name: normalize_schema_form(properties[name])
        if isinstance(properties[name], Mapping)
        else properties[name]
        for name in order
    }


def _admit_null(schema: dict[str, Any]) -> dict[str, Any]:
    if "type" in schema and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    if isinstance(schema.get("anyOf"), list) and "type" not in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return {"anyOf": [schema, {"type": "null"}]}
