"""JSON that fits a schema: small, and the same every time."""

from __future__ import annotations

from collections.abc import Mapping

DEPTH = 12
"""Where recursive schemas end: below it only what is required is made."""


def fabricate(schema: object, root: object = None, *, depth: int = 0) -> object:
    """Makes a value that fits a schema.

    Args:
        schema: JSON Schema, or Gemini's dialect of it with types in capitals.
        root: The whole schema, where references point; `schema` itself when None.
        depth: How deep in it we are.

    Returns:
        A value of plain data. Patterns and formats other than dates are not honoured.
    """
    if not isinstance(schema, Mapping):
        return "text"
    root = schema if root is None else root
    reference = schema.get("$ref")
    if isinstance(reference, str):
        return fabricate(_follow(root, reference), root, depth=depth + 1)
    for fixed in ("const", "default"):
        if fixed in schema:
            return schema[fixed]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    for union in ("anyOf", "oneOf"):
        members = schema.get(union)
        if isinstance(members, list) and members:
            return fabricate(members[-1 if depth > DEPTH else 0], root, depth=depth + 1)
    merged = schema.get("allOf")
    if isinstance(merged, list) and merged:
        return fabricate(_merge(schema, merged, root), root, depth=depth + 1)
    return _fabricate_type(schema, root, depth)


def _fabricate_type(schema: Mapping[str, object], root: object, depth: int) -> object:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    match str(kind).lower():
        case "object":
            return _fabricate_object(schema, root, depth)
        case "array":
            return _fabricate_array(schema, root, depth)
        case "integer" | "number":
            return _fabricate_number(schema)
        case "boolean":
            return True
        case "null":
            return None
        case "string":
            return _fabricate_text(schema)
    if "properties" in schema:
        return _fabricate_object(schema, root, depth)
    return "text"


def _fabricate_object(schema: Mapping[str, object], root: object, depth: int) -> object:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    required = schema.get("required")
    names = list(properties)
    if depth > DEPTH or depth > 2:
        names = [name for name in names if isinstance(required, list) and name in required]
    return {name: fabricate(properties[name], root, depth=depth + 1) for name in names}


def _fabricate_array(schema: Mapping[str, object], root: object, depth: int) -> object:
    least = schema.get("minItems")
    count = least if isinstance(least, int) else (0 if depth > DEPTH else 1)
    return [fabricate(schema.get("items", {}), root, depth=depth + 1) for _ in range(count)]


def _fabricate_number(schema: Mapping[str, object]) -> float:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if isinstance(low, int | float):
        return low
    if isinstance(above, int | float) and not isinstance(above, bool):
        return above + 1
    if isinstance(high, int | float):
        return min(7, high - 1)
    return 7


def _fabricate_text(schema: Mapping[str, object]) -> str:
    fixed = {"date": "2026-11-22", "date-time": "2026-11-22T12:00:00Z", "time": "12:00:00Z"}
    text = fixed.get(str(schema.get("format")), "text")
    least, most = schema.get("minLength"), schema.get("maxLength")
    if isinstance(least, int):
        text = text.ljust(least, "x")
    return text[:most] if isinstance(most, int) else text


def _follow(root: object, reference: str) -> object:
    value: object = root
    for name in reference.lstrip("#").strip("/").split("/"):
        if name and isinstance(value, Mapping):
            value = value.get(name.replace("~1", "/").replace("~0", "~"), {})
    return value


def _merge(schema: Mapping[str, object], members: list[object], root: object) -> object:
    properties: dict[str, object] = {}
    required: list[object] = []
    merged: dict[str, object] = {key: item for key, item in schema.items() if key != "allOf"}
    for member in [*members, merged]:
        if isinstance(member, Mapping) and isinstance(member.get("$ref"), str):
            member = _follow(root, member["$ref"])
        if isinstance(member, Mapping):
            properties.update(member.get("properties") or {})
            required.extend(member.get("required") or [])
            merged = {**member, **merged}
    if properties:
        merged |= {"type": "object", "properties": properties, "required": required}
    return merged
