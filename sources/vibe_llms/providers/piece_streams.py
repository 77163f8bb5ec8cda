"""Streams of calls outside of conversations, whose result arrives in pieces."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from vibe_llms.messages.call_results import CallResult

if TYPE_CHECKING:
    from vibe_llms.messages.transcripts import InterimText

Out = TypeVar("Out", bound=CallResult)
Piece = bytes | str


class PieceStream(AbstractAsyncContextManager["PieceStream[Any]"], Generic[Out]):
    """A result that arrives in pieces: bytes of audio, or parts of a text.

    Use it as an asynchronous context manager. Iterating yields the pieces, and an
    :class:`.InterimText` for text that may still change, if requested; leaving the context closes
    the connection.

    Args:
        items: Yields the pieces, and the complete result last.
    """

    def __init__(self, items: AsyncIterator[Piece | InterimText | Out]) -> None:
        self._items = items
        self._result: Out | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.close()

    def __aiter__(self) -> PieceStream[Out]:
        return self

    async def __anext__(self) -> Any:
        """Return the next piece. Raises ConverseError if the call failed."""
        item = await anext(self._items)
        if not isinstance(item, CallResult):
            return item
        self._result = item
        raise StopAsyncIteration

    async def result(self) -> Out:
        """Receive the remaining pieces, and return the complete result.

        Raises:
            ConverseError: The call failed.
        """
        if self._result is None:
            async for _ in self:
                pass
        if self._result is None:
            raise RuntimeError("The stream was closed before it was complete.")
        return self._result

    async def close(self) -> None:
        """Close the connection. May be called again."""
        await cast(Any, self._items).aclose()


async def stream_call(model: Any, request: Any) -> AsyncIterator[Any]:
    """Call a model without streams; yield the pieces of its result, then the result."""
    result = await model.call(request)
    for piece in getattr(result, "pieces", ()):
        yield piece
    yield result


def open_stream(model: Any, request: Any) -> PieceStream[Any]:
    """Return the stream of a call; if the model has no streams, one with the complete result."""
    if hasattr(model, "stream"):
        stream: PieceStream[Any] = model.stream(request)
        return stream
    return PieceStream(stream_call(model, request))
