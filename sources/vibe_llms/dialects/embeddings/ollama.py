"""Embeddings of Ollama: ``/api/embed``.

Source: https://docs.ollama.com/api/embed, 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import CallFormat, ClientFormat
from vibe_llms.dialects.embeddings.results import decode, produce_vectors, read_texts
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "ollama_embed"

_READ: Final = frozenset({"dimensions", "input", "model", "truncate"})


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
    decoded: _Answer = decode(answer, _Answer)
    count = decoded.prompt_eval_count
    usage = None if count is None else Usage(input_tokens=count)
    return produce_vectors(
        decoded.embeddings, request, model, PROTOCOL, usage, reported_model=decoded.model
    )


CALL_FORMAT: Final = CallFormat[EmbeddingRequest, Vectors](
    path="/api/embed", protocol=PROTOCOL, max_inputs=512, write=nativize, read=read
)


def normalize(native: Mapping[str, Any]) -> Translation[EmbeddingRequest]:
    """Read a client's request. Raises RequestError."""
    ledger = Ledger(protocol=PROTOCOL)
    ledger.drop_unknown(native, _READ, routine=("keep_alive",))
    if native.get("truncate", True) is True:
        ledger.drop("truncate", "a text that is too long is refused", is_routine=True)
    request = EmbeddingRequest(
        texts=read_texts(native.get("input"), "input"), dimensions=native.get("dimensions")
    )
    return Translation(request, ledger.losses)


def normalize_prompt(native: Mapping[str, Any]) -> Translation[EmbeddingRequest]:
    """Read a client's request of the older call, with one text. Raises RequestError."""
    prompt = native.get("prompt")
    if not isinstance(prompt, str):
        raise RequestError(path="prompt", detail="Expected a text.", remedy="Send the prompt.")
    others = {name: value for name, value in native.items() if name != "prompt"}
    return normalize({**others, "input": prompt})


def nativize_result(vectors: Vectors, native: Mapping[str, Any], model: str) -> JsonObject:
    """Write vectors for a client."""
    answer: dict[str, Any] = {"model": model, "embeddings": [list(row) for row in vectors]}
    if vectors.usage is not None and vectors.usage.total_input_tokens is not None:
        answer["prompt_eval_count"] = vectors.usage.total_input_tokens
    return answer


def nativize_prompt(vectors: Vectors, native: Mapping[str, Any], model: str) -> JsonObject:
    """Write a vector for a client of the older call."""
    return {"embedding": list(vectors[0])}


CLIENT_FORMAT: Final = ClientFormat[EmbeddingRequest, Vectors](
    protocol=PROTOCOL, read=normalize, write=nativize_result
)
"""The format of ``/api/embed``."""

PROMPT_FORMAT: Final = ClientFormat[EmbeddingRequest, Vectors](
    protocol="", read=normalize_prompt, write=nativize_prompt
)
"""The older format of ``/api/embeddings``, for one text."""
