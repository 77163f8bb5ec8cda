"""Embeddings in OpenAI's format, which most services share.

Source: types of the package openai 3.57.0, and the manuals named in ``kinds.toml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.call_quirks import EmbeddingQuirks
from vibe_llms.dialects.calls import CallFormat, ClientFormat
from vibe_llms.dialects.embeddings.results import (
    decode,
    produce_vectors,
    read_texts,
    unpack_base64,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.vectors import EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "embeddings"
STANDARD: Final = EmbeddingQuirks()
"""The quirks of OpenAI itself. A service with the same quirks accepts the same bodies."""

_READ: Final = frozenset(
    {
        *("dimensions", "encoding_format", "input", "model"),
        *("output_dimension", "output_dtype"),  # of Mistral's clients
    }
)


class _Row(msgspec.Struct):
    embedding: str | list[float]
    index: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    total_tokens: int | None = None


class _Answer(msgspec.Struct):
    data: list[_Row]
    model: str | None = None
    usage: _Usage | None = None


def produce_call_format(quirks: EmbeddingQuirks) -> CallFormat[EmbeddingRequest, Vectors]:
    """Return the format of a service."""

    def write(request: EmbeddingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
        return nativize(request, model, quirks)

    is_standard = attrs.evolve(quirks, max_texts=STANDARD.max_texts, path=STANDARD.path) == STANDARD
    return CallFormat(
        path=quirks.path,
        protocol=PROTOCOL if is_standard else "",
        max_inputs=quirks.max_texts,
        write=write,
        read=read,
    )


def nativize(
    request: EmbeddingRequest, model: ModelDescriptor, quirks: EmbeddingQuirks
) -> Translation[JsonObject]:
    """Write the body of a request. Fields that the service does not accept are losses."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    body: dict[str, Any] = {"model": model.name, "input": list(request.texts)}
    if quirks.format_field:
        body[quirks.format_field] = "base64"
    if quirks.truncation_field:
        body[quirks.truncation_field] = False
    if request.dimensions is not None:
        if quirks.dimensions_field:
            body[quirks.dimensions_field] = request.dimensions
        else:
            ledger.drop("dimensions", "the service does not let you choose the length of vectors")
    if request.purpose is not None:
        word = quirks.purposes.get(request.purpose) if quirks.purpose_field else None
        if word:
            body[quirks.purpose_field] = word
        else:
            ledger.drop("purpose", f"the service does not know the purpose {request.purpose!r}")
    return Translation(body, ledger.losses)


def read(answer: bytes, request: EmbeddingRequest, model: ModelDescriptor) -> Vectors:
    """Read an answer. Raises ValueError."""
    decoded: _Answer = decode(answer, _Answer)
    rows = decoded.data
    if any(row.index not in (None, place) for place, row in enumerate(rows)):
        rows = sorted(rows, key=lambda row: row.index or 0)
    usage = None
    if decoded.usage is not None:
        tokens = decoded.usage.prompt_tokens
        if tokens is None:
            tokens = decoded.usage.total_tokens
        usage = Usage(input_tokens=tokens, native=msgspec.json.encode(decoded.usage).decode())
    numbers = [row.embedding for row in rows]
    return produce_vectors(
        numbers, request, model, PROTOCOL, usage, reported_model=decoded.model or ""
    )


def normalize(native: Mapping[str, Any]) -> Translation[EmbeddingRequest]:
    """Read a client's request. Raises RequestError."""
    ledger = Ledger(protocol=PROTOCOL)
    ledger.drop_unknown(native, _READ, routine=("user", "metadata"))
    if native.get("output_dtype") not in (None, "float"):
        raise RequestError(
            path="output_dtype",
            detail=f"Unknown type {native['output_dtype']!r}.",
            remedy="Use float.",
        )
    if native.get("encoding_format") not in (None, "float", "base64"):
        raise RequestError(
            path="encoding_format",
            detail=f"Unknown format {native['encoding_format']!r}.",
            remedy="Use float or base64.",
        )
    dimensions = native.get("dimensions")
    if dimensions is None:
        dimensions = native.get("output_dimension")
    request = EmbeddingRequest(
        texts=read_texts(native.get("input"), "input"), dimensions=dimensions
    )
    return Translation(request, ledger.losses)


def nativize_result(vectors: Vectors, native: Mapping[str, Any], model: str) -> JsonObject:
    """Write vectors for a client.

    Args:
        native: The client's request.
        model: The model's name, as the client knows it.
    """
    rows: Iterable[JsonValue]
    if native.get("encoding_format") == "base64":
        rows = [unpack_base64(row) for row in vectors]
    else:
        rows = [list(row) for row in vectors]
    tokens = 0 if vectors.usage is None else vectors.usage.total_input_tokens or 0
    return {
        "id": vectors.origin.response_id or produce_identity(),  # required by Mistral's library
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": row}
            for index, row in enumerate(rows)
        ],
        "model": model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


CLIENT_FORMAT: Final = ClientFormat[EmbeddingRequest, Vectors](
    protocol=PROTOCOL, read=normalize, write=nativize_result
)
