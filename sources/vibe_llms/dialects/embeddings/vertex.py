"""Embeddings of Vertex AI: ``embedContent`` of Gemini's models, ``predict`` of earlier ones.

Source: the package google-genai 3.6.1, models.py: ``_EmbedContentParametersPrivate_to_vertex``.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import CallFormat
from vibe_llms.dialects.embeddings.google import TASKS, UsageMetadata, VectorRow
from vibe_llms.dialects.embeddings.results import decode, produce_vectors
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "vertex_embeddings"


class _Embedded(msgspec.Struct, rename="camel"):
    embedding: VectorRow
    usage_metadata: UsageMetadata | None = None


class _Statistics(msgspec.Struct):
    token_count: float | None = None


class _Predicted(msgspec.Struct):
    values: list[float]
    statistics: _Statistics | None = None


class _Prediction(msgspec.Struct):
    embeddings: _Predicted


class _Predictions(msgspec.Struct):
    predictions: list[_Prediction]


def takes_contents(model: str) -> bool:
    """Return whether a model has the method ``embedContent``; earlier ones have ``predict``."""
    name = model.rpartition("/")[2]
    return "gemini" in name or "maas" in name


def produce_call_format(model: str, path: str) -> CallFormat[EmbeddingRequest, Vectors]:
    """Return the format for one model.

    Args:
        path: The path of the model's method; see :func:`takes_contents`.
    """
    if takes_contents(model):
        return CallFormat(path=path, max_inputs=1, write=_write_content, read=_read_embedded)
    return CallFormat(path=path, max_inputs=5, write=_write_instances, read=_read_predictions)


def _write_content(request: EmbeddingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
    configuration: dict[str, Any] = {}
    if request.purpose is not None:
        configuration["taskType"] = TASKS[request.purpose]
    if request.dimensions is not None:
        configuration["outputDimensionality"] = request.dimensions
    body: dict[str, Any] = {"content": {"parts": [{"text": request.texts[0]}]}}
    return Translation({**body, "embedContentConfig": configuration} if configuration else body)


def _read_embedded(answer: bytes, request: EmbeddingRequest, model: ModelDescriptor) -> Vectors:
    decoded: _Embedded = decode(answer, _Embedded)
    tokens = None if decoded.usage_metadata is None else decoded.usage_metadata.prompt_token_count
    usage = None if tokens is None else Usage(input_tokens=tokens)
    return produce_vectors([decoded.embedding.values], request, model, PROTOCOL, usage)


def _write_instances(request: EmbeddingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
    shared = {} if request.purpose is None else {"task_type": TASKS[request.purpose]}
    # A text that is too long is refused, not cut off.
    parameters: dict[str, Any] = {"autoTruncate": False}
    if request.dimensions is not None:
        parameters["outputDimensionality"] = request.dimensions
    instances = [{"content": text, **shared} for text in request.texts]
    return Translation({"instances": instances, "parameters": parameters})


def _read_predictions(answer: bytes, request: EmbeddingRequest, model: ModelDescriptor) -> Vectors:
    decoded: _Predictions = decode(answer, _Predictions)
    rows = [each.embeddings for each in decoded.predictions]
    counts = [row.statistics.token_count for row in rows if row.statistics is not None]
    known = [int(count) for count in counts if count is not None]
    usage = Usage(input_tokens=sum(known)) if known else None
    return produce_vectors([row.values for row in rows], request, model, PROTOCOL, usage)
