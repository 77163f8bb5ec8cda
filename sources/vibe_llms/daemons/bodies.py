"""Reads what a client has sent as JSON; what is wrong with it is told in words about it alone."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from vibe_llms.daemons.asgi import refuse_body, refuse_compressed
from vibe_llms.exceptions import RequestError
from vibe_llms.unreadable import UNREADABLE

_T = TypeVar("_T")

_PACKED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How what gzip and zstd have packed begins."""


def read_head(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    """Reads what a decoder finds in a request. Raises RequestError."""
    try:
        if not body.isascii():
            body.decode()  # as what is skipped in the next line is not looked at
        return decoder.decode(body)
    except UNREADABLE as error:
        raise _refuse("The body is no request", error, body) from None


def decode_body(body: bytes) -> dict[str, Any]:
    """Reads a body as a JSON object. Raises RequestError."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except UNREADABLE as error:
        raise _refuse("The body is no JSON object", error, body) from None


def _refuse(what: str, error: Exception, body: bytes) -> RequestError:
    """Produce the error of a body that cannot be read."""
    if body.startswith(_PACKED):
        return refuse_compressed()
    return refuse_body(f"{what}: {_explain(error, body)}.")


def _explain(error: Exception, body: bytes) -> str:
    """Says what is wrong with a body that cannot be read, in words that are about it."""
    match error:
        case UnicodeDecodeError():
            return f"it is not in UTF-8 (byte {_find_break(body)})"
        case RecursionError():
            return "it is nested too deeply"
        case _:
            return str(error)


def _find_break(body: bytes) -> int:
    """Returns where a body ceases to be UTF-8; msgspec counts from where a text in it begins."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(body)
