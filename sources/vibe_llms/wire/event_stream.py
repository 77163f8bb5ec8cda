"""AWS's binary event streams: their messages, as frames or as server-sent events.

Source: https://docs.aws.amazon.com/AmazonS3/latest/API/RESTSelectObjectAppendix.html for the
    framing,
and ``lib/bedrock/_stream_decoder.py`` of the anthropic package for the contents.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping

import msgspec

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.frames import Frame, refuse_event

CONTENT_TYPE = "application/vnd.amazon.eventstream"

_PRELUDE = struct.Struct(">III")
_FIXED_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Size in bytes of header values, by the number of their type."""

_TEXT, _BYTES = 7, 6
"""The types whose values begin with their length."""


class _Chunk(msgspec.Struct, frozen=True, gc=False):
    bytes: str


class _Typed(msgspec.Struct, frozen=True, gc=False):
    type: str = "completion"


class EventStreamReader:
    """Incremental parser of messages from bytes, which may be split anywhere.

    A message consists of headers and a payload.
    """

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.event_bytes
        self._buffer = bytearray()

    @property
    def has_pending(self) -> bool:
        """True in the middle of a message."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[tuple[dict[str, str], bytes]]:
        """Return the headers and payloads of the messages that these bytes complete.

        Raises:
            LimitError: A message is longer than ``event_bytes`` allows.
            ConverseError: The bytes are damaged, or not of such a stream.
        """
        self._buffer += data
        messages = []
        while len(self._buffer) >= _PRELUDE.size:
            total, header_size, check = _PRELUDE.unpack_from(self._buffer)
            # Check the length before using it: a wrong one would mean waiting for more bytes. 16 is
            # the size of the prelude and the checksum at the end.
            if zlib.crc32(self._buffer[:8]) != check or total < header_size + 16:
                raise _produce_error("the checksum of its length is wrong")
            if total > self._limit:
                raise refuse_event(self._limit)
            if len(self._buffer) < total:
                break
            message = bytes(self._buffer[:total])
            del self._buffer[:total]
            if zlib.crc32(message[:-4]) != int.from_bytes(message[-4:]):
                raise _produce_error("its checksum is wrong")
            end = _PRELUDE.size + header_size
            messages.append((_read_headers(message[_PRELUDE.size : end]), message[end:-4]))
        return messages


class EventStreamFramer:
    """Framer of binary event streams: the name of an event is its type, its data are the payload.

    An exception in the stream becomes the event ``error``.
    """

    def __init__(self, limits: Limits) -> None:
        self._reader = EventStreamReader(limits)

    @property
    def has_pending(self) -> bool:
        """True in the middle of a message."""
        return self._reader.has_pending

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete; see :class:`.Framer`."""
        return [_frame(headers, payload) for headers, payload in self._reader.feed(data)]

    def finish(self) -> list[Frame]:
        """Return nothing, as each message states its length. Raises ConverseError if one is cut."""
        if self.has_pending:
            raise _produce_error("it ends too early") from ValueError("cut off")
        return []


def _frame(headers: dict[str, str], payload: bytes) -> Frame:
    if headers.get(":message-type", "event") != "event":
        return Frame(_compose_error(headers, payload), "error")
    return Frame(payload, headers.get(":event-type", ""))


def encode_message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a message with text headers."""
    fields = b"".join(_encode_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(fields) + len(payload), len(fields))
    message = b"%b%b%b%b" % (prelude, zlib.crc32(prelude).to_bytes(4), fields, payload)
    return message + zlib.crc32(message).to_bytes(4)


def _encode_header(name: str, value: str) -> bytes:
    key, text = name.encode(), value.encode()
    return b"%c%b%c%b%b" % (len(key), key, _TEXT, len(text).to_bytes(2), text)


class EventStreamRewriter:
    """Converter from binary event streams of InvokeModel to server-sent events.

    An exception in the stream becomes an ``error`` event, as in streams of server-sent events.
    """

    def __init__(self, limits: Limits) -> None:
        self._reader = EventStreamReader(limits)

    @property
    def has_pending(self) -> bool:
        """True in the middle of a message."""
        return self._reader.has_pending

    def feed(self, data: bytes) -> bytes:
        """Return the events that these bytes complete; see :class:`EventStreamReader`."""
        return b"".join(_rewrite(*message) for message in self._reader.feed(data))


def _read_headers(data: bytes) -> dict[str, str]:
    """Return the headers with text values; others are not needed."""
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
            raise _produce_error("a header has an unknown type")
        if position + size > len(data):
            raise _produce_error("a header exceeds the header section")
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
        raise _produce_error("the payload of a chunk is invalid") from error
    try:
        event = msgspec.json.decode(data, type=_Typed).type
    except msgspec.DecodeError:
        event = "completion"  # as the anthropic package names it
    return _compose(event, data)


def _compose_error(headers: dict[str, str], payload: bytes) -> bytes:
    try:
        content = msgspec.json.decode(payload)
    except msgspec.DecodeError:
        content = None
    fields = content if isinstance(content, dict) else {}
    message = fields.get("message") or fields.get("Message")
    error = {
        **fields,
        "type": headers.get(":exception-type") or headers.get(":error-code") or "error",
        "message": message or headers.get(":error-message", ""),
    }
    return msgspec.json.encode({"type": "error", "error": error})


def _compose(event: str, data: bytes) -> bytes:
    name = " ".join(event.split())
    lines = b"".join(b"data: " + line + b"\n" for line in data.splitlines() or [b""])
    return b"event: " + name.encode() + b"\n" + lines + b"\n"


def _produce_error(reason: str) -> ConverseError:
    return ConverseError(
        detail=f"A message of the binary event stream is damaged: {reason}.",
        stage=Stage.FRAME,
    )
