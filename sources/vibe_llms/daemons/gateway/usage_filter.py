"""Request the usage of a Chat Completions stream, and hide it from clients that did not ask.

Without this option, vendors do not report the usage of a stream. All other bytes are unchanged.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from vibe_llms.foundation.json_errors import UNREADABLE

_OPTIONS: Final = "stream_options"
_BOUNDARY: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BOUNDARY_BYTES: Final = 4
_USAGE_BYTES: Final = 16_384
"""Longest usage chunk; longer ones contain something else."""
_NO_CHOICES: Final = re.compile(rb'"choices"\s*:\s*\[\s*\]')


class _UsageChunk(msgspec.Struct):
    choices: list[Any]
    usage: dict[str, Any]


_USAGE_CHUNK: Final = msgspec.json.Decoder(_UsageChunk)


def ask_for_usage(body: bytes) -> bytes | None:
    """Return a request that also asks for usage; ``None`` if it needs no change."""
    fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    options = msgspec.json.decode(fields.get(_OPTIONS, b"null"))
    if options is None:
        options = {}
    if not isinstance(options, dict) or options.get("include_usage") is True:
        return None
    fields[_OPTIONS] = {**options, "include_usage": True}
    return msgspec.json.encode(fields)


class UsageFilter:
    """Removes the chunk of a stream that contains only usage.

    Incomplete events are held back, up to the size of a usage chunk.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._is_long = False  # the beginning of this event was passed on

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to pass on."""
        # All but the last of the previous bytes were searched; a boundary may begin in these.
        searched = max(0, len(self._rest) - _BOUNDARY_BYTES)
        data = self._rest + data
        output, start = [], 0
        for found in _BOUNDARY.finditer(data, searched):
            event = data[start : found.end()]
            start = found.end()
            if self._is_long or not _is_usage_chunk(event):
                output.append(event)
            self._is_long = False
        self._rest = data[start:]
        if self._is_long or len(self._rest) > _USAGE_BYTES:
            self._is_long = True
            # Hold back the end, which may be half a boundary.
            output.append(self._rest[:-_BOUNDARY_BYTES])
            self._rest = self._rest[-_BOUNDARY_BYTES:]
        return b"".join(output)

    def finish(self) -> bytes:
        """Return the rest after the last complete event."""
        rest, self._rest = self._rest, b""
        return rest if self._is_long or not _is_usage_chunk(rest) else b""


def _is_usage_chunk(event: bytes) -> bool:
    if _NO_CHOICES.search(event) is None:
        return False
    # An event may also have a name, an id and comments.
    data = b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))
    try:
        chunk = _USAGE_CHUNK.decode(data)
    except UNREADABLE:
        return False
    return not chunk.choices
