"""Embeddings in Cohere's format; for clients also version 1.

Source: types of the package cohere 7.3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import CallFormat, ClientFormat
from vibe_llms.dialects.embeddings.results import decode, produce_vectors, unpack_base64
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.rankings import write_meta
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.vectors import EmbeddingRequest, Purpose, Vectors
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "cohere_embed"

_PURPOSES: Final[Mapping[str, Purpose]] = {
    "search_document": "passage",
    "search_query": "query",
    "classification": "classification",
    "clustering": "clustering",
}
_WORDS: Final[Mapping[Purpose, str]] = {purpose: word for word, purpose in _PURPOSES.items()}
_PASSAGE: Final = "search_document"
_TYPES: Final = ("float", "base64")
_READ: Final = frozenset(
    {
        *("embedding_types", "images", "input_type", "inputs", "model", "output_dimension"),
        *("texts", "truncate"),
    }
)


class _Rows(msgspec.Struct):
    float_: list[list[float]] = msgspec.field(name="float")


class _Units(msgspec.Struct):
    input_tokens: float | None = None


class _Meta(msgspec.Struct):
    billed_units: _Units | None = None


class _Answer(msgspec.Struct):
    embeddings: _Rows
    meta: _Meta | None = None


def nativize(request: EmbeddingRequest, model: ModelDescriptor) -> Translation[JsonObject]:
    """Write the body of a request; the service needs a purpose."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    word = None if request.purpose is None else _WORDS.get(request.purpose)
    if word is None:
        word = _PASSAGE
        if request.purpose is None:
            ledger.synthesize("purpose", "the service needs one; sent as search_document")
        else:
            reason = f"the service does not know {request.purpose!r}; sent as search_document"
            ledger.coerce("purpose", reason)
    body: dict[str, Any] = {
        "model": model.name,
        "texts": list(request.texts),
        "input_type": word,
        "embedding_types": ["float"],
        "truncate": "NONE",  # a text that is too long is an error
    }
    if request.dimensions is not None:
        body["output_dimension"] = request.dimensions
    return Translation(body, ledger.losses)


def read(answer: bytes, request: EmbeddingRequest, model: ModelDescriptor) -> Vectors:
    """Read an answer. Raises ValueError."""
    decoded: _Answer = decode(answer, _Answer)
    usage = None
    if decoded.meta is not None and decoded.meta.billed_units is not None:
        tokens = decoded.meta.billed_units.input_tokens
        usage = None if tokens is None else Usage(input_tokens=int(tokens))
    return produce_vectors(decoded.embeddings.float_, request, model, PROTOCOL, usage)


CALL_FORMAT: Final = CallFormat[EmbeddingRequest, Vectors](
    path="/v2/embed", protocol=PROTOCOL, max_inputs=96, write=nativize, read=read
)


def normalize(native: Mapping[str, Any]) -> Translation[EmbeddingRequest]:
    """Read a client's request. Raises RequestError."""
    ledger = Ledger(protocol=PROTOCOL)
    ledger.drop_unknown(native, _READ, routine=("priority",))
    if native.get("images"):
        raise _refuse("images", "Images cannot be embedded here.", "Send texts.")
    _read_types(native)
    word = native.get("input_type")
    purpose = _PURPOSES.get(word) if isinstance(word, str) else None
    if word is not None and purpose is None:
        ledger.drop("input_type", f"no common field represents the type {word!r}")
    if native.get("truncate") != "NONE":
        ledger.drop("truncate", "a text that is too long is refused", is_routine=True)
    request = EmbeddingRequest(
        texts=_read_texts(native), dimensions=native.get("output_dimension"), purpose=purpose
    )
    return Translation(request, ledger.losses)


def _read_texts(native: Mapping[str, Any]) -> Sequence[str]:
    inputs = native.get("inputs")
    if isinstance(inputs, list):
        return [_read_input(each, f"inputs[{index}]") for index, each in enumerate(inputs)]
    texts = native.get("texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _refuse("texts", "Expected a list of texts.", "Send texts.")
    return texts


def _read_input(value: Any, path: str) -> str:
    parts = value.get("content") if isinstance(value, Mapping) else None
    found = [part.get("text") for part in parts or () if isinstance(part, Mapping)]
    texts = [text for text in found if isinstance(text, str)]
    if not texts or len(texts) < len(parts or ()):
        raise _refuse(path, "Expected parts with texts.", "Images cannot be embedded here.")
    return "".join(texts)


def _read_types(native: Mapping[str, Any]) -> Sequence[str]:
    """Return the wanted types of numbers; none for a client of version 1 that names none."""
    wanted = native.get("embedding_types") or ()
    for each in wanted:
        if each not in _TYPES:
            detail = f"Unknown type {each!r}: only Cohere's own models round their numbers."
            raise _refuse("embedding_types", detail, f"Use {' or '.join(_TYPES)}.")
    return tuple(wanted)


def _refuse(path: str, detail: str, remedy: str) -> RequestError:
    return RequestError(path=path, detail=detail, remedy=remedy)


def nativize_result(vectors: Vectors, native: Mapping[str, Any], model: str) -> JsonObject:
    """Write vectors for a client of version 2."""
    return _write(vectors, native, _read_types(native) or ("float",), version="2")


def nativize_first(vectors: Vectors, native: Mapping[str, Any], model: str) -> JsonObject:
    """Write vectors for a client of version 1."""
    return _write(vectors, native, _read_types(native), version="1")


def _write(
    vectors: Vectors, native: Mapping[str, Any], types: Sequence[str], *, version: str
) -> JsonObject:
    embeddings: JsonValue
    if types:
        embeddings = {name: _write_rows(vectors, name) for name in types}
    else:
        embeddings = _write_rows(vectors, "float")
    tokens = None if vectors.usage is None else vectors.usage.total_input_tokens
    return {
        "id": produce_identity(),
        "response_type": "embeddings_by_type" if types else "embeddings_floats",
        "embeddings": embeddings,
        "texts": list(native.get("texts") or ()),
        "meta": write_meta(version, {} if tokens is None else {"input_tokens": tokens}),
    }


def _write_rows(vectors: Vectors, name: str) -> list[JsonValue]:
    if name == "base64":
        return [unpack_base64(row) for row in vectors]
    return [list(row) for row in vectors]


CLIENT_FORMAT: Final = ClientFormat[EmbeddingRequest, Vectors](
    protocol=PROTOCOL, read=normalize, write=nativize_result
)
"""The format of version 2."""

FIRST_FORMAT: Final = ClientFormat[EmbeddingRequest, Vectors](
    protocol="", read=normalize, write=nativize_first
)
"""The format of version 1."""
