"""Server-sent events, by the rules of the WHATWG.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, sections 9.2.5 and 9.2.6.
"""

from __future__ import annotations

import functools

from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.frames import Frame, refuse_event

_MARK = b"\xef\xbb\xbf"
"""The byte order mark, which may open a stream."""
_CLOSED = (b"}\n", b"]\n")
"""Ends of JSON data. Truncated data may end so, too, which their parser notices."""


class SseFramer:
    """Framer of server-sent events.

    Whole events of the usual form take a fast path; others are parsed line by line. An event
    without its empty line at the end is incomplete, as the specification says, and sets
    :attr:`has_pending`; but data that close a bracket are returned at the end of the stream, where
    some servers forget the empty line. Fields for reconnecting (``id`` and ``retry``) are
    ignored: a request is never sent twice.
    """

    __slots__ = (
        "_data",
        "_event",
        "_follows_return",
        "_head",
        "_is_midway",
        "_limit",
        "_line",
        "_name",
        "_opening",
    )

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.event_bytes
        self._opening: bytes | None = b""  # what may become a mark; None once that is decided
        self._follows_return = False  # a line feed that comes next belongs to the line before
        self._line = bytearray()  # a line that has begun
        self._data = bytearray()  # of an event that has begun, a line feed after each line
        self._event = ""
        self._is_midway = False  # between two empty lines
        self._head = b"\n\n"  # with which the last named event began: as yet nothing can so
        self._name = ""

    @property
    def has_pending(self) -> bool:
        """True in the middle of an event."""
        # A line that begins with a colon is a comment, such as a keep-alive, not an event.
        return bool(self._data or self._event or (self._line and self._line[0] != 0x3A))

    def feed(self, data: bytes) -> list[Frame]:
        """Return the events that these bytes complete; see :class:`Framer`."""
        if self._opening is not None:
            data = self._open(data)
        if self._follows_return or b"\r" in data:
            data = self._normalize(data)
        frames: list[Frame] = []
        if self._is_midway:
            data = self._walk(data, frames)
        if not data:
            return frames
        if len(data) > self._limit:  # only then can an event in it be too long
            self._walk_all(data, frames)
            return frames
        blocks = data.split(b"\n\n")
        rest = blocks.pop()  # no empty line ends it yet
        head, name = self._head, self._name
        for block in blocks:
            if block.startswith(b"data: "):
                if b"\n" not in block:
                    frames.append(Frame(block[6:]))
                    continue
            elif block.startswith(head):  # the same kind of event as the one before
                value = block[len(head) :]
                if b"\n" not in value:
                    frames.append(Frame(value, name))
                    continue
            elif block.startswith(b"event: "):
                first, separator, value = block.partition(b"\ndata: ")
                # The names that are read here are kept: those of any length go line by line.
                if separator and len(first) < 64 and b"\n" not in value and b"\n" not in first:
                    name = _read_name(first)
                    head = self._head = first + separator
                    self._name = name
                    frames.append(Frame(value, name))
                    continue
            self._walk_all(block + b"\n\n", frames)
        self._walk_all(rest, frames)
        return frames

    def finish(self) -> list[Frame]:
        """Return the last event, if only its empty line is missing."""
        frames: list[Frame] = []
        if self._line:
            self._read_line(bytes(self._line))
            self._line.clear()
        if self._data.endswith(_CLOSED):
            self._end_event(frames)
        return frames

    def _open(self, data: bytes) -> bytes:
        """Take the mark off the beginning of the stream, which may come in pieces."""
        assert self._opening is not None
        data = self._opening + data
        if len(data) < len(_MARK) and _MARK.startswith(data):
            self._opening = data
            return b""
        self._opening = None
        return data.removeprefix(_MARK)

    def _normalize(self, data: bytes) -> bytes:
        """Return the bytes with every end of line as a line feed."""
        if not data:
            return data
        if self._follows_return:
            data = data.removeprefix(b"\n")
        self._follows_return = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _walk_all(self, data: bytes, frames: list[Frame]) -> None:
        while data:
            data = self._walk(data, frames)

    def _walk(self, data: bytes, frames: list[Frame]) -> bytes:
        """Parse line by line to the end of an event; return the bytes behind it."""
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
        self._is_midway = True
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
        self._is_midway = False


@functools.lru_cache(maxsize=256)
def _read_name(line: bytes) -> str:
    """Return the name in a line; cached, as there are few."""
    return line[7:].decode("utf-8", "replace")
