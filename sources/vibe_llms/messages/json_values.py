"""Plain data in messages: copied, validated and normalized when a message is made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject, is_encodable

DEPTH_LIMIT = 100
"""Maximum nesting of plain data; vendors accept a tenth of it. Also stops circular data."""

_MINIMUM, _BEYOND = -(2**63), 2**64
"""Range of integers that readers of JSON need not turn into an inexact float."""

_REMEDY = "Give text, finite numbers, true, false, null, lists, or objects of these."


def copy_plain(value: Any, path: str, *, keeps_order: bool, depth: int = 0) -> Any:
    """Return a copy of plain data: lists for tuples, whole numbers as integers.

    In Python ``1``, ``1.0`` and ``True`` are equal. The first two become the same integer; ``True``
    stays, as it has another meaning in JSON.

    Args:
        value: Data that the caller may change later.
        path: Path of the value, for errors.
        keeps_order: Keep the order of keys; otherwise sort them.
        depth: Depth of the value.

    Raises:
        RequestError: JSON cannot represent a value: NaN, infinity, an integer that is too large,
            a key that is not a text, an object of another class; or the data nest too deeply.
    """
    if depth == 0 and (copied := _copy_common(value, DEPTH_LIMIT, keeps_order)) is not None:
        return copied
    if depth > DEPTH_LIMIT:
        detail = f"The data nest deeper than {DEPTH_LIMIT} levels."
        raise RequestError(path=path, detail=detail, remedy="Flatten them, or remove the cycle.")
    match value:
        # Before numbers, as True is an int in Python.
        case None | bool():
            return value
        case str():
            return _copy_text(value, path)
        case int() if _MINIMUM <= value < _BEYOND:
            return int(value)  # a subclass becomes a plain str
        case float() if math.isfinite(value):
            # In JSON `1.0` and `1` are the same number, so write them alike.
            whole = value.is_integer() and _MINIMUM <= value < _BEYOND
            return int(value) if whole else float(value)
        case Mapping():
            return _copy_mapping(value, path, keeps_order, depth)
        case Sequence() if not isinstance(value, (bytes, bytearray, memoryview)):
            return [
                copy_plain(each, f"{path}[{index}]", keeps_order=keeps_order, depth=depth + 1)
                for index, each in enumerate(value)
            ]
    if isinstance(value, int):
        detail = "An integer exceeds 64 bits, which many readers of JSON cannot represent exactly."
        raise RequestError(path=path, detail=detail, remedy="Give a smaller one, or a text.")
    shown = repr(value) if isinstance(value, float) else f"a value of type {type(value).__name__}"
    raise RequestError(path=path, detail=f"JSON cannot represent {shown}.", remedy=_REMEDY)


def _copy_text(value: str, path: str) -> str:
    if is_encodable(value):
        return str.__str__(value)
    detail = f"A text has a lone surrogate, which cannot be encoded as UTF-8: {value!r}."
    raise RequestError(path=path, detail=detail, remedy="Remove or replace it.")


def _copy_mapping(
    value: Mapping[Any, Any], path: str, keeps_order: bool, depth: int
) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            detail = f"The key {key!r} is not a text."
            raise RequestError(path=path, detail=detail, remedy="Use texts as keys.")
    return {
        _copy_text(key, path): copy_plain(
            value[key], f"{path}.{key}", keeps_order=keeps_order, depth=depth + 1
        )
        for key in (value if keeps_order else sorted(value))
    }


def ensure_controls(controls: JsonObject) -> JsonObject:
    """Copy controls and sort their keys, as the order has no meaning. Raises RequestError."""
    if controls.__class__ is dict and not controls:  # most requests have none
        return {}
    return _copy_object(controls, "controls", keeps_order=False)


def ensure_schema(schema: JsonObject | None) -> JsonObject | None:
    """Copy a JSON Schema, and keep the order of its keys. Raises RequestError."""
    return None if schema is None else _copy_object(schema, "schema", keeps_order=True)


def _copy_object(value: object, path: str, *, keeps_order: bool) -> JsonObject:
    if type(value) is not dict and not isinstance(value, Mapping):
        detail = f"{path} needs an object, not {type(value).__name__}."
        raise RequestError(path=path, detail=detail, remedy="Give a dict.")
    copied: JsonObject = copy_plain(value, path, keeps_order=keeps_order)
    return copied


def _copy_common(value: Any, depth: int, keeps_order: bool) -> Any:
    """Fast path: copy plain data of the common types; ``None`` for anything else.

    :func:`copy_plain` composes a path for each value, which only its errors need. That is slow
    where a thousand schemas of tools are copied at once.

    Args:
        value: An object or a list.
        depth: How much deeper the data may nest.
    """
    is_object = type(value) is dict
    if depth < 0 or not (is_object or type(value) is list):
        return None
    if is_object and not keeps_order and len(value) > 1:
        if not all(type(key) is str for key in value):
            return None
        value = {key: value[key] for key in sorted(value)}
    copied: dict[Any, Any] = {}
    for key, each in value.items() if is_object else enumerate(value):
        if is_object and (type(key) is not str or not (key.isascii() or is_encodable(key))):
            return None
        kind = type(each)
        if kind is str:
            if not (each.isascii() or is_encodable(each)):
                return None
        elif kind is dict or kind is list:
            each = _copy_common(each, depth - 1, keeps_order)
            if each is None:
                return None
        elif kind is int:
            if not _MINIMUM <= each < _BEYOND:
                return None
        elif kind is float:
            if not math.isfinite(each) or each.is_integer():
                return None
        elif each is not None and kind is not bool:
            return None
        copied[key] = each
    return copied if is_object else list(copied.values())


def write_plain(value: Any) -> str:
    """Return the text that identifies equal copies of data.

    Dictionaries are equal independently of the order of their keys, and ``True`` equals ``1``.
    """
    import json  # needed to compare requests only

    return json.dumps(value)
