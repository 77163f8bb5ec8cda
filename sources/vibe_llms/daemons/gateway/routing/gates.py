"""First-byte gate: hold back an answer until it is known not to be an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.routing.outcomes import UpstreamErrorResponse
from vibe_llms.daemons.gateway.stream_ends import is_error
from vibe_llms.daemons.server.asgi_types import Message
from vibe_llms.foundation.json_errors import UNREADABLE

_ERROR_MARK: Final = b'{"error"'
"""Beginning of an answer that contains only an error; its status may still be 200."""

_ERROR_NAMES: Final = (b"event: error", b"event:error")
_BOUNDARY: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_HELD_BYTES: Final = 16_384
_HELD_KEEP_ALIVES: Final = 4
"""Keep-alives to hold back: the client should not wait longer than without the gate."""

_PREAMBLE_TYPES: Final = frozenset(
    {
        "content_block_start",
        "message_start",
        "ping",
        "response.created",
        "response.in_progress",
        "response.queued",
    }
)
"""Types of events without output."""


class StreamPreamble:
    """The events of a stream before its first output.

    Attributes:
        data: All bytes so far.
        error: The first event, if it is an error.
    """

    def __init__(self) -> None:
        self.data = b""
        self.error: bytes | None = None
        self._read_bytes = 0
        self._keep_alives = 0

    def feed(self, data: bytes) -> bool:
        """Add bytes; return whether to pass on all bytes so far."""
        # A boundary may begin in the previous bytes.
        start = max(self._read_bytes, len(self.data) - 3)
        self.data += data
        for boundary in _BOUNDARY.finditer(self.data, start):
            event = self.data[self._read_bytes : boundary.end()]
            self._read_bytes = boundary.end()
            if not self._read(event) or self._keep_alives > _HELD_KEEP_ALIVES:
                return True
        return len(self.data) > _HELD_BYTES

    def finish(self) -> None:
        """Read the rest after the last boundary."""
        self._read(self.data[self._read_bytes :])

    def _read(self, event: bytes) -> bool:
        """Read an event; return whether it has no output and must be held back."""
        lines = event.splitlines()
        data_lines = [line for line in lines if line.startswith(b"data:")]
        try:
            fields = msgspec.json.decode(b"\n".join(line[5:] for line in data_lines) or b"{}")
        except UNREADABLE:
            return False
        if not isinstance(fields, Mapping):
            return False
        if is_error(fields) or any(line.startswith(_ERROR_NAMES) for line in lines):
            self.error = b"\n".join(data_lines)
            return False
        kind, choices = fields.get("type"), fields.get("choices")
        is_comment = not data_lines
        if is_comment or kind == "ping":
            self._keep_alives += 1
        is_empty_chunk = isinstance(choices, list) and _is_empty(choices)
        return is_comment or kind in _PREAMBLE_TYPES or is_empty_chunk


def _is_empty(choices: list[Any]) -> bool:
    """Return whether the choices of a chunk contain only a role."""
    for choice in choices:
        delta = choice.get("delta") if isinstance(choice, Mapping) else None
        if not isinstance(delta, Mapping) or choice.get("finish_reason"):
            return False
        if any(value for name, value in delta.items() if name != "role"):
            return False
    return True


class FirstByteGate:
    """Receives a response as ASGI messages, and passes them on from the first output.

    Args:
        call: The client's response.
        on_open: Called before the first byte is passed on; the answer is final from then on.
        tap: Called with each piece of the body that is passed on.

    Attributes:
        is_open: Whether the client has received a byte.
    """

    def __init__(
        self,
        call: HttpCall,
        on_open: Callable[[int, Mapping[str, str]], None],
        tap: Callable[[bytes], None] | None = None,
    ) -> None:
        self._call = call
        self._on_open = on_open
        self._tap = tap
        self._status = 0
        self._headers: dict[str, str] = {}
        self._last: bytes | None = None  # the last piece of a body with trailers
        self._has_trailers = False
        self._preamble: StreamPreamble | None = None
        self.is_open = False

    async def send(self, message: Message) -> None:
        """Receive a message. Raises UpstreamErrorResponse for an error response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._has_trailers = message.get("trailers", False)
            self._headers = {
                name.decode("latin-1"): text.decode("latin-1") for name, text in message["headers"]
            }
            lower = {name.lower(): text for name, text in self._headers.items()}
            is_stream = lower.get("content-type", "").startswith("text/event-stream")
            if self._status < 400 and is_stream:
                self._preamble = StreamPreamble()
            return
        if message["type"] == "http.response.trailers":
            trailers = {name.decode(): text.decode() for name, text in message["headers"]}
            await self._call.finish(self._last or b"", trailers)
            return
        body: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        if not self.is_open:
            if more and not body:
                return
            ready = self._hold(body, more=more)
            if ready is None:
                return
            body = ready
            await self._open(body)
        if self._tap is not None and body:
            self._tap(body)
        if more:
            await self._call.send(body)
        elif self._has_trailers:
            self._last = body
        else:
            await self._call.finish(body)

    def _hold(self, body: bytes, *, more: bool) -> bytes | None:
        """Return the bytes to pass on; ``None`` before the first output."""
        preamble = self._preamble
        if preamble is None:
            return body
        is_ready = preamble.feed(body)
        if not more:
            preamble.finish()
        if preamble.error is not None:
            raise UpstreamErrorResponse(self._status, self._headers, preamble.error)
        return preamble.data if is_ready or not more else None

    async def _open(self, body: bytes) -> None:
        if self._status >= 400 or body.startswith(_ERROR_MARK):
            raise UpstreamErrorResponse(self._status, self._headers, body)
        self.is_open = True
        self._on_open(self._status, self._headers)
        await self._call.begin(self._status, self._headers)
