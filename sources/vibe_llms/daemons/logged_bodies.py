"""Request and response bodies for the log: truncated, with keys redacted."""

from __future__ import annotations

from typing import Final

from vibe_llms.daemons.server.asgi_types import Message, Receive, Send
from vibe_llms.foundation.secrets import HIDDEN, KEY_SHAPES

MAX_BYTES: Final = 65_536
"""Logged bytes of each body."""

_MARGIN_BYTES: Final = 4_096
"""Further bytes to read, so that a key at the limit is recognized as a whole."""


class BodyBeginning:
    """The beginning of a body, copied as its pieces pass."""

    __slots__ = ("_data", "_size")

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Copy a piece, as far as there is room."""
        self._size += len(data)
        if room := MAX_BYTES + _MARGIN_BYTES - len(self._data):
            self._data += data[:room]

    def show(self, credential: str = "") -> str:
        """Return the text, with keys redacted.

        Args:
            credential: The client's key, in any encoding.
        """
        redacted, data = HIDDEN.encode(), bytes(self._data)
        if credential:
            data = data.replace(credential.encode("latin-1", "replace"), redacted)
        shown = KEY_SHAPES.sub(redacted, data)
        if self._size <= MAX_BYTES:
            return shown.decode("utf-8", "replace")
        # Remove the margin, which may contain half a key; redaction has shortened the text.
        shown = shown[: max(0, len(shown) - (len(self._data) - MAX_BYTES))]
        return f"{shown.decode('utf-8', 'replace')}… ({self._size - MAX_BYTES:,} bytes more)"


class Contents:
    """The bodies of a request and its response.

    Attributes:
        request, response: The beginning of each body.
        credential: The client's key.
    """

    __slots__ = ("credential", "request", "response")

    def __init__(self) -> None:
        self.request, self.response = BodyBeginning(), BodyBeginning()
        self.credential = ""

    def copy_receive(self, receive: Receive) -> Receive:
        """Return a ``receive`` that also copies the request."""

        async def copying() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                self.request.feed(message.get("body", b""))
            return message

        return copying

    def copy_send(self, send: Send) -> Send:
        """Return a ``send`` that also copies the response."""

        async def copying(message: Message) -> None:
            if message["type"] == "http.response.body":
                self.response.feed(message.get("body", b""))
            await send(message)

        return copying
