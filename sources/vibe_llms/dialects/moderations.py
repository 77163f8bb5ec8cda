"""Moderation in OpenAI's format, which Mistral shares.

Source: types of the package openai 3.57.0, and https://docs.mistral.ai/api, 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import CallFormat, ClientFormat, produce_origin
from vibe_llms.dialects.embeddings.results import decode, read_texts
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.moderations import Moderation, ModerationRequest, ModerationVerdict
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "moderations"


class _Result(msgspec.Struct):
    categories: dict[str, bool | None]
    category_scores: dict[str, float | None]


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None


class _Answer(msgspec.Struct):
    results: list[_Result]
    id: str | None = None
    model: str | None = None
    usage: _Usage | None = None


def _write(request: ModerationRequest, model: ModelDescriptor) -> Translation[JsonObject]:
    return Translation({"model": model.name, "input": list(request.texts)})


def _read(answer: bytes, request: ModerationRequest, model: ModelDescriptor) -> Moderation:
    decoded: _Answer = decode(answer, _Answer)
    if len(decoded.results) != len(request.texts):
        raise ValueError(f"{len(decoded.results)} verdicts for {len(request.texts)} texts")
    tokens = None if decoded.usage is None else decoded.usage.prompt_tokens
    usage = None if tokens is None else Usage(input_tokens=tokens)
    origin = produce_origin(
        model, PROTOCOL, usage, reported_model=decoded.model, response_id=decoded.id
    )
    return Moderation(verdicts=tuple(map(_read_verdict, decoded.results)), origin=origin)


def _read_verdict(result: _Result) -> ModerationVerdict:
    # Some categories do not apply to texts: their values are null.
    scores = {name: score for name, score in result.category_scores.items() if score is not None}
    return ModerationVerdict(
        categories=tuple(name for name, applies in result.categories.items() if applies),
        scores=scores,
    )


CALL_FORMAT: Final = CallFormat[ModerationRequest, Moderation](
    path="/moderations", protocol=PROTOCOL, max_inputs=32, write=_write, read=_read
)


def normalize(native: Mapping[str, Any]) -> Translation[ModerationRequest]:
    """Read a client's request. Raises RequestError."""
    ledger = Ledger(protocol=PROTOCOL)
    ledger.drop_unknown(native, ("input", "model"), routine=("metadata",))
    request = ModerationRequest(texts=read_texts(native.get("input"), "input"))
    return Translation(request, ledger.losses)


def nativize_result(moderation: Moderation, native: Mapping[str, Any], model: str) -> JsonObject:
    """Write verdicts for a client."""
    return {
        "id": moderation.origin.response_id or produce_identity(),
        "model": model,
        "results": [
            {
                "flagged": verdict.is_harmful,
                "categories": {name: name in verdict.categories for name in verdict.scores},
                "category_scores": dict(verdict.scores),
            }
            for verdict in moderation
        ],
    }


CLIENT_FORMAT: Final = ClientFormat[ModerationRequest, Moderation](
    protocol=PROTOCOL, read=normalize, write=nativize_result
)
