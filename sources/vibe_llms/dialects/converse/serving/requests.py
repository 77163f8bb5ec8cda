"""Requests of another vibe-llms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.converse.versions import ensure_request_version
from vibe_llms.exceptions import CodecError, RequestError
from vibe_llms.messages.codec.decoding import read_tree
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request


def normalize_request(native: Mapping[str, Any]) -> Translation[Request]:
    """Return the request in a body; the field ``stream`` is left to the caller.

    Raises:
        RequestError: The request has another version, or is invalid.
    """
    ensure_request_version(native.get("version"))
    try:
        request: Request = read_tree(native.get("request"), Request, "$.request")
    except CodecError as error:
        place = error.path.removeprefix("$.")
        raise RequestError(path=place, detail=error.detail, remedy=error.remedy) from error
    return Translation(request)
