"""A ranker by its name: texts by their relevance to a query.

``Ranker`` is for asynchronous code; ``SyncRanker`` wraps it for synchronous code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any

from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like
from vibe_llms.instruments.genera import CONCURRENCY, CallInstrument, call_in_parts, split_call
from vibe_llms.messages.call_results import join_origins
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.messages.rankings import Ranking, RankingRequest, join_rankings, rank
from vibe_llms.messages.vectors import EmbeddingRequest, Purpose, Vectors, join_vectors
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.providers.interfaces import CallModel


class Ranker(CallInstrument):
    """A model that orders texts by their relevance to a query.

    An embedder can replace a ranker: then texts are ordered by the similarity of their vectors to
    the query's vector, and a loss is reported.

    Use it as an asynchronous context manager, or close it at the end.

    Args:
        address: Address of the model, such as ``jina:jina-reranker-v3``; empty for the configured
            ranker, by default an embedder that runs on this machine.
        settings: ``application``, ``strict``, ``concurrency``, ``listener`` and ``cache``; see
            :class:`.CallInstrument`.
    """

    genus = Genus.RANKER

    async def rank(
        self, query: str, texts: Iterable[str], *, max_results: int | None = None
    ) -> Ranking:
        """Return texts by their relevance to a query, the most relevant first.

        Args:
            max_results: Maximum number of returned texts, the most relevant ones; ``None`` for all.

        Raises:
            RequestError: There are no texts, or a text or the query is blank.
            TranslationLossError: An embedder replaces the ranker, and the ranker is strict.
            ConverseError: A request failed.
        """
        request = RankingRequest(
            query=query, texts=texts, max_results=max_results, strict=self.strict
        )
        model = await access_ranker(self.application, self.address, holder=self)
        return await rank_with(self.equip(model), request, self.concurrency)


async def access_ranker(
    application: Application, address: str, *, holder: object = None
) -> CallModel[Any, Any]:
    """Return a ranker, or an embedder that replaces one. Raises ConverseError.

    Args:
        address: See :meth:`.Application.access`.
    """
    text = address.strip() or application.configuration.find_default(Genus.RANKER)
    resolved = application.resolve_address(text)
    known = application.catalogue.access_attributes(resolved) if resolved.name else None
    is_embedder = known is not None and known.genus is Genus.EMBEDDER
    genus = Genus.EMBEDDER if is_embedder else Genus.RANKER
    return await application.access(genus, text, holder=holder)


async def rank_with(
    model: CallModel[Any, Any], request: RankingRequest, concurrency: int = CONCURRENCY
) -> Ranking:
    """Rank texts with a ranker, or by the vectors of an embedder. Raises ConverseError."""
    if model.descriptor.attributes.genus is Genus.EMBEDDER:
        return await _rank_by_vectors(model, request, concurrency)
    parts: list[Ranking] = await call_in_parts(model, request, concurrency)
    split = split_call(request, model.max_inputs, model.max_bytes)
    return join_rankings(parts, [len(part.texts) for part in split], request)


async def _rank_by_vectors(
    model: CallModel[Any, Any], request: RankingRequest, concurrency: int
) -> Ranking:
    reason = "the model is an embedder, not a ranker: texts are ordered by their vectors"
    loss = Loss(kind=LossKind.COERCED, path="query", reason=reason)
    if request.strict:
        refuse_losses([loss])

    async def embed(texts: Sequence[str], purpose: Purpose) -> Vectors:
        embedding_request = EmbeddingRequest(texts=texts, purpose=purpose)
        return join_vectors(await call_in_parts(model, embedding_request, concurrency))

    queries = await embed([request.query], "query")
    passages = await embed(request.texts, "passage")
    scores = ((index, compare(queries[0], passage)) for index, passage in enumerate(passages))
    # A vendor may not distinguish queries and passages: no additional loss is reported for this.
    origin = join_origins([queries, passages])
    return Ranking(ranked=rank(scores, request), origin=origin, losses=(loss,))


def compare(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of the angle between two vectors."""
    product = sum(a * b for a, b in zip(first, second, strict=True))
    lengths = sqrt(sum(a * a for a in first)) * sqrt(sum(b * b for b in second))
    return product / lengths if lengths else 0.0


class SyncRanker(SyncFace[Ranker]):
    """A ranker for synchronous code, with the arguments of :class:`Ranker`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(Ranker)
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(Ranker(*arguments, **settings))

    rank = blocking(Ranker.rank)
    close = blocking(Ranker.close)
