"""Embeddings of the Gemini API: ``batchEmbedContents``.

Source: types of the package google-genai 3.6.1, and https://ai.google.dev/api/embeddings,
2026-11-29.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import CallForm
from vibe_llms.dialects.embeddings.results import decode, produce_vectors
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "embed_contents"
TASKS: Final = {
    "query": "RETRIEVAL_QUERY",
    "passage": "RETRIEVAL_DOCUMENT",
    "similarity": "SEMANTIC_SIMILARITY",
    "classification": "CLASSIFICATION",
    "clustering": "CLUSTERING",
}


class _Row(msgspec.Struct):
    values: list[float]


class _Usage(msgspec.Struct, rename="camel"):
    prompt_token_count: int | None = None


class _Answer(msgspec.Struct, rename="camel"):
    embeddings: list[_Row]
    usage_metadata: _Usage | None = None


def produce_form(path: str, resource: str) -> CallForm[EmbeddingRequest, Vectors]:
    """Return the form for one model.

    Args:
        path: The path of the model's method.
        resource: The model's resource name, which each text repeats.
    """

    def write(request: EmbeddingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
        return nativize(request, resource)

    return CallForm(path=path, most_inputs=100, write=write, read=read)


def nativize(request: EmbeddingRequest, resource: str) -> Translation[JsonObject]:
    """Write the body of a request."""
    shared: dict[str, Any] = {"model": resource}
    if request.purpose is not None:
        shared["taskType"] = TASKS[request.purpose]
    if request.dimensions is not None:
        shared["outputDimensionality"] = request.dimensions
    requests = [{**shared, "content": {"parts": [{"text": text}]}} for text in request.texts]
    return Translation({"requests": requests})


def read(answer: bytes, request: EmbeddingRequest, model: ModelDescriptor) -> Vectors:
    """Read an answer. Raises ValueError."""
    told: _Answer = decode(answer, _Answer)
    counted = None if told.usage_metadata is None else told.usage_metadata.prompt_token_count
    usage = None if counted is None else Usage(input_tokens=counted)
    rows = [row.values for row in told.embeddings]
    return produce_vectors(rows, request, model, PROTOCOL, usage)
