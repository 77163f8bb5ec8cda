"""Requests of clients to count the tokens of another request, which they contain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.bedrock.quirks import PROTOCOL
from vibe_llms.dialects.bedrock.serving.errors import nativize_error
from vibe_llms.dialects.bedrock.serving.requests import normalize_request as normalize_inner
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

__all__ = ["PROTOCOL", "nativize_error", "normalize_request"]


def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Read the request whose tokens are counted. Raises RequestError."""
    match native:
        case {"input": {"converse": dict(counted)}}:
            return normalize_inner(counted, attributes, cache)
    raise RequestError(
        path="input.converse",
        detail="Only the tokens of a request to Converse are counted.",
        remedy="Send it as input.converse.",
    )
