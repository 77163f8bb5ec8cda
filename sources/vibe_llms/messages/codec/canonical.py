"""Canonical JSON: equal data give equal bytes."""

from __future__ import annotations

from typing import Any

import msgspec

from vibe_llms.exceptions import CodecError, RequestError
from vibe_llms.messages.json_values import copy_plain


def canonicalize(value: Any, path: str = "$", *, keeps_order: bool = False) -> Any:
    """Return plain data with sorted keys, lists for tuples, and whole numbers as integers.

    Args:
        value: The data.
        path: Path of the value, for errors.
        keeps_order: Keep the order of keys, where it has a meaning.

    Raises:
        CodecError: JSON cannot represent a value, or the data nest too deeply.
    """
    try:
        return copy_plain(value, path, keeps_order=keeps_order)
    except RequestError as error:
        raise CodecError(path=error.path, detail=error.detail, remedy=error.remedy) from error


def encode_document(value: Any) -> bytes:
    """Return plain data, or values that msgspec encodes itself, as one JSON document.

    Raises:
        CodecError: They cannot be encoded; for an invalid text, the error names its path.
    """
    try:
        return msgspec.json.encode(value)
    except (RecursionError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, UnicodeEncodeError):
            canonicalize(value)  # raises with the path of the invalid text
        raise CodecError(detail=f"This cannot be written as JSON: {error}") from error
