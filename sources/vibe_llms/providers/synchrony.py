"""The stream of a response for synchronous code."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self, cast

from vibe_llms.asynchrony import access_portal
from vibe_llms.events.stream import StreamEvent
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.requests import Response
from vibe_llms.providers.interfaces import AsyncStream

_END = object()


class PortalStream:
    """A ``SyncStream``: an asynchronous stream that lives behind the portal."""

    def __init__(self, stream: AsyncStream) -> None:
        self._stream = stream

    @property
    def canisters(self) -> tuple[AnyCanister, ...]:
        """What has arrived so far."""
        return self._stream.canisters

    def __iter__(self) -> Iterator[StreamEvent]:
        portal = access_portal()
        events = aiter(self._stream)
        while (event := portal.call(lambda: anext(events, _END))) is not _END:
            yield cast(StreamEvent, event)

    def response(self) -> Response:
        """Receives the remaining events and returns the response."""
        return access_portal().call(self._stream.response)

    def close(self) -> None:
        """Stops the response where it is. May be called again."""
        access_portal().call(self._stream.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
