"""What JSON can say: one way to write plain data, so that what is equal is written alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from vibe_llms.exceptions import CodecError

_SMALLEST, _BEYOND = -(2**63), 2**64
"""Of integers, what a reader does not have to turn into an inexact float."""


def canonicalize(value: Any, path: str = "$") -> Any:
    """Returns plain data with keys in order, lists for tuples, and whole numbers as integers.

    Python holds ``1``, ``1.0`` and ``True`` for equal; the first two are written alike, the
    third is not: it means something else to whoever reads it.

    Raises:
        CodecError: Something in it is beyond JSON: not a number, infinite, or too large an
            integer, a key that is no text, or an object of some class.
    """
    match value:
        case None | bool():
            return value
        case str():
            return str(value)
        case int() if _SMALLEST <= value < _BEYOND:
            return value
        case float() if math.isfinite(value):
            whole = value.is_integer() and _SMALLEST <= value < _BEYOND
            return int(value) if whole else value
        case Mapping():
            return _canonicalize_mapping(value, path)
        case Sequence() if not isinstance(value, (bytes, bytearray)):
            return [canonicalize(each, f"{path}[{i}]") for i, each in enumerate(value)]
    raise CodecError(
        path=path,
        detail=f"JSON cannot say {value!r}",
        remedy="Give text, finite numbers, true, false, null, lists, or objects of these.",
    )


def _canonicalize_mapping(value: Mapping[Any, Any], path: str) -> dict[str, Any]:
    for key in value:
        if not isinstance(key, str):
            raise CodecError(path=path, detail=f"The key {key!r} is not a text")
    return {key: canonicalize(value[key], f"{path}.{key}") for key in sorted(value)}


def explain_unwritable(value: object) -> CodecError:
    """Says which text holds half of a surrogate pair, which no JSON in UTF-8 can carry."""
    return CodecError(
        path=_locate_surrogate(value, "$") or "$",
        detail="The text holds half of a surrogate pair, which UTF-8 cannot carry",
        remedy="Decode it with errors='replace' before it becomes a message.",
    )


def _locate_surrogate(value: object, path: str) -> str | None:
    members: list[tuple[str, Any]] = []
    if isinstance(value, str):
        return path if any("\ud800" <= letter <= "\udfff" for letter in value) else None
    if attrs.has(type(value)):
        fields = attrs.fields(cast(type[Any], type(value)))
        members = [(f".{field.name}", getattr(value, field.name)) for field in fields]
    elif isinstance(value, Mapping):
        members = [(f".{key!a}", part) for key in value for part in (key, value[key])]
    elif isinstance(value, (list, tuple)):
        members = [(f"[{index}]", part) for index, part in enumerate(value)]
    found = (_locate_surrogate(part, path + place) for place, part in members)
    return next((place for place in found if place), None)
