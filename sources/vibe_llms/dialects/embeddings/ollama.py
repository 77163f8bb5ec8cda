"""Embeddings of Ollama: ``/api/embed``.

Source: https://docs.ollama.com/api/embed, 2026-11-29.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import CallForm
from vibe_llms.dialects.embeddings.results import decode, produce_vectors
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "ollama_embed"


class _Answer(msgspec.Struct):
    embeddings: list[list[float]]
    model: str = ""
    prompt_eval_count: int | None = None


def nativize(request: EmbeddingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
    """Write the body of a request. A text that is too long is refused, not cut off."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    body: dict[str, Any] = {"model": model.name, "input": list(request.texts), "truncate": False}
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    if request.purpose is not None:
        ledger.drop("purpose", "Ollama has no purpose; some models want it as a prefix of the text")
    return Translation(body, ledger.losses)


def read(answer: bytes, request: EmbeddingRequest, model: ModelDescriptor) -> Vectors:
    """Read an answer. Raises ValueError."""
    told: _Answer = decode(answer, _Answer)
    count = told.prompt_eval_count
    usage = None if count is None else Usage(input_tokens=count)
    return produce_vectors(told.embeddings, request, model, PROTOCOL, usage, answered=told.model)


FORM: Final = CallForm[EmbeddingRequest, Vectors](
    path="/api/embed", most_inputs=512, write=nativize, read=read
)
