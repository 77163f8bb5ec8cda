"""What was asked and answered, for a log that shall have it: kept up to a bound, keys hidden."""

from __future__ import annotations

from typing import Final

from vibe_llms.daemons.server.words import Message, Receive, Send
from vibe_llms.foundation.secrets import HIDDEN, KEY_SHAPES

MOST_BYTES: Final = 65_536
"""Of each body; of what is longer the beginning is kept."""

_MARGIN_BYTES: Final = 4_096
"""Beyond that, so that a key on the edge is seen whole, and not half of it shown."""


class BodyBeginning:
    """The beginning of a body, whose pieces are heard as they pass."""

    __slots__ = ("_data", "_size")

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = 0

    def feed(self, data: bytes) -> None:
        """Hears a piece."""
        self._size += len(data)
        if room := MOST_BYTES + _MARGIN_BYTES - len(self._data):
            self._data += data[:room]

    def show(self, credential: str = "") -> str:
        """Returns it as text, without keys.

        Args:
            credential: That which the client has shown, whatever it looks like.
        """
        hidden, data = HIDDEN.encode(), bytes(self._data)
        if credential:
            data = data.replace(credential.encode("latin-1", "replace"), hidden)
        shown = KEY_SHAPES.sub(hidden, data)
        if self._size <= MOST_BYTES:
            return shown.decode("utf-8", "replace")
        # From its end, where half a key may be: what was hidden has made the rest shorter.
        shown = shown[: max(0, len(shown) - (len(self._data) - MOST_BYTES))]
        return f"{shown.decode('utf-8', 'replace')}… ({self._size - MOST_BYTES:,} bytes more)"


class Contents:
    """Both bodies of a request.

    Attributes:
        asked, answered: As they passed.
        credential: That which the client has shown.
    """

    __slots__ = ("answered", "asked", "credential")

    def __init__(self) -> None:
        self.asked, self.answered = BodyBeginning(), BodyBeginning()
        self.credential = ""

    def hear_receive(self, receive: Receive) -> Receive:
        """Returns what receives likewise, and is heard."""

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                self.asked.feed(message.get("body", b""))
            return message

        return heard

    def hear_send(self, send: Send) -> Send:
        """Returns what sends likewise, and is heard."""

        async def heard(message: Message) -> None:
            if message["type"] == "http.response.body":
                self.answered.feed(message.get("body", b""))
            await send(message)

        return heard
