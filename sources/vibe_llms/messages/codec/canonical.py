"""What JSON can say: one way to write plain data, so that what is equal is written alike."""

from __future__ import annotations

from typing import Any

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
    except (RecursionError, OverflowError, TypeError, ValueError) as error:
        if isinstance(error, UnicodeEncodeError):
            canonicalize(value)  # which says where the text is that nobody can write
        raise CodecError(detail=f"This cannot be written as JSON: {error}") from error
