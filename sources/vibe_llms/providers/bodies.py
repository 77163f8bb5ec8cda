"""A native request as the bytes that are sent."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject


class EncodedBody(NamedTuple):
    """A body as it is sent.

    Attributes:
        data: The bytes.
        content_type: What they are.
    """

    data: bytes
    content_type: str = "application/json"


def encode_body(body: JsonObject) -> bytes:
    """Returns a request as JSON. Raises RequestError."""
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(
            detail=f"The request cannot be written as JSON: {error}.",
            remedy="Half a surrogate pair in a text is the usual cause.",
        ) from error
