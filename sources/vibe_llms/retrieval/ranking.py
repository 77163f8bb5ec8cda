"""Search in the database of passages: rankings by vectors and by words, joined."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from vibe_llms.conversations.index.result_rows import SearchHit
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.retrieval.database import PassageDatabase

CANDIDATES: Final = 100
"""Passages of each ranking that are joined."""

MAX_NEIGHBORS: Final = 4_096
"""Maximum number of results of sqlite-vec. Source: its ``vec0`` module, version 0.1.9."""

SNIPPET_CHARACTERS: Final = 240

RANK_CONSTANT: Final = 60
"""Weight of lower ranks when rankings are joined. Source: G. V. Cormack, C. Clarke, S. Büttcher,
Reciprocal rank fusion outperforms Condorcet, SIGIR 2009, https://doi.org/10.1145/1571941.1572114.
"""


@frozen(kw_only=True)
class MeaningHit:
    """A passage that a search has found.

    Attributes:
        collection: ``conversations``, the path of a folder, or the name of another source.
        document: Id of the conversation, or path of the file in the folder.
        item: Id of the canister; empty in a file.
        position: Index of the message in its conversation, from 0, or line of the file, from 1.
        role: Stable name of the message's role; empty in a file.
        timestamp: Time of the message, in UTC; ``None`` in a file.
        heading: The nearest heading above the passage; may be empty.
        text: The passage.
        score: Joined rank; only comparable within one search.
        similarity: Cosine of the angle between the vectors of the query and the passage; ``None``
            if only its words were found.
        relevance: Score of the configured ranker; ``None`` without one.
    """

    collection: str
    document: str
    item: str
    position: int
    role: str
    timestamp: datetime | None
    heading: str
    text: str
    score: float
    similarity: float | None
    relevance: float | None = None


def find_passages(
    database: PassageDatabase,
    collections: Sequence[str],
    vector: bytes,
    match: str,
    limit: int,
    role: str | None,
    parts: bool,
) -> list[MeaningHit]:
    """Return the best passages by vectors and by words, the best first.

    Args:
        vector: Vector of the query.
        match: The query in the syntax of SQLite's FTS5.
        limit: Maximum number.
        role: Only messages of this role.
        parts: Include conversations that belong to another one, such as a flow's visits.
    """
    wanted = min(max(CANDIDATES, 2 * limit), MAX_NEIGHBORS)
    near: list[tuple[int, float]] = []
    rankings: list[list[int]] = []
    # Scores of words are not comparable between collections, so each collection has a ranking of
    # its own; similarities are comparable, and give one ranking of all collections.
    for collection in collections:
        near += database.find_nearest(vector, wanted, collection, role=role, parts=parts)
        rankings.append(database.find_words(match, wanted, collection, role=role, parts=parts))
    near.sort(key=lambda each: -each[1])
    rankings.append([key for key, _ in near[:wanted]])
    scores = join_rankings(rankings)
    best = sorted(scores, key=lambda key: -scores[key])
    similarities = dict(near)
    hits: dict[tuple[str, str, str, int], MeaningHit] = {}
    for start in range(0, len(best), limit):  # most passages need not be read
        keys = best[start : start + limit]
        for key, (collection, document, passage) in database.read(keys).items():
            hit = MeaningHit(
                collection=collection,
                document=document,
                item=passage.item,
                position=passage.position,
                role=passage.role,
                timestamp=passage.timestamp,
                heading=passage.heading,
                text=passage.text,
                score=scores[key],
                similarity=similarities.get(key),
            )
            hits.setdefault((collection, document, passage.item, passage.position), hit)
            if len(hits) == limit:
                return list(hits.values())
    return list(hits.values())


def produce_search_hit(hit: MeaningHit, name: str | None) -> SearchHit:
    """Return a passage as a hit of the full-text search, with the beginning of its text.

    Args:
        name: Name of the conversation.
    """
    text = " ".join(hit.text.split())
    snippet = text if len(text) <= SNIPPET_CHARACTERS else f"{text[:SNIPPET_CHARACTERS]}…"
    return SearchHit(
        id=hit.document,
        name=name,
        index=hit.position,
        canister_id=hit.item,
        role=hit.role,
        timestamp=hit.timestamp or datetime.fromtimestamp(0, UTC),
        snippet=snippet,
        marks=(),
    )


def join_rankings(rankings: Iterable[Sequence[int]]) -> dict[int, float]:
    """Return the score of each key by reciprocal rank fusion: higher is better.

    Args:
        rankings: Keys, the best first.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, key in enumerate(ranking, 1):
            scores[key] = scores.get(key, 0.0) + 1.0 / (RANK_CONSTANT + rank)
    return scores
