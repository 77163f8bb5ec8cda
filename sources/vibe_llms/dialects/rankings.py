"""Rankings in the format of Cohere and Jina, which most services and servers share.

Text Embeddings Inference answers with a list, in which the score has another name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.call_quirks import RankingQuirks
from vibe_llms.dialects.calls import CallFormat, ClientFormat, produce_origin
from vibe_llms.dialects.embeddings.results import decode, read_texts
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.rankings import Ranking, RankingRequest, rank
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "rerank"

_READ: Final = frozenset({"documents", "model", "query", "return_documents", "top_n"})


class _Row(msgspec.Struct):
    index: int
    relevance_score: float | None = None
    score: float | None = None

    @property
    def number(self) -> float:
        number = self.score if self.relevance_score is None else self.relevance_score
        if number is None:
            raise ValueError("a result has no score")
        return number


class _Usage(msgspec.Struct):
    total_tokens: int | None = None
    prompt_tokens: int | None = None


class _Answer(msgspec.Struct):
    results: list[_Row] | None = None
    data: list[_Row] | None = None
    """Voyage's name for the results."""
    model: str | None = None
    usage: _Usage | None = None


def produce_call_format(quirks: RankingQuirks) -> CallFormat[RankingRequest, Ranking]:
    """Return the format of a service."""

    def write(request: RankingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
        body: dict[str, Any] = {
            "model": model.name,
            "query": request.query,
            quirks.texts_field: list(request.texts),
        }
        if request.max_results is not None and quirks.max_results_field:
            body[quirks.max_results_field] = request.max_results
        return Translation(body)

    names = (quirks.texts_field, quirks.max_results_field)
    protocol = PROTOCOL if names == ("documents", "top_n") else ""
    return CallFormat(
        path=quirks.path, protocol=protocol, max_inputs=quirks.max_texts, write=write, read=read
    )


def read(answer: bytes, request: RankingRequest, model: ModelDescriptor) -> Ranking:
    """Read an answer. Raises ValueError."""
    decoded: _Answer | list[_Row] = decode(answer, _Answer | list[_Row])
    if isinstance(decoded, list):
        decoded = _Answer(results=decoded)
    rows = decoded.results if decoded.results is not None else decoded.data
    if rows is None:
        raise ValueError("it has no results")
    indices = [row.index for row in rows]
    if len({*indices}) < len(indices) or not {*indices} <= {*range(len(request.texts))}:
        raise ValueError("the indices of its results are wrong")
    usage = None
    if decoded.usage is not None:
        tokens = decoded.usage.total_tokens or decoded.usage.prompt_tokens
        usage = Usage(input_tokens=tokens, native=msgspec.json.encode(decoded.usage).decode())
    origin = produce_origin(model, PROTOCOL, usage, reported_model=decoded.model)
    scores = [(row.index, row.number) for row in rows]
    return Ranking(ranked=rank(scores, request), origin=origin)


def normalize(native: Mapping[str, Any]) -> Translation[RankingRequest]:
    """Read a client's request in the format of Jina or Cohere. Raises RequestError."""
    ledger = Ledger(protocol=PROTOCOL)
    ledger.drop_unknown(native, _READ, routine=("priority",))
    documents = native.get("documents")
    texts = [_read_document(each) for each in documents] if isinstance(documents, list) else None
    request = RankingRequest(
        query=_ensure_text(native.get("query")),
        texts=read_texts(texts, "documents"),
        max_results=native.get("top_n"),
    )
    return Translation(request, ledger.losses)


def _read_document(document: Any) -> Any:
    return document.get("text") if isinstance(document, Mapping) else document


def _ensure_text(query: Any) -> str:
    if not isinstance(query, str):
        raise RequestError(path="query", detail="Expected a text.", remedy="Send the query.")
    return query


def nativize_result(ranking: Ranking, native: Mapping[str, Any], model: str) -> JsonObject:
    """Write a ranking for a client."""
    includes_texts = bool(native.get("return_documents"))
    tokens = 0 if ranking.usage is None else ranking.usage.total_input_tokens or 0
    return {
        "id": ranking.origin.response_id or produce_identity(),
        "model": model,
        "results": [
            {
                "index": each.index,
                "relevance_score": each.score,
                **({"document": {"text": each.text}} if includes_texts else {}),
            }
            for each in ranking
        ],
        "usage": {"total_tokens": tokens},
        "meta": write_meta("2", {"search_units": 1}),  # for Cohere's clients
    }


def write_meta(version: str, billed_units: Mapping[str, int]) -> JsonObject:
    """Return the metadata of an answer.

    Args:
        billed_units: Billed tokens or searches; empty if unknown.
    """
    billed = {"billed_units": dict(billed_units)} if billed_units else {}
    return {"api_version": {"version": version}, **billed}


CLIENT_FORMAT: Final = ClientFormat[RankingRequest, Ranking](
    protocol=PROTOCOL, read=normalize, write=nativize_result
)
