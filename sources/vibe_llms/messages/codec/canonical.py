"""What JSON can say: one way to write plain data, so that what is equal is written alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs
import msgspec

from vibe_llms.exceptions import CodecError, RequestError
from vibe_llms.messages.json_values import copy_plain


def canonicalize(value: Any, path: str = "$", *, keeps_order: bool = False) -> Any:
    """Returns plain data with keys in order, lists for tuples, and whole numbers as integers.

    Args:
        value: What is to be written.
        path: Of the value, for errors.
        keeps_order: Keys stay as they stand, where their order has a meaning.

    Raises:
        CodecError: Something in it is beyond JSON, or it nests too deeply.
    """
    try:
        return copy_plain(value, path, keeps_order=keeps_order)
    except RequestError as error:
        raise CodecError(path=error.path, detail=error.detail, remedy=error.remedy) from error


def encode_document(value: Any) -> bytes:
    """Returns plain data, or values that msgspec writes itself, as one JSON document.

    Raises:
        CodecError: It cannot be written; names the place where a text is to blame.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError as error:
        raise explain_unwritable(value) from error
    except (RecursionError, OverflowError, TypeError, ValueError) as error:
        raise CodecError(detail=f"This cannot be written as JSON: {error}") from error


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
        members = [
            (f".{key}" if key.isascii() and key.isidentifier() else f".{key!a}", part)
            for key in value
            for part in (key, value[key])
        ]
    elif isinstance(value, (list, tuple)):
        members = [(f"[{index}]", part) for index, part in enumerate(value)]
    found = (_locate_surrogate(part, path + place) for place, part in members)
    return next((place for place in found if place), None)
