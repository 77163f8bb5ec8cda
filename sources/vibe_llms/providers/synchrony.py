"""The stream of a response for synchronous code."""

from __future__ import annotations

from collections.abc import Iterator

from vibe_llms.foundation.sync_faces import SyncFace, blocking, iterate, iterating
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.providers.interfaces import AsyncStream


class SyncStream(SyncFace[AsyncStream]):
    """A response on its way, for synchronous code. Use it as a context manager."""

    @property
    def canisters(self) -> tuple[AnyCanister, ...]:
        """What has arrived so far."""
        return self.asynchronous.canisters

    @property
    def text(self) -> Iterator[str]:
        """The words of the answer as they arrive, without reasoning and without calls.

        Joined, they are the ``text`` of the response.
        """
        return iterate(self.asynchronous.text)

    __iter__ = iterating(AsyncStream.__aiter__)
    response = blocking(AsyncStream.response)
    close = blocking(AsyncStream.close)
