"""Checks of calls with many texts: their number, their order and the length of vectors.

A check costs one call with up to 64 texts, and at most three calls with one text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.rankings import Ranking, RankingRequest
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.providers.interfaces import CallModel
from vibe_llms.testing.contracts.promises import BrokenPromise, describe, require

MAX_TEXTS: Final = 64
"""Maximum texts of one call."""

_TOLERANCE: Final = 1e-4
"""Squared relative distance between vectors of one text in calls of different sizes."""

_SCORE_TOLERANCE: Final = 0.02
"""Difference of scores that counts as equal, as a share of the range of all scores."""

_QUALITIES: Final = ("old", "green", "frozen", "noisy", "gentle", "hollow", "royal", "bitter")
_THINGS: Final = ("harbour", "violin", "engine", "orchard", "treaty", "nurse", "comet", "soup")
_FILLERS: Final = tuple(f"a {quality} {thing}" for thing in _THINGS for quality in _QUALITIES)

_ORDER: Final = "Sort the results by the index in the answer, and keep the order of the texts."


async def check_order_of_vectors(
    model: CallModel[EmbeddingRequest, Vectors], request: EmbeddingRequest
) -> None:
    """Embed many texts at once, and some of them alone: each vector must be that of its text.

    Raises:
        BrokenPromise: The call fails, or a vector belongs to another text.
    """
    texts = _compose_texts((*request.texts, *_FILLERS), model.max_inputs)
    vectors: Vectors = await _call(model, attrs.evolve(request, texts=texts))
    count = len(vectors)
    is_complete = count == len(texts)
    require(is_complete, f"There are {count} vectors for {len(texts)} texts.", _ORDER)
    for index in sorted({0, count // 2, count - 1}) if count > 1 else ():
        (alone,) = await model.call(attrs.evolve(request, texts=texts[index]))
        distances = [_compute_distance(alone, each) for each in vectors]
        nearest = min(range(count), key=distances.__getitem__)
        size = sum(number * number for number in alone)
        is_own = distances[index] <= distances[nearest] + _TOLERANCE * size
        require(is_own, f"Of {count} texts, the vector at {index} is that at {nearest}.", _ORDER)


async def check_order_of_scores(
    model: CallModel[RankingRequest, Ranking], request: RankingRequest
) -> None:
    """Rank many texts at once, and two of them alone: the best must be as good alone.

    Raises:
        BrokenPromise: The call fails, or a score belongs to another text.
    """
    request = attrs.evolve(request, max_results=None)
    texts = _compose_texts(
        (_FILLERS[0], request.query, *request.texts, *_FILLERS), model.max_inputs
    )
    ranking: Ranking = await _call(model, attrs.evolve(request, texts=texts))
    found = sorted((each.index, each.text) for each in ranking)
    is_complete = found == list(enumerate(texts))
    require(is_complete, f"The ranking of {len(texts)} texts lacks some, or repeats some.", _ORDER)
    scores = [each.score for each in ranking]
    require(scores == sorted(scores, reverse=True), "The best is not first.", "Use rank().")
    if len(texts) > 1:
        (best,) = await model.call(attrs.evolve(request, texts=ranking[0].text))
        (exact,) = await model.call(attrs.evolve(request, texts=request.query))
        is_best = best.score >= exact.score - _SCORE_TOLERANCE * (scores[0] - scores[-1])
        require(
            is_best, f"The best of {len(texts)} texts is worse alone than the query itself.", _ORDER
        )


def check_width(vectors: Vectors, request: EmbeddingRequest) -> None:
    """Require that vectors have the requested length, or a loss of it.

    Raises:
        BrokenPromise: They have another length, and no loss says so.
    """
    is_reported = any(loss.path == "dimensions" for loss in vectors.losses)
    require(
        is_reported or vectors.width == request.dimensions,
        f"The vectors have {vectors.width} dimensions, not {request.dimensions}.",
        'Send the number, or report it: ledger.drop("dimensions", "the reason").',
    )


async def _call(model: CallModel[Any, Any], request: Any) -> Any:
    try:
        return await model.call(request)
    except ConverseError as error:
        raise BrokenPromise(
            f"A call with {len(request.texts)} texts fails: {describe(error)}. "
            f"Set max_inputs, here {model.max_inputs}, to the number that the vendor takes."
        ) from error


def _compose_texts(texts: Sequence[str], max_inputs: int) -> tuple[str, ...]:
    """Return different texts, as many as one call takes."""
    return tuple(dict.fromkeys(texts))[: min(max_inputs, MAX_TEXTS)]


def _compute_distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the square of the distance of two vectors."""
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))
