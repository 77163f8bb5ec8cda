"""The stream of a response for synchronous code."""

from __future__ import annotations

from collections.abc import Iterator

from vibe_llms.foundation.sync_faces import SyncFace, blocking, iterate, iterating
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.providers.interfaces import AsyncStream


class SyncStream(SyncFace[AsyncStream]):
    """A response that is being received, for synchronous code. Use it as a context manager."""

    @property
    def canisters(self) -> tuple[AnyCanister, ...]:
        """The canisters received so far."""
        return self.asynchronous.canisters

    @property
    def text(self) -> Iterator[str]:
        """The text of the answer as it arrives, without reasoning and tool calls.

        Joined, the pieces are the ``text`` of the response.
        """
        return iterate(self.asynchronous.text)

    __iter__ = iterating(AsyncStream.__aiter__)
    response = blocking(AsyncStream.response)
    close = blocking(AsyncStream.close)
