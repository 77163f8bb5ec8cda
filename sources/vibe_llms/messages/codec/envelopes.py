"""Requests and responses as JSON documents, to send them to another process."""

from __future__ import annotations

from typing import Any

import attrs

from vibe_llms.messages.codec.canonical import canonicalize, encode_document
from vibe_llms.messages.codec.decoding import read_json
from vibe_llms.messages.codec.mirrors import OMITTED_FIELDS
from vibe_llms.messages.requests import Request, Response


def encode_request(request: Request) -> bytes:
    """Return the request as one JSON document.

    Equal requests have equal bytes. The keys of controls are sorted; those of schemas keep their
    order, which is part of the meaning.

    Raises:
        CodecError: JSON cannot represent a control, a schema or a text.
    """
    return _encode(request)


def decode_request(data: bytes | str) -> Request:
    """Decode a request.

    Raises:
        CodecError: It is invalid; the error has the path and the known names.
    """
    request: Request = read_json(data, Request)
    return request


def encode_response(response: Response) -> bytes:
    """Return the response, with its request, as one JSON document.

    Raises:
        CodecError: JSON cannot represent a control, a schema, a number or a text.
    """
    return _encode(response)


def decode_response(data: bytes | str) -> Response:
    """Decode a response.

    Raises:
        CodecError: It is invalid; the error has the path and the known names.
    """
    response: Response = read_json(data, Response)
    return response


def _encode(envelope: Request | Response) -> bytes:
    return encode_document(_unfold(envelope, "$"))


def _unfold(value: Any, path: str) -> Any:
    """Unfold envelopes into canisters, which msgspec encodes itself, and plain data."""
    if not attrs.has(type(value)):
        if isinstance(value, tuple):
            return [_unfold(each, f"{path}[{index}]") for index, each in enumerate(value)]
        return canonicalize(value, path, keeps_order=True)  # keys of controls are sorted already
    if hasattr(value, "role"):
        return value
    return {
        field.name: _unfold(getattr(value, field.name), f"{path}.{field.name}")
        for field in attrs.fields(type(value))
        if field.name not in OMITTED_FIELDS or getattr(value, field.name) is not None
    }
