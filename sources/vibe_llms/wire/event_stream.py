"""The binary event streams of one cloud, rewritten as server-sent events.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html (the framing)
and what the anthropic package makes of the frames (``lib/bedrock/_stream_decoder.py``).
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib

import msgspec

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.frames import refuse_event

CONTENT_TYPE = "application/vnd.amazon.eventstream"

_PRELUDE = struct.Struct(">III")
_FIXED_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Size in bytes of a header's value, by the number of its type."""

_TEXT, _BYTES = 7, 6
"""The types whose values say themselves how long they are."""


class _Chunk(msgspec.Struct, frozen=True, gc=False):
    bytes: str


class _Typed(msgspec.Struct, frozen=True, gc=False):
    type: str = "completion"


class EventStreamRewriter:
    """Converter from binary event streams to server-sent events.

    An exception in the stream becomes an ``error`` event, as on a stream that is not rewritten.
    """

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.event_bytes
        self._buffer = bytearray()

    @property
    def has_pending(self) -> bool:
        """True in the middle of a message."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> bytes:
        """Return the events that these bytes complete.

        Raises:
            LimitError: A message is longer than ``event_bytes`` allows.
            ConverseError: These are not the bytes of such a stream, or they were damaged.
        """
        self._buffer += data
        events = bytearray()
        while len(self._buffer) >= _PRELUDE.size:
            total, header_size, check = _PRELUDE.unpack_from(self._buffer)
            # Before the length is believed, as a wrong one would be waited for. 16 are the prelude
            # and the check at the end.
            if zlib.crc32(self._buffer[:8]) != check or total < header_size + 16:
                raise _refuse("the check of its length does not hold")
            if total > self._limit:
                raise refuse_event(self._limit)
            if len(self._buffer) < total:
                break
            message = bytes(self._buffer[:total])
            del self._buffer[:total]
            if zlib.crc32(message[:-4]) != int.from_bytes(message[-4:]):
                raise _refuse("its check does not hold")
            end = _PRELUDE.size + header_size
            events += _rewrite(_read_headers(message[_PRELUDE.size : end]), message[end:-4])
        return bytes(events)


def _read_headers(data: bytes) -> dict[str, str]:
    """Return the headers with text; others are not needed."""
    headers: dict[str, str] = {}
    position = 0
    while position < len(data):
        name_end = position + 1 + data[position]
        name = data[position + 1 : name_end].decode("utf-8", "replace")
        kind = data[name_end] if name_end < len(data) else -1
        position = name_end + 1
        if kind in (_TEXT, _BYTES):
            size = int.from_bytes(data[position : position + 2])
            position += 2
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise _refuse("a header is of no known type")
        if position + size > len(data):
            raise _refuse("a header is longer than its place")
        if kind == _TEXT:
            headers[name] = data[position : position + size].decode("utf-8", "replace")
        position += size
    return headers


def _rewrite(headers: dict[str, str], payload: bytes) -> bytes:
    if headers.get(":message-type", "event") != "event":
        return _compose("error", _compose_error(headers, payload))
    if headers.get(":event-type") != "chunk":
        return b""
    try:
        data = base64.b64decode(msgspec.json.decode(payload, type=_Chunk).bytes, validate=True)
    except (msgspec.DecodeError, binascii.Error) as error:
        raise _refuse("the payload of a chunk does not read") from error
    try:
        event = msgspec.json.decode(data, type=_Typed).type
    except msgspec.DecodeError:
        event = "completion"  # as the anthropic package names it
    return _compose(event, data)


def _compose_error(headers: dict[str, str], payload: bytes) -> bytes:
    try:
        told = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        told = None
    message = told.get("message") if isinstance(told, dict) else None
    error = {
        "type": headers.get(":exception-type") or headers.get(":error-code") or "error",
        "message": message or headers.get(":error-message", ""),
    }
    return msgspec.json.encode({"type": "error", "error": error})


def _compose(event: str, data: bytes) -> bytes:
    name = " ".join(event.split())
    lines = b"".join(b"data: " + line + b"\n" for line in data.splitlines() or [b""])
    return b"event: " + name.encode() + b"\n" + lines + b"\n"


def _refuse(reason: str) -> ConverseError:
    return ConverseError(
        detail=f"A message of the binary event stream is damaged: {reason}.",
        stage=Stage.FRAME,
    )
