"""An embedder by its name: vectors of any number of texts.

``Embedder`` is for asynchronous code; ``SyncEmbedder`` wraps it for synchronous code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like
from vibe_llms.instruments.genera import CONCURRENCY, CallInstrument, call_in_parts
from vibe_llms.messages.vectors import EmbeddingRequest, Purpose, Vectors, join_vectors
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.providers.interfaces import CallModel


class Embedder(CallInstrument):
    """A model that turns texts into vectors.

    Use it as an asynchronous context manager, or close it at the end.

    Args:
        address: Address of the model, such as ``openai:text-embedding-3-small``; empty for the
            configured embedder, by default one that runs on this machine.
        dimensions: Length of the vectors; ``None`` for the model's default.
        purpose: The use of the vectors: ``query``, ``passage``, ``similarity``,
            ``classification`` or ``clustering``.
        settings: ``application``, ``strict``, ``concurrency``, ``listener`` and ``cache``; see
            :class:`.CallInstrument`.
    """

    genus = Genus.EMBEDDER

    def __init__(
        self,
        address: str = "",
        *,
        dimensions: int | None = None,
        purpose: Purpose | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(address, **settings)
        self.dimensions = dimensions
        self.purpose: Purpose | None = purpose

    async def embed(self, texts: str | Iterable[str], *, purpose: Purpose | None = None) -> Vectors:
        """Return the vectors of texts, in their order.

        Many texts are split into requests of the size that the vendor allows, several at once. If a
        request fails, all others are cancelled.

        Args:
            purpose: The use of these vectors; by default the embedder's use.

        Raises:
            RequestError: There are no texts, or a text is blank.
            TranslationLossError: The translation loses something, and the embedder is strict.
            ConverseError: A request failed.
        """
        request = self.compose(texts, purpose)
        return await embed_with(await self.access(), request, self.concurrency)

    def compose(
        self, texts: str | Iterable[str], purpose: Purpose | None = None
    ) -> EmbeddingRequest:
        """Return the request for the vectors of texts. Raises RequestError."""
        return EmbeddingRequest(
            texts=texts,
            dimensions=self.dimensions,
            purpose=purpose or self.purpose,
            strict=self.strict,
        )


async def embed_with(
    model: CallModel[EmbeddingRequest, Vectors],
    request: EmbeddingRequest,
    concurrency: int = CONCURRENCY,
) -> Vectors:
    """Embed texts with a provider's model. Raises ConverseError."""
    parts = await call_in_parts(model, request, concurrency)
    widths = {vectors.width for vectors in parts}
    if len(widths) > 1:
        detail = f"{model.descriptor} returned vectors of different lengths: {sorted(widths)}."
        raise ConverseError(detail=detail, stage=Stage.DECODE)
    return join_vectors(parts)


class SyncEmbedder(SyncFace[Embedder]):
    """An embedder for synchronous code, with the arguments of :class:`Embedder`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(Embedder)
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(Embedder(*arguments, **settings))

    embed = blocking(Embedder.embed)
    close = blocking(Embedder.close)
