"""Framer for newline-delimited JSON: one value on each line."""

from __future__ import annotations

from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.frames import Frame, refuse_event


class NdjsonFramer:
    """Framer of lines; skips empty ones.

    The last line needs no line end: if it is truncated, it is invalid JSON.
    """

    __slots__ = ("_limit", "_line")

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.event_bytes
        self._line = bytearray()  # an incomplete line

    @property
    def has_pending(self) -> bool:
        """True in the middle of a line."""
        return bool(self._line.strip())

    def feed(self, data: bytes) -> list[Frame]:
        """Return the lines that these bytes complete; see :class:`Framer`."""
        lines = data.split(b"\n")
        if self._line and len(lines) > 1:
            lines[0] = bytes(self._line) + lines[0]
            self._line.clear()
        self._line += lines.pop()
        limit = self._limit
        if len(self._line) > limit or (lines and len(max(lines, key=len)) > limit):
            raise refuse_event(limit)
        return [Frame(line) for each in lines if (line := each.strip())]

    def finish(self) -> list[Frame]:
        """Return the last line, if it has no line end."""
        line = bytes(self._line.strip())
        self._line.clear()
        return [Frame(line)] if line else []
