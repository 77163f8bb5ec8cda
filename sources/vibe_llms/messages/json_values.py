"""Plain data within messages: copied, checked, and brought to one form when they are given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject, is_whole

DEPTH_LIMIT = 100
"""How deeply plain data may nest; vendors take a tenth of it. Ends rings, too."""

_SMALLEST, _BEYOND = -(2**63), 2**64
"""Of integers, what a reader does not have to turn into an inexact float."""

_REMEDY = "Give text, finite numbers, true, false, null, lists, or objects of these."


def copy_plain(value: Any, path: str, *, keeps_order: bool, depth: int = 0) -> Any:
    """Returns plain data of its own: lists for tuples, whole numbers as integers.

    Python holds ``1``, ``1.0`` and ``True`` for equal; the first two are made alike, the
    third is not: it means something else to whoever reads it.

    Args:
        value: What may be shared with the caller, who may go on to change it.
        path: Of the value, for errors.
        keeps_order: Keys stay in the order in which they are given; else they are sorted.
        depth: How deep the value lies already.

    Raises:
        RequestError: Something in it is beyond JSON: not a number, infinite, or too large an
            integer, a key that is no text, an object of some class, or it nests too deeply.
    """
    if depth > DEPTH_LIMIT:
        detail = f"The data nest deeper than {DEPTH_LIMIT} levels."
        raise RequestError(path=path, detail=detail, remedy="Flatten them, or break their ring.")
    match value:
        # Before numbers: to Python, True is one.
        case None | bool():
            return value
        case str():
            return _copy_text(value, path)
        case int() if _SMALLEST <= value < _BEYOND:
            return int(value)  # a subclass becomes plain
        case float() if math.isfinite(value):
            # To JSON `1.0` and `1` are the same number, so that they are written alike.
            whole = value.is_integer() and _SMALLEST <= value < _BEYOND
            return int(value) if whole else float(value)
        case Mapping():
            return _copy_mapping(value, path, keeps_order, depth)
        case Sequence() if not isinstance(value, (bytes, bytearray, memoryview)):
            return [
                copy_plain(each, f"{path}[{index}]", keeps_order=keeps_order, depth=depth + 1)
                for index, each in enumerate(value)
            ]
    if isinstance(value, int):
        detail = "A whole number is beyond 64 bits, which readers of JSON make another number of."
        raise RequestError(path=path, detail=detail, remedy="Give a smaller one, or a text.")
    shown = repr(value) if isinstance(value, float) else f"a value of type {type(value).__name__}"
    raise RequestError(path=path, detail=f"JSON cannot say {shown}.", remedy=_REMEDY)


def _copy_text(value: str, path: str) -> str:
    if is_whole(value):
        return str.__str__(value)
    detail = f"A text holds half of a surrogate pair, which JSON in UTF-8 cannot carry: {value!r}."
    raise RequestError(path=path, detail=detail, remedy="Leave it out, or replace it.")


def _copy_mapping(
    value: Mapping[Any, Any], path: str, keeps_order: bool, depth: int
) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            detail = f"The key {key!r} is not a text."
            raise RequestError(path=path, detail=detail, remedy="Give objects with texts as keys.")
    return {
        _copy_text(key, path): copy_plain(
            value[key], f"{path}.{key}", keeps_order=keeps_order, depth=depth + 1
        )
        for key in (value if keeps_order else sorted(value))
    }


def ensure_controls(given: JsonObject) -> JsonObject:
    """Copies control values, keys in order: it means nothing. Raises RequestError."""
    if given.__class__ is dict and not given:  # as of most requests
        return {}
    return _copy_object(given, "controls", keeps_order=False)


def ensure_schema(given: JsonObject | None) -> JsonObject | None:
    """Copies a JSON Schema, its keys as they stand. Raises RequestError."""
    return None if given is None else _copy_object(given, "schema", keeps_order=True)


def _copy_object(given: object, path: str, *, keeps_order: bool) -> JsonObject:
    if not isinstance(given, Mapping):
        detail = f"{path} needs an object, not {type(given).__name__}."
        raise RequestError(path=path, detail=detail, remedy="Give a dict.")
    copied: JsonObject = copy_plain(given, path, keeps_order=keeps_order)
    return copied


def write_plain(value: Any) -> str:
    """Returns the text by which copied data are compared.

    Dictionaries would be equal whatever their order, and ``True`` would equal ``1``.
    """
    import json  # whoever compares no requests need not load it

    return json.dumps(value)
