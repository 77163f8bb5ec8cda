"""Embeddings of Amazon Bedrock: ``InvokeModel``, whose body is that of the model's vendor.

Sources: https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html
and .../model-parameters-embed.html and .../model-parameters-embed-v4.html, 2026-11-29.
"""

from __future__ import annotations

from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.calls import CallFormat
from vibe_llms.dialects.embeddings import cohere
from vibe_llms.dialects.embeddings.results import decode, produce_vectors
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "titan_embed"
_TITAN: Final = "amazon.titan-embed"
_TITAN_2: Final = "amazon.titan-embed-text-v2"
_COHERE: Final = "cohere.embed"
_TOKENS_HEADER: Final = "x-amzn-bedrock-input-token-count"
_COHERE_3: Final = ("cohere.embed-english-v3", "cohere.embed-multilingual-v3")


class _TitanAnswer(msgspec.Struct):
    embedding: list[float]
    inputTextTokenCount: int | None = None  # noqa: N815  # the vendor's name


def find_call_format(
    model: ModelDescriptor, path: str
) -> CallFormat[EmbeddingRequest, Vectors] | None:
    """Return the format of a model's calls; ``None`` for a model that embeds no texts.

    Args:
        path: The path of the model's operation.
    """
    if _TITAN in model.name:
        return CallFormat(path=path, max_inputs=1, write=nativize_titan, read=read_titan)
    if _COHERE in model.name:
        return attrs.evolve(
            cohere.CALL_FORMAT,
            path=path,
            protocol="",
            write=nativize_cohere,
            usage_header=_TOKENS_HEADER,
        )
    return None


def nativize_titan(request: EmbeddingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
    """Write the body of a request, which has one text."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    body: dict[str, Any] = {"inputText": request.texts[0]}
    if request.dimensions is not None and _TITAN_2 in model.name:
        body["dimensions"] = request.dimensions
    elif request.dimensions is not None:
        ledger.drop("dimensions", "only version 2 of the model has a choice")
    if request.purpose is not None:
        ledger.drop("purpose", "Titan has no field for it")
    return Translation(body, ledger.losses)


def read_titan(answer: bytes, request: EmbeddingRequest, model: ModelDescriptor) -> Vectors:
    """Read an answer. Raises ValueError."""
    decoded: _TitanAnswer = decode(answer, _TitanAnswer)
    count = decoded.inputTextTokenCount
    usage = None if count is None else Usage(input_tokens=count)
    return produce_vectors([decoded.embedding], request, model, PROTOCOL, usage)


def nativize_cohere(request: EmbeddingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
    """Write the body of a request, as for Cohere itself; the model is in the path."""
    translation = cohere.nativize(request, model)
    body = dict(translation.value)
    del body["model"]
    ledger = Ledger(protocol=cohere.PROTOCOL, provider=model.provider)
    if any(name in model.name for name in _COHERE_3) and "output_dimension" in body:
        del body["output_dimension"]
        ledger.drop("dimensions", "version 3 of the model has no choice")
    return Translation(body, (*translation.losses, *ledger.losses))
