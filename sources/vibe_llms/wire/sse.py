"""Framer for server-sent events, by the rules of the WHATWG.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, sections 9.2.5 and 9.2.6.
"""

from __future__ import annotations

import functools

from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.frames import Frame, refuse_event

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The byte order mark, with which a stream may begin."""
_JSON_ENDS = (b"}\n", b"]\n")
"""Ends of JSON data. Truncated data may also end so, which the JSON parser will notice."""


class SseFramer:
    """Framer of server-sent events.

    Complete events of the usual form take a fast path; others are parsed line by line. By the
    specification, an event without an empty line after it is incomplete (:attr:`has_pending`). But
    as some servers forget the empty line at the end of the stream, data that end with a bracket are
    returned there. Fields for reconnecting (``id`` and ``retry``) are ignored: a request is never
    sent twice.
    """

    __slots__ = (
        "_data",
        "_event",
        "_follows_carriage_return",
        "_is_within_event",
        "_limit",
        "_line",
        "_name",
        "_possible_mark",
        "_prefix",
    )

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.event_bytes
        # Possibly a part of the mark; None once it is decided.
        self._possible_mark: bytes | None = b""
        # Whether a line feed at the start belongs to the line before.
        self._follows_carriage_return = False
        self._line = bytearray()  # an incomplete line
        self._data = bytearray()  # of an incomplete event, with a line feed after each line
        self._event = ""
        self._is_within_event = False  # after the first line of an event
        # How the last named event began; at first, bytes with which no event can begin.
        self._prefix = b"\n\n"
        self._name = ""

    @property
    def has_pending(self) -> bool:
        """True in the middle of an event."""
        # A line that begins with a colon is a comment, such as a keep-alive, not an event.
        return bool(self._data or self._event or (self._line and self._line[0] != 0x3A))

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete; see :class:`Framer`."""
        if self._possible_mark is not None:
            data = self._strip_mark(data)
        if self._follows_carriage_return or b"\r" in data:
            data = self._normalize(data)
        frames: list[Frame] = []
        if self._is_within_event:
            data = self._parse_event(data, frames)
        if not data:
            return frames
        if len(data) > self._limit:  # only then can it contain an event that is too long
            self._parse_lines(data, frames)
            return frames
        blocks = data.split(b"\n\n")
        rest = blocks.pop()  # no empty line ends it yet
        prefix, name = self._prefix, self._name
        for block in blocks:
            if block.startswith(b"data: "):
                if b"\n" not in block:
                    frames.append(Frame(block[6:]))
                    continue
            elif block.startswith(prefix):  # the same kind of event as the one before
                value = block[len(prefix) :]
                if b"\n" not in value:
                    frames.append(Frame(value, name))
                    continue
            elif block.startswith(b"event: "):
                first, separator, value = block.partition(b"\ndata: ")
                # Names are cached, so long ones are parsed line by line.
                if separator and len(first) < 64 and b"\n" not in value and b"\n" not in first:
                    name = _read_name(first)
                    prefix = self._prefix = first + separator
                    self._name = name
                    frames.append(Frame(value, name))
                    continue
            self._parse_lines(block + b"\n\n", frames)
        self._parse_lines(rest, frames)
        return frames

    def finish(self) -> list[Frame]:
        """Return the last event, if only its empty line is missing."""
        frames: list[Frame] = []
        if self._line:
            self._read_line(bytes(self._line))
            self._line.clear()
        if self._data.endswith(_JSON_ENDS):
            self._end_event(frames)
        return frames

    def _strip_mark(self, data: bytes) -> bytes:
        """Remove the byte order mark from the beginning of the stream; it may arrive in pieces."""
        assert self._possible_mark is not None
        data = self._possible_mark + data
        if len(data) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(data):
            self._possible_mark = data
            return b""
        self._possible_mark = None
        return data.removeprefix(_BYTE_ORDER_MARK)

    def _normalize(self, data: bytes) -> bytes:
        """Return the bytes with a line feed as every line end."""
        if not data:
            return data
        if self._follows_carriage_return:
            data = data.removeprefix(b"\n")
        self._follows_carriage_return = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _parse_lines(self, data: bytes, frames: list[Frame]) -> None:
        while data:
            data = self._parse_event(data, frames)

    def _parse_event(self, data: bytes, frames: list[Frame]) -> bytes:
        """Parse line by line to the end of an event; return the bytes after it."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            line = data[start:end]
            start = end + 1
            if self._line:
                line = bytes(self._line) + line
                self._line.clear()
            if line:
                self._read_line(line)
            else:
                self._end_event(frames)
                return data[start:]
        self._line += data[start:]
        if len(self._line) > self._limit:
            raise refuse_event(self._limit)
        self._is_within_event = True
        return b""

    def _read_line(self, line: bytes) -> None:
        if len(line) > self._limit:
            raise refuse_event(self._limit)
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data += value
            self._data += b"\n"
            if len(self._data) > self._limit:
                raise refuse_event(self._limit)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")

    def _end_event(self, frames: list[Frame]) -> None:
        if self._data:
            frames.append(Frame(bytes(self._data[:-1]), self._event))
            self._data.clear()
        self._event = ""
        self._is_within_event = False


@functools.lru_cache(maxsize=256)
def _read_name(line: bytes) -> str:
    """Return the name in a line; cached, as there are few names."""
    return line[7:].decode("utf-8", "replace")
