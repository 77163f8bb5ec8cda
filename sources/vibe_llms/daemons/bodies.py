"""Read JSON bodies of clients, with errors that describe the body alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from vibe_llms.daemons.asgi import HttpCall, refuse_body, refuse_compressed
from vibe_llms.dialects.decoding import repair_surrogates
from vibe_llms.exceptions import LimitError, RequestError, Stage
from vibe_llms.foundation.forms import FormField
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.portal import run_outside_loop

_T = TypeVar("_T")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])

LARGE_BYTES: Final = 65_536
"""From this size on, bodies are read and translated in a worker thread."""

_PIECE_BYTES: Final = 262_144

_COMPRESSED: Final = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
"""Magic numbers of gzip and zstd."""


def read_head(decoder: msgspec.json.Decoder[_T], body: bytes) -> _T:
    """Decode selected fields of a request. Raises RequestError."""
    try:
        if not body.isascii():
            body.decode()  # msgspec does not check the values that it skips
        try:
            return decoder.decode(body)
        except msgspec.DecodeError:
            return decode_lenient(decoder.decode, body)
    except UNREADABLE as error:
        raise _refuse("Invalid request", error, body) from None


def decode_body(body: bytes) -> dict[str, Any]:
    """Decode a body as a JSON object. Raises RequestError."""
    try:
        return decode_lenient(_OBJECT.decode, body)
    except UNREADABLE as error:
        raise _refuse("The body is not a JSON object", error, body) from None


def decode_if_valid(body: bytes) -> dict[str, Any] | None:
    """Decode a body as a JSON object; return ``None`` if it is invalid or has lone surrogates."""
    try:
        return _OBJECT.decode(body)
    except UNREADABLE:
        return None


def decode_form_fields(fields: Sequence[FormField]) -> dict[str, Any]:
    """Return the fields of a form by name.

    Repeated fields, and those whose name ends with ``[]``, are lists.
    """
    native: dict[str, Any] = {}
    for name, value in fields:
        plain = name.removesuffix("[]")
        if plain not in native:
            native[plain] = [value] if plain != name else value
        elif isinstance(native[plain], list):
            native[plain].append(value)
        else:
            native[plain] = [native[plain], value]
    return native


def decode_reporting_repair(body: bytes) -> tuple[dict[str, Any], bool]:
    """Decode a body as :func:`decode_body`; also return whether lone surrogates were replaced."""
    try:
        return _OBJECT.decode(body), False
    except UNREADABLE:
        return decode_body(body), True  # raises an error unless surrogates were the reason


def decode_lenient(decode: Callable[[bytes], _T], body: bytes) -> _T:
    """Decode JSON; replace lone surrogates, which UTF-8 cannot represent, with U+FFFD."""
    try:
        return decode(body)
    except msgspec.DecodeError:
        body.decode()  # since msgspec 0.23, its error does not say where the body is invalid
        repaired = repair_surrogates(body)
        if repaired == body:
            raise
        return decode(repaired)


_FIELDS: Final[msgspec.json.Decoder[dict[str, Any]]] = msgspec.json.Decoder(dict[str, msgspec.Raw])


def replace_field(body: bytes, name: str, value: str) -> bytes:
    """Return a JSON object with a new value for one field; all other fields keep their bytes."""
    try:
        fields = _FIELDS.decode(body)
    except msgspec.DecodeError:  # a lone surrogate, which only the standard library accepts
        import json

        return json.dumps({**json.loads(body), name: value}).encode()
    fields[name] = value
    return msgspec.json.encode(fields)


def _refuse(problem: str, error: Exception, body: bytes) -> RequestError:
    """Return the error for an unreadable body."""
    if body.startswith(_COMPRESSED):
        return refuse_compressed()
    return refuse_body(f"{problem}: {_explain(error, body)}.")


async def perform_sized(body: bytes, work: Callable[[], _T]) -> _T:
    """Do work on a body; use a worker thread for a large one."""
    return work() if len(body) < LARGE_BYTES else await run_outside_loop(work)


async def read_json_body(call: HttpCall) -> bytes:
    """Return a JSON body.

    Raises:
        LimitError: The body is too long, or has too many values.
        ClientGone: The client disconnected.
    """
    body = await call.read_body()
    if may_have_many_values(call, body):
        await ensure_few_values(call, body)
    return body


def may_have_many_values(call: HttpCall, body: bytes) -> bool:
    """Return whether a body may have too many values: each takes two bytes with its separator."""
    return len(body) > 2 * call.value_limit


async def ensure_few_values(call: HttpCall, body: bytes) -> None:
    """Refuse a body with too many values. Raises LimitError."""
    with call.cancelling_on_disconnect():
        await _ensure_few_values(body, call.value_limit)


async def _ensure_few_values(body: bytes, limit: int) -> None:
    """Count the values of a body by their separators; yield to other requests between pieces."""
    count, start = 1, 0
    is_in_string = False  # whether the piece begins within a string
    while start < len(body):
        piece = body[start : start + _PIECE_BYTES]
        start += len(piece)
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2 and start < len(body):
            piece, start = piece[:-1], start - 1  # keep an escape with the character after it
        # Without escapes, each quote begins or ends a string: every other part is outside of them.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        syntax = b"".join(parts[1::2] if is_in_string else parts[::2])
        quotes = len(parts) - 1
        if quotes % 2:
            is_in_string = not is_in_string
        count += syntax.count(b",") + syntax.count(b"[") + syntax.count(b"{")
        if count > limit:
            raise refuse_count("request_values", limit, f"more than {limit:,} values")
        await asyncio.sleep(0)


def refuse_count(limit: str, maximum: int, found: str) -> LimitError:
    """Return the error for a request with too many values, tools or other parts.

    Args:
        limit: Name of the limit.
        maximum: Its value.
        found: The number and kind of parts in the request, such as ``3,000 tools``.
    """
    return LimitError(
        detail=f"The request has {found}; the limit is {limit} = {maximum:,}.",
        remedy=f"Send fewer, or raise {limit} in [limits] of the server's file.",
        limit=limit,
        value=maximum,
        stage=Stage.FRAME,
    )


def _explain(error: Exception, body: bytes) -> str:
    """Describe why a body cannot be decoded."""
    match error:
        case UnicodeDecodeError():
            return f"it is not UTF-8 (byte {_find_invalid_byte(body)})"
        case RecursionError():
            return "it nests too deeply"
        case _:
            return str(error)


def _find_invalid_byte(body: bytes) -> int:
    """Return the offset of the first invalid byte; msgspec counts from the start of a string."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return error.start
    return len(body)
