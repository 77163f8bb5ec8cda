"""Compiled checks of common schemas, which take a hundredth of jsonschema's time.

Only a positive result must be right: after a negative one, jsonschema decides and describes the
faults. A schema with an unusual keyword has no compiled check.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Check: TypeAlias = Callable[[Any], bool]
"""Returns true if a JSON value certainly matches; after false, jsonschema decides."""

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_ANNOTATIONS: Final = frozenset(
    {"$schema", "$comment", "title", "description", "default", "examples", "deprecated"}
    | {"readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType"}
)
"""Keywords that only annotate: they do not restrict values in this draft."""


class _Unsupported(Exception):
    """The schema contains a keyword or value that only jsonschema handles."""


def compile_check(schema: Any, *, with_patterns: bool = False) -> Check | None:
    """Compile a schema of draft 2020-12; ``None`` if it contains something unusual.

    Args:
        with_patterns: Also compile patterns, which may backtrack endlessly; only for a process that
            can be killed. Without patterns, the time of a check is at most proportional to the size
            of the value times the size of the schema.
    """
    if isinstance(schema, Mapping) and str(schema.get("$schema", _DRAFT)).rstrip("#") != _DRAFT:
        return None
    if not with_patterns and _has_pattern(schema):
        return None
    try:
        return _compile(schema)
    except (_Unsupported, RecursionError):
        return None


def _has_pattern(schema: Any) -> bool:
    """Return whether a schema may contain a pattern; a property of that name counts, too."""
    # Not recursive, because an untrusted schema may be nested deeper than Python's stack.
    pending = [schema]
    while pending:
        each = pending.pop()
        if isinstance(each, Mapping):
            if isinstance(each.get("pattern"), str):
                return True
            pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)
    return False


def _accept(value: Any) -> bool:
    return True


def _refuse(value: Any) -> bool:
    return False


def _compile(schema: Any) -> Check:
    if schema is True:
        return _accept
    if not isinstance(schema, Mapping):
        raise _Unsupported
    checks = []
    for keyword, content in schema.items():
        # These three keywords depend on other keywords, and are compiled below.
        if keyword in _ANNOTATIONS or keyword in ("properties", "required", "items"):
            continue
        compiler = _COMPILERS.get(keyword)
        if compiler is None:
            raise _Unsupported
        checks.append(compiler(content, schema))
    if {"properties", "required"} & schema.keys() and "additionalProperties" not in schema:
        checks.append(_compile_object(True, schema))
    if "items" in schema and "prefixItems" not in schema:
        checks.append(_compile_items(schema["items"]))
    return _join(checks)


def _join(checks: list[Check]) -> Check:
    if not checks:
        return _accept
    if len(checks) == 1:
        return checks[0]
    several = tuple(checks)

    def check(value: Any) -> bool:
        for each in several:  # noqa: SIM110  # a generator costs more than most checks
            if not each(value):
                return False
        return True

    return check


_CLASSES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}


def _compile_type(content: Any, schema: Mapping[str, Any]) -> Check:
    names = content if isinstance(content, list) else [content]
    if not names or not all(isinstance(name, str) and name in _CLASSES for name in names):
        raise _Unsupported
    # Compare classes, because isinstance accepts True as an int, which JSON does not.
    classes = frozenset(kind for name in names for kind in _CLASSES[name])
    integers_only = "integer" in names and "number" not in names
    if not integers_only:
        return lambda value: value.__class__ in classes
    return lambda value: (
        value.__class__ in classes or (value.__class__ is float and value.is_integer())
    )


def _compile_enum(content: Any, schema: Mapping[str, Any]) -> Check:
    if not isinstance(content, list) or not all(
        isinstance(word, str) or word is None for word in content
    ):
        raise _Unsupported  # 1, 1.0 and True are equal in Python; in JSON, True is not a number
    words = frozenset(content)
    return lambda value: value.__class__ in (str, type(None)) and value in words


def _compile_object(content: Any, schema: Mapping[str, Any]) -> Check:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        raise _Unsupported
    if not all(isinstance(name, str) for name in required):
        raise _Unsupported
    members = {name: _compile(member) for name, member in properties.items()}
    others = None if content is False else _compile(content)
    required_names = tuple(required)

    def check(value: Any) -> bool:
        if value.__class__ is not dict:
            # The keyword ignores other types; jsonschema decides about unusual mappings.
            return not isinstance(value, Mapping)
        for name in required_names:
            if name not in value:
                return False
        for name, each in value.items():
            member = members.get(name, others)
            if member is None or not member(each):
                return False
        return True

    return check


def _compile_items(content: Any, prefix: tuple[Check, ...] = ()) -> Check:
    each: Check = _refuse if content is False else _compile(content)
    start = len(prefix)

    def check(value: Any) -> bool:
        if value.__class__ is not list:
            # The keyword ignores values that are not arrays.
            return not isinstance(value, (list, tuple))
        for member, item in zip(prefix, value, strict=False):
            if not member(item):
                return False
        for item in value[start:] if start else value:  # noqa: SIM110
            if not each(item):
                return False
        return True

    return check


def _compile_prefix(content: Any, schema: Mapping[str, Any]) -> Check:
    if not isinstance(content, list):
        raise _Unsupported
    return _compile_items(schema.get("items", True), tuple(map(_compile, content)))


def _compile_alternatives(content: Any, schema: Mapping[str, Any]) -> Check:
    if not isinstance(content, list) or not content:
        raise _Unsupported
    alternatives = tuple(map(_compile, content))

    def check(value: Any) -> bool:
        for alternative in alternatives:  # noqa: SIM110
            if alternative(value):
                return True
        return False

    return check


def _compile_all(content: Any, schema: Mapping[str, Any]) -> Check:
    if not isinstance(content, list) or not content:
        raise _Unsupported
    return _join([_compile(each) for each in content])


def _compile_pattern(content: Any, schema: Mapping[str, Any]) -> Check:
    try:
        # Search anywhere in the text, because patterns of JSON Schema are not anchored.
        search = re.compile(content).search
    except (re.error, TypeError) as error:
        raise _Unsupported from error
    return lambda value: not isinstance(value, str) or search(value) is not None


def _compile_limit(kind: type | tuple[type, ...], holds: Callable[[Any, Any], bool]) -> Any:
    """Create the compiler of a keyword that limits values of one type by a number."""

    def compile_limit(content: Any, schema: Mapping[str, Any]) -> Check:
        # Python would also compare with True, which is not a number in JSON.
        if content.__class__ not in (int, float):
            raise _Unsupported
        return lambda value: not isinstance(value, kind) or holds(value, content)

    return compile_limit


_NUMBER: Final = (int, float)
_COMPILERS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Check]]] = {
    "type": _compile_type,
    "enum": _compile_enum,
    "const": lambda content, schema: _compile_enum([content], schema),
    "additionalProperties": _compile_object,
    "prefixItems": _compile_prefix,
    "anyOf": _compile_alternatives,
    "allOf": _compile_all,
    "pattern": _compile_pattern,
    "minimum": _compile_limit(_NUMBER, lambda value, limit: value >= limit),
    "maximum": _compile_limit(_NUMBER, lambda value, limit: value <= limit),
    "exclusiveMinimum": _compile_limit(_NUMBER, lambda value, limit: value > limit),
    "exclusiveMaximum": _compile_limit(_NUMBER, lambda value, limit: value < limit),
    "minLength": _compile_limit(str, lambda value, limit: len(value) >= limit),
    "maxLength": _compile_limit(str, lambda value, limit: len(value) <= limit),
    "minItems": _compile_limit(list, lambda value, limit: len(value) >= limit),
    "maxItems": _compile_limit(list, lambda value, limit: len(value) <= limit),
    "minProperties": _compile_limit(dict, lambda value, limit: len(value) >= limit),
    "maxProperties": _compile_limit(dict, lambda value, limit: len(value) <= limit),
}
