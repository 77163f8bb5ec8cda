"""Reads what a client has sent as JSON; what is wrong with it is told in words about it alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from vibe_llms.daemons.asgi import HttpCall, refuse_body, refuse_compressed
from vibe_llms.dialects.decoding import mend_escapes
from vibe_llms.exceptions import LimitError, RequestError, Stage
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.portal import perform_apart

_T = TypeVar("_T")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])

LARGE_BYTES: Final = 65_536
"""From here a body is read, and what it asks translated, beside the event loop."""

_PIECE_BYTES: Final = 262_144

_PACKED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""How what gzip and zstd have packed begins."""


def read_head(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    """Reads what a decoder finds in a request. Raises RequestError."""
    try:
        if not body.isascii():
            body.decode()  # as what is skipped in the next line is not looked at
        return decode_mended(decoder.decode, body)
    except UNREADABLE as error:
        raise _refuse("The body is no request", error, body) from None


def decode_body(body: bytes) -> dict[str, Any]:
    """Reads a body as a JSON object. Raises RequestError."""
    try:
        return decode_mended(_OBJECT.decode, body)
    except UNREADABLE as error:
        raise _refuse("The body is no JSON object", error, body) from None


def decode_mended(decode: Callable[[bytes], _T], body: bytes) -> _T:
    """Decode JSON; half a character, which no text can hold, is read as U+FFFD."""
    try:
        return decode(body)
    except msgspec.DecodeError:
        mended = mend_escapes(body)
        if mended == body:
            raise
        return decode(mended)


def replace_field(body: bytes, name: str, value: str) -> bytes:
    """Return a JSON object with another value of a field, and each other as it was written."""
    try:
        fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:  # half a character, which Python's own can read and write
        import json

        return json.dumps({**json.loads(body), name: value}).encode()
    fields[name] = value
    return msgspec.json.encode(fields)


def _refuse(what: str, error: Exception, body: bytes) -> RequestError:
    """Produce the error of a body that cannot be read."""
    if body.startswith(_PACKED):
        return refuse_compressed()
    return refuse_body(f"{what}: {_explain(error, body)}.")


async def perform_sized(body: bytes, work: Callable[[], _T]) -> _T:
    """Perform what is to be done with a body, of a large one beside the event loop."""
    return work() if len(body) < LARGE_BYTES else await perform_apart(work)


async def read_json_body(call: HttpCall) -> bytes:
    """Return the body of a request, which is JSON.

    Raises:
        LimitError: It is longer, or has more values, than may be.
        ClientGone: The client has left.
    """
    body = await call.read_body()
    if len(body) > 2 * call.most_values:  # each takes two bytes, with what stands beside it
        with call.heeding():
            await _bound_values(body, call.most_values)
    return body


async def _bound_values(body: bytes, most: int) -> None:
    """Refuse a body with too many values; others are served between its pieces."""
    count, start, is_within = 1, 0, 0
    while start < len(body):
        piece = body[start : start + _PIECE_BYTES]
        start += len(piece)
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and start < len(body):
            piece, start = piece[:-1], start - 1  # what it escapes comes with the next
        texts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        besides = b"".join(texts[is_within::2])
        is_within ^= not len(texts) % 2
        count += besides.count(b",") + besides.count(b"[") + besides.count(b"{")
        if count > most:
            raise refuse_count("request_values", most, f"more than {most:,} values")
        await asyncio.sleep(0)


def refuse_count(limit: str, most: int, found: str) -> LimitError:
    """Produce the error of a request that has too many of something.

    Args:
        found: How many it has, and of what.
    """
    return LimitError(
        detail=f"The request has {found}; {limit} = {most:,} allows no more.",
        remedy=f"Send fewer, or have {limit} raised in [limits] where this is served.",
        limit=limit,
        value=most,
        stage=Stage.FRAME,
    )


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
