"""The framing of Amazon's event streams, in which Bedrock sends the events of Messages."""

from __future__ import annotations

import base64
import json
import struct
import zlib

STREAM_TYPE = "application/vnd.amazon.eventstream"
TEXT_HEADER = 7
"""The number of the type of a header whose value is text."""


def encode_event(data: bytes) -> bytes:
    """Wraps the JSON of one event.

    A message is its length and that of its headers, a checksum of both, the headers, the
    payload, and a checksum of all that.
    """
    names = {
        ":event-type": "chunk",
        ":content-type": "application/json",
        ":message-type": "event",
    }
    headers = b"".join(
        struct.pack(">B", len(name))
        + name.encode()
        + struct.pack(">BH", TEXT_HEADER, len(value))
        + value.encode()
        for name, value in names.items()
    )
    payload = json.dumps({"bytes": base64.b64encode(data).decode("ascii")}).encode()
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))
