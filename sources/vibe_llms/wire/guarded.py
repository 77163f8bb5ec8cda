"""Redaction of our secrets in answers that are passed through."""

from __future__ import annotations

from collections.abc import Mapping

from vibe_llms.foundation.async_closing import Closing
from vibe_llms.wire.exchanges import Exchange
from vibe_llms.wire.scrubbing import Scrubber


class GuardedExchange(Closing):
    """Response with secrets redacted in its headers and body.

    Bytes that may be the beginning of a secret are held back until more arrive.
    """

    __slots__ = ("_exchange", "_held_back", "_scrubber", "headers", "status")

    def __init__(self, exchange: Exchange, scrubber: Scrubber) -> None:
        self._exchange, self._scrubber = exchange, scrubber
        self._held_back = b""
        self.status = exchange.status
        self.headers = _scrub_headers(exchange.headers, scrubber)

    @property
    def is_spent(self) -> bool:
        """True if the body is known to be read to its end, so that there is nothing to close."""
        return self._exchange.is_spent

    async def receive(self) -> bytes:
        """Return the next bytes of the body; see :class:`.Exchange`."""
        while received := await self._exchange.receive():
            data = self._scrubber.scrub(self._held_back + received)
            end = self._scrubber.find_incomplete(data)
            self._held_back = data[end:]
            if end:
                return data[:end]
        last, self._held_back = self._held_back, b""
        return last

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body; see :class:`.Exchange`."""
        return self._scrubber.scrub(await self._exchange.read(limit))

    async def close(self) -> None:
        """Close the response."""
        await self._exchange.close()


def _scrub_headers(headers: Mapping[str, str], scrubber: Scrubber) -> Mapping[str, str]:
    if not scrubber.may_contain_text("\n".join(headers.values())):
        return headers
    return {name: scrubber.scrub_text(text) for name, text in headers.items()}
