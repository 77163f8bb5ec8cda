"""OpenAI's requirements for strict schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.testing.simulator.refusals import SimulatedRefusal


def check_strict_schema(schema: Any, subject: str, param: str) -> None:
    """Refuse a schema whose objects are open, or have optional properties.

    Args:
        schema: The JSON schema.
        subject: The owner of the schema, as the error message names it.
        param: The place of the schema in the request.
    """
    for context, part in _walk(schema, ()):
        if part.get("type") != "object" and "properties" not in part:
            continue
        required = part.get("required") or []
        missing = [name for name in part.get("properties") or {} if name not in required]
        problem = ""
        if part.get("additionalProperties") is not False:
            problem = "'additionalProperties' is required to be supplied and to be false."
        elif missing:
            problem = (
                "'required' is required to be supplied and to be an array including every key in "
                f"properties. Missing '{missing[0]}'."
            )
        if problem:
            raise SimulatedRefusal(
                400,
                "invalid",
                f"Invalid schema for {subject}: In context={context!r}, {problem}",
                param=param,
                code="invalid_function_parameters" if "function" in subject else None,
            )


def _walk(schema: Any, context: tuple[str, ...]) -> Any:
    """Yield a schema and all nested schemas, each with its path."""
    if not isinstance(schema, Mapping):
        return
    yield context, schema
    for group in ("properties", "$defs", "definitions"):
        for name, part in (schema.get(group) or {}).items():
            yield from _walk(part, (*context, group, name))
    for union in ("anyOf", "oneOf", "allOf"):
        for index, part in enumerate(schema.get(union) or ()):
            yield from _walk(part, (*context, union, str(index)))
    if "items" in schema:
        yield from _walk(schema["items"], (*context, "items"))
