"""Errors in the format of Ollama's server: a status and a sentence, without codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.dialects.client_answers import (
    ErrorAnswer,
    classify,
    compose_error_headers,
    compose_error_message,
)
from vibe_llms.dialects.ollama_chat.calling.errors import produce_error
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderFault,
    UnknownNameError,
)

_SENTENCES: Final[Mapping[ProviderFault, str]] = {
    ProviderFault.AUTHENTICATION: "unauthorized",
    ProviderFault.PERMISSION: "forbidden",
    ProviderFault.QUOTA: "usage limit reached",
    ProviderFault.NOT_FOUND: "not found",
    ProviderFault.INVALID_REQUEST: "invalid options",
    ProviderFault.BLOCKED: "blocked by the content policy",
    ProviderFault.RATE_LIMITED: "too many requests",
    ProviderFault.OVERLOADED: "server busy, please try again",
    ProviderFault.SERVER: "bad gateway",
    ProviderFault.TIMEOUT: "timed out",
    ProviderFault.UNKNOWN: "unknown error",
}
"""The server's sentence for each fault, by which clients classify errors."""


def nativize_error(error: ConverseError) -> ErrorAnswer:
    """Return the status, the headers and the body of an error for a client."""
    _, status = classify(error)
    body = {"error": compose_sentence(error, status)}
    return ErrorAnswer(status, body, compose_error_headers(error))


def compose_sentence(error: ConverseError, status: int | None) -> str:
    """Return the server's sentence for an error: the first that clients will classify correctly.

    Args:
        status: HTTP status of the answer; ``None`` in the middle of a stream.
    """
    message = compose_error_message(error).rstrip(".")
    fault, _ = classify(error)
    if isinstance(error, UnknownNameError) and error.kind == "model":
        message = f"model {error.name!r} not found"
    is_overflow = isinstance(error, ContextOverflowError)
    sentence = "prompt is too long" if is_overflow else _SENTENCES[fault]
    for text in (message, f"{sentence}: {message}"):
        received = produce_error({"error": text}, provider="", status=status)
        is_received_as_overflow = isinstance(received, ContextOverflowError)
        if classify(received)[0] is fault and is_received_as_overflow == is_overflow:
            return text
    return sentence
