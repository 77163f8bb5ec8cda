"""Requests and responses."""

from __future__ import annotations

from vibe_llms.messages.requests import Request, Response


def encode_request(request: Request) -> bytes:
    """Returns the request as one JSON document."""
    raise NotImplementedError


def decode_request(data: bytes | str) -> Request:
    """Reads a request. Raises CodecError."""
    raise NotImplementedError


def encode_response(response: Response) -> bytes:
    """Returns the response, with its request, as one JSON document."""
    raise NotImplementedError


def decode_response(data: bytes | str) -> Response:
    """Reads a response. Raises CodecError."""
    raise NotImplementedError
