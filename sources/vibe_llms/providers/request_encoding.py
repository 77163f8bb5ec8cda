"""Encoding of native requests."""

from __future__ import annotations

import msgspec

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.forms import EncodedBody as EncodedBody
from vibe_llms.foundation.json_types import JsonObject


def encode_body(body: JsonObject) -> bytes:
    """Encode a request as JSON. Raises RequestError."""
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(
            detail=f"The request cannot be encoded as JSON: {error}.",
            remedy="A lone surrogate in a text is the usual cause.",
        ) from error
