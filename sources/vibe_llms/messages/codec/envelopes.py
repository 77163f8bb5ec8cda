"""Requests and responses as JSON documents: what crosses to another process."""

from __future__ import annotations

from typing import Any

import attrs

from vibe_llms.messages.codec.canonical import canonicalize, encode_document
from vibe_llms.messages.codec.reading import read_json
from vibe_llms.messages.requests import Request, Response


def encode_request(request: Request) -> bytes:
    """Returns the request as one JSON document.

    Equal requests have equal bytes. Controls are written with their keys in order; schemas
    with theirs as they were given, which is part of what they say.

    Raises:
        CodecError: JSON cannot say a control, a schema or a text.
    """
    return _encode(request)


def decode_request(data: bytes | str) -> Request:
    """Reads a request.

    Raises:
        CodecError: It is none; names the path and the words known there.
    """
    request: Request = read_json(data, Request)
    return request


def encode_response(response: Response) -> bytes:
    """Returns the response, with the request that it answers, as one JSON document.

    Raises:
        CodecError: JSON cannot say a control, a schema, a number or a text.
    """
    return _encode(response)


def decode_response(data: bytes | str) -> Response:
    """Reads a response.

    Raises:
        CodecError: It is none; names the path and the words known there.
    """
    response: Response = read_json(data, Response)
    return response


def _encode(envelope: Request | Response) -> bytes:
    return encode_document(_unfold(envelope, "$"))


def _unfold(value: Any, path: str) -> Any:
    """Opens envelopes down to canisters, which msgspec writes itself, and to plain data."""
    if not attrs.has(type(value)):
        if isinstance(value, tuple):
            return [_unfold(each, f"{path}[{index}]") for index, each in enumerate(value)]
        return canonicalize(value, path, keeps_order=True)  # controls are in order already
    if hasattr(value, "role"):
        return value
    return {
        field.name: _unfold(getattr(value, field.name), f"{path}.{field.name}")
        for field in attrs.fields(type(value))
    }
