"""The name of a request's meaning."""

from __future__ import annotations

from vibe_llms.messages.requests import Request


def digest_request(request: Request) -> str:
    """Returns the SHA-256 of the request's meaning."""
    raise NotImplementedError
