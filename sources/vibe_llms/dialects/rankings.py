"""Rankings in the form of Cohere and Jina, which most services and servers share."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from vibe_llms.dialects.call_quirks import RankingQuirks
from vibe_llms.dialects.calls import CallForm
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Origin, StopReason, Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.rankings import Ranking, RankingRequest, rank
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "rerank"


class _Row(msgspec.Struct):
    index: int
    relevance_score: float


class _Usage(msgspec.Struct):
    total_tokens: int | None = None
    prompt_tokens: int | None = None


class _Answer(msgspec.Struct):
    results: list[_Row] | None = None
    data: list[_Row] | None = None
    """Voyage's name for the results."""
    model: str | None = None
    usage: _Usage | None = None


def produce_form(quirks: RankingQuirks) -> CallForm[RankingRequest, Ranking]:
    """Return the form of a service."""

    def write(request: RankingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
        body: dict[str, Any] = {
            "model": model.name,
            "query": request.query,
            "documents": list(request.texts),
        }
        if request.most is not None:
            body[quirks.most_field] = request.most
        return Translation(body)

    return CallForm(path=quirks.path, most_inputs=quirks.most_texts, write=write, read=read)


def read(answer: bytes, request: RankingRequest, model: ModelDescriptor) -> Ranking:
    """Read an answer. Raises ValueError."""
    told: _Answer = decode(answer, _Answer)
    rows = told.results if told.results is not None else told.data
    if rows is None:
        raise ValueError("it has no results")
    places = [row.index for row in rows]
    if len({*places}) < len(places) or not {*places} <= {*range(len(request.texts))}:
        raise ValueError("the indices of its results are wrong")
    usage = None
    if told.usage is not None:
        tokens = told.usage.total_tokens or told.usage.prompt_tokens
        usage = Usage(input_tokens=tokens, native=msgspec.json.encode(told.usage).decode())
    origin = Origin(
        provider=model.provider,
        model=told.model or model.name,
        protocol=PROTOCOL,
        stop_reason=StopReason.ANSWERED,
        usage=usage,
    )
    scores = ((row.index, row.relevance_score) for row in rows)
    return Ranking(ranked=rank(scores, request), origin=origin)
