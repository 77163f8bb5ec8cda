"""Errors in OpenAI's format, for the clients of its two dialects.

The status makes OpenAI's libraries raise the right class; code and type are more specific. A
vendor's values are kept if OpenAI's clients interpret them in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.client_answers import (
    ErrorAnswer,
    classify,
    compose_error_headers,
    compose_error_message,
)
from vibe_llms.dialects.errors import ErrorData
from vibe_llms.dialects.openai_errors import read_openai_error
from vibe_llms.exceptions import (
    ContextOverflowError,
    ControlError,
    ConverseError,
    ProviderError,
    ProviderFault,
    RequestError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.foundation.json_types import JsonObject

_TYPES_AND_CODES: Final[Mapping[ProviderFault, tuple[str, str | None]]] = {
    ProviderFault.AUTHENTICATION: ("invalid_request_error", "invalid_api_key"),
    ProviderFault.PERMISSION: ("permission_error", "permission_denied"),
    ProviderFault.QUOTA: ("insufficient_quota", "insufficient_quota"),
    ProviderFault.NOT_FOUND: ("not_found_error", None),
    ProviderFault.INVALID_REQUEST: ("invalid_request_error", None),
    ProviderFault.BLOCKED: ("invalid_request_error", "content_policy_violation"),
    ProviderFault.RATE_LIMITED: ("rate_limit_error", "rate_limit_exceeded"),
    ProviderFault.OVERLOADED: ("service_unavailable_error", "server_is_overloaded"),
    ProviderFault.SERVER: ("server_error", None),
    ProviderFault.TIMEOUT: ("server_error", "timeout"),
    ProviderFault.UNKNOWN: ("unknown_error", None),
}
"""OpenAI's type and code for each fault."""

_UNAMBIGUOUS: Final = ("invalid_request_error", "unsupported_value")
"""Type and code that mean an invalid request with any status."""


def nativize_openai_error(error: ConverseError, *, conversation_field: str) -> ErrorAnswer:
    """Return an error in OpenAI's format.

    Args:
        conversation_field: The field of a request that has the conversation.
    """
    _, status = classify(error)
    body = compose_openai_error(error, conversation_field=conversation_field, status=status)
    return ErrorAnswer(status, {"error": body}, compose_error_headers(error))


def compose_openai_error(
    error: ConverseError, *, conversation_field: str, status: int | None
) -> JsonObject:
    """Return OpenAI's ``error``: a message, a type, a field and a code.

    Args:
        conversation_field: The field of a request that has the conversation.
        status: The HTTP status; ``None`` in the middle of a stream.
    """
    kind, code = _find_type_and_code(error, status)
    message = compose_error_message(error)
    if isinstance(error, ContextOverflowError):
        message = _compose_overflow_message(error, message)
    return {
        "message": message,
        "type": kind,
        "param": _find_param(error, conversation_field),
        "code": code,
    }


def _find_type_and_code(error: ConverseError, status: int | None) -> tuple[str | None, str | None]:
    """Return the type and the code: the first pair that clients will classify correctly."""
    fault, _ = classify(error)
    if isinstance(error, ContextOverflowError):
        return "invalid_request_error", "context_length_exceeded"
    if isinstance(error, UnknownNameError) and error.kind == "model":
        return "invalid_request_error", "model_not_found"
    if isinstance(error, UnknownConversationError):
        return "invalid_request_error", "previous_response_not_found"
    default = _TYPES_AND_CODES[fault]
    candidates: list[tuple[str | None, str | None]] = [default]
    if isinstance(error, ProviderError) and (error.vendor_type or error.vendor_code):
        candidates.insert(0, (error.vendor_type or default[0], error.vendor_code))
    return next((each for each in candidates if _read_fault(*each, status) is fault), _UNAMBIGUOUS)


def _read_fault(kind: str | None, code: str | None, status: int | None) -> ProviderFault | None:
    error_data = read_openai_error({"error": {"type": kind, "code": code}}, status, "")
    return error_data.fault if isinstance(error_data, ErrorData) else None


def _compose_overflow_message(error: ContextOverflowError, message: str) -> str:
    """Return a message with the numbers in OpenAI's sentences, which clients parse."""
    facts: dict[str, Any] = {"message": message, "code": "context_length_exceeded"}
    parsed = read_openai_error({"error": facts}, 400, "")
    assert isinstance(parsed, ContextOverflowError)
    if error.tokens in (None, parsed.tokens) and error.limit in (None, parsed.limit):
        return message
    sentences = []
    if error.limit is not None:
        sentences.append(f"This model's maximum context length is {error.limit} tokens.")
    if error.tokens is not None:
        start = "However, your" if sentences else "Your"
        sentences.append(f"{start} messages resulted in {error.tokens} tokens.")
    return " ".join(sentences)


def _find_param(error: ConverseError, conversation_field: str) -> str | None:
    """Return the invalid field of the client's request."""
    if isinstance(error, ProviderError):
        return error.vendor_param
    if isinstance(error, UnknownNameError) and error.kind == "model":
        return "model"
    if isinstance(error, UnknownConversationError):
        return "previous_response_id"
    if isinstance(error, ControlError) and error.control:
        return error.control
    path = error.path if isinstance(error, RequestError) else ""
    # The index of a canister is not that of the client's message.
    return conversation_field if path.startswith("canisters") else path or None
