"""Conversion of a vendor's numbers to vectors."""

from __future__ import annotations

import sys
from array import array
from binascii import a2b_base64, b2a_base64
from collections.abc import Sequence
from typing import Any

import msgspec

from vibe_llms.dialects.calls import produce_origin
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.vectors import FLOAT_BYTES, EmbeddingRequest, Vectors
from vibe_llms.models.descriptors import ModelDescriptor


def produce_vectors(
    rows: Sequence[str | array[float] | Sequence[float]],
    request: EmbeddingRequest,
    model: ModelDescriptor,
    protocol: str,
    usage: Usage | None,
    *,
    reported_model: str = "",
    losses: Sequence[Loss] = (),
) -> Vectors:
    """Join the rows of an answer to vectors.

    Args:
        rows: Numbers, or the base64 text of little-endian 32-bit floats; one row for each text.
        usage: The reported usage.
        reported_model: The model that is named in the answer; empty if there is none.
        losses: Losses of the translation.

    Raises:
        ValueError: The number of rows differs from the number of texts, or rows have different
            lengths.
    """
    if len(rows) != len(request.texts):
        raise ValueError(f"{len(rows)} vectors for {len(request.texts)} texts")
    packed = [pack_row(row) for row in rows]
    size = len(packed[0])
    if not size or size % FLOAT_BYTES or any(len(row) != size for row in packed):
        raise ValueError("the vectors have different lengths, or none")
    origin = produce_origin(model, protocol, usage, reported_model=reported_model)
    width = size // FLOAT_BYTES
    return Vectors(data=b"".join(packed), width=width, origin=origin, losses=tuple(losses))


def pack_row(row: str | Sequence[float]) -> bytes:
    """Return a row as 32-bit floats of this machine. Raises ValueError."""
    if not isinstance(row, str):
        return array("f", row).tobytes()
    data = a2b_base64(row)
    if sys.byteorder == "big":
        numbers = array("f", data)
        numbers.byteswap()
        data = numbers.tobytes()
    return data


def decode(answer: bytes | str, kind: Any) -> Any:
    """Decode an answer.

    Raises:
        ValueError: The answer is not JSON, or a field has the wrong type.
    """
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.DecodeError as error:  # its text is one line with the path of the field
        raise ValueError(str(error)) from None


def unpack_base64(row: Sequence[float]) -> str:
    """Return a row as the base64 text of little-endian 32-bit floats."""
    numbers = array("f", row)
    if sys.byteorder == "big":
        numbers.byteswap()
    return b2a_base64(numbers.tobytes(), newline=False).decode()


def read_texts(value: Any, path: str) -> list[str]:
    """Return the texts of a client's request: one, or a list. Raises RequestError."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        detail = "Expected a text or a list of texts; tokens cannot be translated."
        raise RequestError(path=path, detail=detail, remedy="Send the texts themselves.")
    return texts
