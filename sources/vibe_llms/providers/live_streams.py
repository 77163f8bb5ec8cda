"""Streams of calls whose input is still arriving.

A model that takes only complete input gets it once it is complete; a loss says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.transcripts import LiveTranscriptionRequest
from vibe_llms.providers.piece_streams import Piece, PieceStream, open_stream


def open_live(model: Any, request: Any, pieces: AsyncIterable[Piece]) -> PieceStream[Any]:
    """Return the stream of a call whose input is still arriving.

    Args:
        request: A live request, such as a ``LiveTranscriptionRequest``.
        pieces: The input; it is read as the vendor takes it.
    """
    if hasattr(model, "stream_live"):
        stream: PieceStream[Any] = model.stream_live(request, pieces)
        return stream
    return PieceStream(call_in_parts(model, request, pieces, "the model takes it only as a whole"))


async def call_in_parts(
    model: Any, request: LiveTranscriptionRequest, pieces: AsyncIterable[Any], obstacle: str
) -> AsyncIterator[Any]:
    """Yield the pieces of the result, then the result.

    Args:
        obstacle: Reason why the model cannot take the input as it arrives.

    Raises:
        TranslationLossError: The request is strict.
        RequestError: The input is longer than the model allows.
    """
    loss = Loss(
        kind=LossKind.COERCED, path="audio", reason=f"{obstacle}: it was sent once it was complete"
    )
    if request.strict:
        refuse_losses((loss,))
    data = await _collect(pieces, model.max_bytes)
    async with open_stream(model, request.complete(data)) as stream:
        async for piece in stream:
            yield piece
        result = await stream.result()
    yield attrs.evolve(result, losses=(loss, *result.losses))


async def _collect(pieces: AsyncIterable[bytes], max_bytes: int) -> bytes:
    found, size = [], 0
    async for piece in pieces:
        found.append(piece)
        size += len(piece)
        if size > max_bytes:
            detail = f"The audio is longer than the {max_bytes:,} bytes that the model takes."
            raise RequestError(path="audio", detail=detail, remedy="Send it in parts.")
    return b"".join(found)
