"""Guarded models of other genera than converser: embedders, rankers, speakers and so on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NoReturn

import attrs

from vibe_llms.guards.active import ActiveGuard, ChangeText, redact_texts
from vibe_llms.guards.models import refuse_batches
from vibe_llms.messages.illustrations import IllustrationRequest
from vibe_llms.messages.losses import Loss, Translation, refuse_losses
from vibe_llms.messages.rankings import RankingRequest
from vibe_llms.messages.speeches import SpeechRequest
from vibe_llms.messages.transcripts import Transcript, TranscriptionRequest
from vibe_llms.messages.vectors import EmbeddingRequest
from vibe_llms.plugins.specification.guards import Inspection
from vibe_llms.providers.interfaces import CallModel
from vibe_llms.providers.piece_streams import Piece, PieceStream, open_stream
from vibe_llms.providers.wrapped_calls import WrappedCallModel

_TEXTS: Final[Mapping[type, tuple[str, ...]]] = {
    EmbeddingRequest: ("texts",),
    IllustrationRequest: ("prompt",),
    RankingRequest: ("query", "texts"),
    SpeechRequest: ("text", "instructions"),
    TranscriptionRequest: ("prompt",),
}
"""The fields of requests that have texts."""


class GuardedCallModel(WrappedCallModel[Any, Any]):
    """A model whose requests guards examine, and the text of a transcript.

    Args:
        model: The model.
        guards: Its guards, in order.

    Attributes:
        unguarded: The model.
    """

    def __init__(self, model: CallModel[Any, Any], guards: Sequence[ActiveGuard]) -> None:
        super().__init__(model)
        self.unguarded = model
        self._guards = tuple(guards)
        self._address = str(model.descriptor)

    async def call(self, request: Any) -> Any:
        """Return the result of a call. Raises ConverseError, TranslationLossError."""
        guarded = await self._guard_request(request)
        return await self._guard_result(await self.unguarded.call(guarded.value), guarded.losses)

    def stream(self, request: Any) -> PieceStream[Any]:
        """Make a call, and return the pieces of the result; those of a transcript at its end."""
        return PieceStream(self._stream(request))

    async def _stream(self, request: Any) -> AsyncIterator[Piece | Any]:
        guarded = await self._guard_request(request)
        async with open_stream(self.unguarded, guarded.value) as stream:
            async for piece in stream:
                if isinstance(piece, bytes):
                    yield piece
            result = await self._guard_result(await stream.result(), guarded.losses)
        if isinstance(result, Transcript) and result.text:
            yield result.text
        yield result

    def produce_batches(self) -> NoReturn:
        """Refuse a vendor's batch. Raises CapabilityError."""
        raise refuse_batches(self._address)

    async def _guard_request(self, request: Any) -> Translation[Any]:
        fields = _TEXTS.get(type(request), ())
        guarded = await self._examine("request", request, fields)
        if request.strict:
            refuse_losses(guarded.losses)
        return guarded

    async def _guard_result(self, result: Any, losses: Sequence[Loss]) -> Any:
        if isinstance(result, Transcript):
            guarded = await self._examine("answer", result, ("text",))
            if guarded.losses:  # parts may contain the rest of a replaced text
                result = attrs.evolve(guarded.value, segments=(), words=())
            losses = (*losses, *guarded.losses)
        return attrs.evolve(result, losses=(*losses, *result.losses)) if losses else result

    async def _examine(self, part: Any, value: Any, fields: Sequence[str]) -> Translation[Any]:
        losses: dict[Loss, None] = {}
        for active in self._guards:
            if part in active.parts:
                inspection = Inspection(part=part, texts=(), model=self._address)
                rewrite = partial(_rewrite, value, fields)
                translation = await redact_texts(active, rewrite, inspection)
                value = translation.value
                losses.update(dict.fromkeys(translation.losses))
        return Translation(value, tuple(losses))


def _rewrite(value: Any, fields: Sequence[str], change: ChangeText) -> Any:
    changes: dict[str, Any] = {}
    for name in fields:
        old = getattr(value, name)
        if isinstance(old, str):
            new: Any = change(name, old)
        else:
            new = tuple(change(f"{name}[{index}]", text) for index, text in enumerate(old or ()))
        if old and new != old:
            changes[name] = new
    return attrs.evolve(value, **changes) if changes else value
