"""Faults that jsonschema finds, in words for a model: place, violated rule, actual value."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import SchemaError, ValidationError

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.suggestions import find_nearest, suggest_among
from vibe_llms.invocables.argument_faults import (
    FAULTS_LIMIT,
    ArgumentFault,
    refuse_schema,
    shorten,
    show_value,
)
from vibe_llms.tables.paths import write_path


def produce_schema_validator(schema: JsonObject, name: str = "") -> Any:
    """Create jsonschema's validator, for the draft that the schema names, or for 2020-12.

    External schemas are not fetched: a schema that refers to one is refused when it is applied.

    Args:
        name: Owner of the schema, for errors.

    Raises:
        RequestError: The schema is invalid.
    """
    try:
        validator = validators.validator_for(schema, default=Draft202012Validator)
        validator.check_schema(dict(schema))
    except (SchemaError, TypeError, RecursionError) as error:
        reason = error.message if isinstance(error, SchemaError) else str(error)
        raise refuse_schema(name, f"invalid JSON Schema: {shorten(reason)}.") from error
    # With a registry, it does not look up missing schemas in the network.
    registry = vars(validators)["SPECIFICATIONS"]
    return validator(schema, registry=registry)


def find_faults(validator: Any, arguments: Any, name: str = "") -> tuple[ArgumentFault, ...]:
    """Return the faults of arguments, at most ``FAULTS_LIMIT``.

    Args:
        name: Owner of the schema, for errors.

    Raises:
        RequestError: The schema cannot be applied.
    """
    try:
        errors = list(itertools.islice(validator.iter_errors(arguments), FAULTS_LIMIT))
    except RecursionError:
        return (ArgumentFault(path="arguments", rule="nest too deeply"),)
    # The schema alone is not at fault; the validating process reports this with another message.
    except MemoryError:
        raise
    except Exception as error:  # a dangling reference, an invalid pattern
        raise refuse_schema(name, f"{shorten(str(error))}.") from error
    faults = itertools.chain.from_iterable(map(_explain, errors))
    return tuple(itertools.islice(dict.fromkeys(faults), FAULTS_LIMIT))


def _explain(error: ValidationError) -> Iterator[ArgumentFault]:
    path = write_path(("arguments", *error.absolute_path))
    keyword = error.validator
    if keyword == "required":
        yield from _explain_required(error, path)
    elif keyword in ("additionalProperties", "unevaluatedProperties"):
        yield from _explain_unknown(error, path)
    elif keyword in ("anyOf", "oneOf") and error.context:
        yield from _explain_alternatives(error, path)
    else:
        yield ArgumentFault(path=path, rule=_compose_rule(error))


def _explain_required(error: ValidationError, path: str) -> Iterator[ArgumentFault]:
    # jsonschema names the missing member only in its message, so this function finds all missing
    # members.
    members: Any = error.instance
    known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
    unknown = [name for name in members if name not in known]
    required: Any = error.validator_value
    for name in required:
        if name not in members:
            near = find_nearest(name, unknown)
            hint = f"; {near!r} was given, which is unknown" if near else ""
            yield ArgumentFault(path=f"{path}.{name}", rule=f"is required{hint}")


def _explain_unknown(error: ValidationError, path: str) -> Iterator[ArgumentFault]:
    schema: Any = error.schema
    known = list(schema.get("properties", {}))
    members: Any = error.instance
    unknown = [name for name in members if name not in known]
    if error.validator_value is not False or schema.get("patternProperties") or not unknown:
        yield ArgumentFault(path=path, rule=shorten(error.message))
        return
    for name in unknown:
        hint = suggest_among(name, known) if known else "; no members are allowed here"
        yield ArgumentFault(path=f"{path}.{name}", rule=f"is not known{hint}")


def _explain_alternatives(error: ValidationError, path: str) -> Iterator[ArgumentFault]:
    """Explain the alternative that matches the value best."""
    branches: dict[Any, list[ValidationError]] = {}
    for each in error.context or ():
        # An alternative that is the schema False has no path.
        branch = each.relative_schema_path[0] if each.relative_schema_path else id(each)
        branches.setdefault(branch, []).append(each)
    if all(_misses_type(errors, error) for errors in branches.values()):
        names = [name for errors in branches.values() for name in _list_types(errors[0])]
        rule = f"must be {_join_types(names)}, not {show_value(error.instance)}"
        yield ArgumentFault(path=path, rule=rule)
        return

    def rate(errors: list[ValidationError]) -> tuple[bool, int, int]:
        depth = max(len(each.absolute_path) for each in errors)
        return _misses_type(errors, error), -depth, len(errors)

    for each in min(branches.values(), key=rate):
        yield from _explain(each)


def _misses_type(errors: list[ValidationError], parent: ValidationError) -> bool:
    """Return whether a value has another type than an alternative requires."""
    return any(
        each.validator == "type" and len(each.absolute_path) == len(parent.absolute_path)
        for each in errors
    )


_TYPES: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "null": "null",
    "array": "an array",
    "object": "an object",
}
_RULES: Final[Mapping[Any, str]] = {
    "const": "must be {}",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be above {}",
    "exclusiveMaximum": "must be below {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "pattern": "must match the pattern {}",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} members",
    "maxProperties": "must have at most {} members",
}


def _list_types(error: ValidationError) -> list[str]:
    value: Any = error.validator_value
    if error.validator != "type":
        return []
    return [value] if isinstance(value, str) else list(value)


def _join_types(names: Iterable[str]) -> str:
    words = [_TYPES.get(name, name) for name in dict.fromkeys(names)]
    return " or ".join(words)


def _compose_rule(error: ValidationError) -> str:
    actual, content = show_value(error.instance), error.validator_value
    keyword: Any = error.validator
    if keyword is None:
        return "must not be given"  # the schema is False
    if keyword == "type":
        return f"must be {_join_types(_list_types(error))}, not {actual}"
    if keyword == "enum" and isinstance(content, list):
        hint = _hint(error.instance, content)
        return f"must be one of {_show_values(content)}, not {actual}{hint}"
    if keyword == "uniqueItems":
        return f"must not have the same item twice: {actual}"
    rule = _RULES.get(keyword)
    return f"{rule.format(show_value(content))}, not {actual}" if rule else shorten(error.message)


def _hint(value: Any, choices: list[Any]) -> str:
    near = find_nearest(value, [choice for choice in choices if isinstance(choice, str)])
    return f"; did you mean {show_value(near)}?" if near is not None else ""


def _show_values(values: list[Any]) -> str:
    shown = ", ".join(map(show_value, values[:20]))
    return shown if len(values) <= 20 else f"{shown} … ({len(values)} in all)"
