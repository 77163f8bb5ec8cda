"""What an attempt answers is held back until it is known to be an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.routing.outcomes import Refused
from vibe_llms.daemons.server.words import Message

_ERROR_MARKS: Final = (
    b"event: error",
    b"event:error",
    b'data: {"error"',
    b'data: {"type":"error"',
    b'data: {"type": "error"',
    b'{"error"',
)
"""How a stream begins that has nothing but an error in it, under whatever status."""


class FirstByteGate:
    """Takes what answers a call, as ASGI's messages, and lets it through from its first byte.

    Args:
        call: Whom the answer is for.
        on_open: Is called when the first byte goes through; from then on nothing is taken back.
        tap: Hears whatever goes through.

    Attributes:
        is_open: The client has had something.
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
        self._last: bytes | None = None  # of a body with trailers
        self._has_trailers = False
        self.is_open = False

    async def send(self, message: Message) -> None:
        """Takes a message. Raises Refused instead of letting an error through."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._has_trailers = message.get("trailers", False)
            self._headers = {
                name.decode("latin-1"): text.decode("latin-1") for name, text in message["headers"]
            }
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
            await self._open(body)
        if self._tap is not None and body:
            self._tap(body)
        if more:
            await self._call.send(body)
        elif self._has_trailers:
            self._last = body
        else:
            await self._call.finish(body)

    async def _open(self, body: bytes) -> None:
        if self._status >= 400 or body.startswith(_ERROR_MARKS):
            raise Refused(self._status, self._headers, body)
        self.is_open = True
        self._on_open(self._status, self._headers)
        await self._call.begin(self._status, self._headers)
