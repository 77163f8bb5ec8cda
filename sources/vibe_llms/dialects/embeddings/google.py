"""Embeddings of the Gemini API: ``batchEmbedContents``.

Source: types of the package google-genai 3.6.1, and https://ai.google.dev/api/embeddings,
2026-11-29.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import CallFormat, ClientFormat
from vibe_llms.dialects.embeddings.results import decode, produce_vectors
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.vectors import PURPOSES, EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "embed_contents"
TASKS: Final = {
    "query": "RETRIEVAL_QUERY",
    "passage": "RETRIEVAL_DOCUMENT",
    "similarity": "SEMANTIC_SIMILARITY",
    "classification": "CLASSIFICATION",
    "clustering": "CLUSTERING",
}


class VectorRow(msgspec.Struct):
    """One vector."""

    values: list[float]


class UsageMetadata(msgspec.Struct, rename="camel"):
    """Usage of a request."""

    prompt_token_count: int | None = None


class _Answer(msgspec.Struct, rename="camel"):
    embeddings: list[VectorRow]
    usage_metadata: UsageMetadata | None = None


def produce_call_format(path: str, resource: str) -> CallFormat[EmbeddingRequest, Vectors]:
    """Return the format for one model.

    Args:
        path: The path of the model's method.
        resource: The model's resource name, which each text repeats.
    """

    def write(request: EmbeddingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
        return nativize(request, resource)

    return CallFormat(path=path, protocol=PROTOCOL, max_inputs=100, write=write, read=read)


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
    decoded: _Answer = decode(answer, _Answer)
    tokens = None if decoded.usage_metadata is None else decoded.usage_metadata.prompt_token_count
    usage = None if tokens is None else Usage(input_tokens=tokens)
    rows = [row.values for row in decoded.embeddings]
    return produce_vectors(rows, request, model, PROTOCOL, usage)


_READ: Final = frozenset({"content", "model", "outputDimensionality", "taskType"})


def normalize_batch(native: Mapping[str, Any]) -> Translation[EmbeddingRequest]:
    """Read a client's request of ``batchEmbedContents``. Raises RequestError."""
    entries = native.get("requests")
    if not isinstance(entries, list) or not all(isinstance(each, Mapping) for each in entries):
        raise RequestError(path="requests", detail="Expected a list.", remedy="Send requests.")
    ledger = Ledger(protocol=PROTOCOL)
    texts = [_read_text(each, f"requests[{index}].", ledger) for index, each in enumerate(entries)]
    shared = {(each.get("taskType"), each.get("outputDimensionality")) for each in entries}
    if len(shared) > 1:
        detail = "The requests differ in taskType or outputDimensionality."
        remedy = "Send them in separate batches."
        raise RequestError(path="requests", detail=detail, remedy=remedy)
    task, dimensions = next(iter(shared), (None, None))
    return _compose(texts, task, dimensions, ledger)


def normalize(native: Mapping[str, Any]) -> Translation[EmbeddingRequest]:
    """Read a client's request of ``embedContent``. Raises RequestError."""
    ledger = Ledger(protocol=PROTOCOL)
    text = _read_text(native, "", ledger)
    return _compose([text], native.get("taskType"), native.get("outputDimensionality"), ledger)


def _read_text(entry: Mapping[str, Any], path: str, ledger: Ledger) -> str:
    content = entry.get("content")
    parts = content.get("parts") if isinstance(content, Mapping) else None
    found = [part.get("text") for part in parts or () if isinstance(part, Mapping)]
    texts = [text for text in found if isinstance(text, str)]
    if not texts or len(texts) < len(parts or ()):
        detail = "Expected parts with texts; other contents cannot be embedded here."
        raise RequestError(path=f"{path}content", detail=detail, remedy="Send texts.")
    ledger.drop_unknown(entry, _READ, path=path)
    return "".join(texts)


def _compose(
    texts: Sequence[str], task: Any, dimensions: Any, ledger: Ledger
) -> Translation[EmbeddingRequest]:
    purpose = next((each for each in PURPOSES if TASKS[each] == task), None)
    if task is not None and purpose is None:
        ledger.drop("taskType", f"no common field represents the task {task!r}")
    request = EmbeddingRequest(texts=texts, dimensions=dimensions, purpose=purpose)
    return Translation(request, ledger.losses)


def nativize_batch(vectors: Vectors, native: Mapping[str, Any], model: str) -> JsonObject:
    """Write vectors for a client of ``batchEmbedContents``."""
    return {"embeddings": [{"values": list(row)} for row in vectors]}


def nativize_result(vectors: Vectors, native: Mapping[str, Any], model: str) -> JsonObject:
    """Write a vector for a client of ``embedContent``."""
    return {"embedding": {"values": list(vectors[0])}}


CLIENT_FORMAT: Final = ClientFormat[EmbeddingRequest, Vectors](
    protocol="", read=normalize, write=nativize_result
)
"""The format of ``embedContent``."""

BATCH_FORMAT: Final = ClientFormat[EmbeddingRequest, Vectors](
    protocol="",  # never passed through: each request repeats the model's name
    read=normalize_batch,
    write=nativize_batch,
)
"""The format of ``batchEmbedContents``."""
