"""Rankings of texts by their relevance to a query, and the request for one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import is_integer
from vibe_llms.messages.call_results import CallResultSequence, join_losses, join_origins
from vibe_llms.messages.vectors import ensure_texts


def _ensure_query(query: str) -> str:
    if not query.strip():
        raise RequestError(path="query", detail="The query is empty.", remedy="Give a text.")
    return query


@frozen(kw_only=True)
class RankingRequest:
    """A request to rank texts.

    Attributes:
        query: The question or the words searched for.
        texts: The texts to rank.
        max_results: Number of the best texts to return; ``None`` for all.
        strict: Raise an error if the translation loses anything.

    Raises:
        RequestError: There are no texts, one of them or the query is blank, or a field is invalid.
    """

    query: str = attrs.field(converter=_ensure_query)
    texts: tuple[str, ...] = attrs.field(converter=ensure_texts)
    max_results: int | None = None
    strict: bool = False

    def __attrs_post_init__(self) -> None:
        count = self.max_results
        if count is not None and not (is_integer(count) and count > 0):
            detail = f"The number of texts to return is {count!r}."
            raise RequestError(path="max_results", detail=detail, remedy="Give a positive integer.")


@frozen
class RankedText:
    """One text of a ranking.

    Attributes:
        index: Place of the text among those of the request.
        score: Relevance of the text; scores of different models cannot be compared.
        text: The text.
    """

    index: int
    score: float
    text: str


@frozen(kw_only=True)
class Ranking(CallResultSequence[RankedText]):
    """Texts by their relevance to a query, the most relevant first.

    Attributes:
        ranked: The texts.
    """

    ranked: tuple[RankedText, ...]

    @property
    def _items(self) -> tuple[RankedText, ...]:
        return self.ranked


def rank(scores: Iterable[tuple[int, float]], request: RankingRequest) -> tuple[RankedText, ...]:
    """Return texts by their scores, the best first; equal scores keep the order of the texts.

    Args:
        scores: Indices and scores.
    """
    texts = request.texts
    ordered = sorted(scores, key=lambda each: (-each[1], each[0]))
    return tuple(RankedText(i, score, texts[i]) for i, score in ordered[: request.max_results])


def join_rankings(
    parts: Sequence[Ranking], counts: Sequence[int], request: RankingRequest
) -> Ranking:
    """Return the rankings of parts of the texts, in their order, as one.

    Scores of one model can be compared, as each depends on the query and one text only.

    Args:
        counts: Number of texts of each part.
    """
    if len(parts) == 1:
        return parts[0]
    scores: list[tuple[int, float]] = []
    start = 0
    for part, count in zip(parts, counts, strict=True):
        scores += [(start + each.index, each.score) for each in part]
        start += count
    ranked = rank(scores, request)
    return Ranking(ranked=ranked, origin=join_origins(parts), losses=join_losses(parts))
