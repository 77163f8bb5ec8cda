"""An embedder by its name: vectors of any number of texts.

``Embedder`` is for asynchronous code; ``SyncEmbedder`` is the same behind the portal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.application import Application, access_application
from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.reprs import represent
from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like
from vibe_llms.messages.vectors import EmbeddingRequest, Purpose, Vectors, join_vectors

if TYPE_CHECKING:
    from vibe_llms.providers.interfaces import EmbedderModel

CONCURRENCY: Final = 8
"""Requests at the same time: vendors answer many texts in one, so a few saturate a connection."""


class Embedder(Closing):
    """A model that turns texts into vectors.

    Use it as an asynchronous context manager, or close it at the end.

    Args:
        address: Such as ``openai:text-embedding-3-small``; empty for the configured embedder,
            by default one that runs on this machine.
        application: The configuration to use; by default that of this process.
        dimensions: Length of the vectors; ``None`` for the model's default.
        purpose: The use of the vectors: ``query``, ``passage``, ``similarity``,
            ``classification`` or ``clustering``.
        strict: Raise an error if the model does not support the dimensions or the purpose.
        concurrency: Maximum requests at the same time.
    """

    def __init__(
        self,
        address: str = "",
        *,
        application: Application | None = None,
        dimensions: int | None = None,
        purpose: Purpose | None = None,
        strict: bool = False,
        concurrency: int = CONCURRENCY,
    ) -> None:
        self.address = address
        self.dimensions = dimensions
        self.purpose: Purpose | None = purpose
        self.strict = strict
        self.concurrency = concurrency
        self._given_application = application

    def __repr__(self) -> str:
        return represent("Embedder", (("", self.address),))

    @property
    def application(self) -> Application:
        """The application in use; by default that of this process."""
        return self._given_application or access_application()

    async def access(self) -> EmbedderModel:
        """Return the provider's model of this name."""
        return await self.application.access_embedder(self.address, holder=self)

    async def embed(self, texts: str | Iterable[str], *, purpose: Purpose | None = None) -> Vectors:
        """Return the vectors of texts, in their order.

        Many texts are split into requests of the size that the vendor allows, several at once.
        If one fails, the others are cancelled.

        Args:
            purpose: The use of these vectors; by default that of the embedder.

        Raises:
            RequestError: There are no texts, or one of them is blank.
            TranslationLossError: The translation loses something, and the embedder is strict.
            ConverseError: A request failed.
        """
        request = EmbeddingRequest(
            texts=texts,
            dimensions=self.dimensions,
            purpose=purpose or self.purpose,
            strict=self.strict,
        )
        model = await self.access()
        parts = list(split_request(request, model.most_texts, model.most_bytes))
        if len(parts) == 1:
            return await model.embed(request)
        return join_vectors(await _embed_parts(model, parts, self.concurrency))

    async def close(self) -> None:
        """Close connections and unload weights that nothing else in this event loop uses."""
        await self.application.release(self)


async def _embed_parts(
    model: EmbedderModel, parts: Sequence[EmbeddingRequest], concurrency: int
) -> list[Vectors]:
    """Embed several requests at once. Raises the first error."""
    results: dict[int, Vectors] = {}
    waiting = iter(enumerate(parts))

    async def work() -> None:
        for place, part in waiting:  # shared: each worker takes the next one
            results[place] = await model.embed(part)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(concurrency, len(parts))):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    widths = {vectors.width for vectors in results.values()}
    if len(widths) > 1:
        detail = f"{model.descriptor} returned vectors of different lengths: {sorted(widths)}."
        raise ConverseError(detail=detail, stage=Stage.DECODE)
    return [results[place] for place in range(len(parts))]


def split_request(
    request: EmbeddingRequest, most_texts: int, most_bytes: int
) -> Iterator[EmbeddingRequest]:
    """Split a request into ones of at most this many texts and bytes, in order.

    A text that is larger by itself gets its own request.
    """
    batch: list[str] = []
    size = 0
    for text in request.texts:
        length = len(text.encode("utf-8", "replace"))
        if batch and (len(batch) == most_texts or size + length > most_bytes):
            yield attrs.evolve(request, texts=tuple(batch))
            batch, size = [], 0
        batch.append(text)
        size += length
    yield attrs.evolve(request, texts=tuple(batch)) if len(batch) < len(request.texts) else request


class SyncEmbedder(SyncFace[Embedder]):
    """An embedder for synchronous code, with the arguments of :class:`Embedder`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(Embedder)
    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(Embedder(*given, **settings))

    embed = blocking(Embedder.embed)
    close = blocking(Embedder.close)
