"""Errors in Anthropic's format.

The status makes the vendor's libraries raise the right class, and a code its subclass. Another
vendor's own values are kept if clients understand them in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.dialects.client_answers import (
    ErrorAnswer,
    classify,
    compose_error_headers,
    compose_error_message,
)
from vibe_llms.dialects.messages.calling.errors import FAULTS_BY_TYPE, produce_error
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
)
from vibe_llms.foundation.json_types import JsonObject, JsonValue

_TYPES: Final[Mapping[ProviderFault, str]] = {
    ProviderFault.AUTHENTICATION: "authentication_error",
    ProviderFault.PERMISSION: "permission_error",
    ProviderFault.QUOTA: "billing_error",
    ProviderFault.NOT_FOUND: "not_found_error",
    ProviderFault.INVALID_REQUEST: "invalid_request_error",
    ProviderFault.BLOCKED: "invalid_request_error",
    ProviderFault.RATE_LIMITED: "rate_limit_error",
    ProviderFault.OVERLOADED: "overloaded_error",
    ProviderFault.SERVER: "api_error",
    ProviderFault.TIMEOUT: "timeout_error",
    ProviderFault.UNKNOWN: "unknown_error",
}
_CERTAIN: Final = {
    ProviderFault.INVALID_REQUEST: "bad_request_error",
    ProviderFault.SERVER: "server_error",
}
"""Types that win over a status with another meaning, unlike the usual ones."""

_OWN_WORDS: Final = frozenset(
    {
        ProviderFault.AUTHENTICATION,
        ProviderFault.NOT_FOUND,
        ProviderFault.PERMISSION,
        ProviderFault.RATE_LIMITED,
    }
)
"""Faults that always have a type of their own."""

_SPENT: Final = "enforced_spend_limit_reached"
"""The code of an exhausted budget; with status 429 the library has a class for it."""

_BLOCKED: Final = "Blocked by content filtering policy: "
"""Beginning of the vendor's message, as it has no type for this."""


def nativize_error(error: ConverseError) -> ErrorAnswer:
    """Return the status, the headers and the body of an error for a client."""
    _, status = classify(error)
    return ErrorAnswer(status, compose_error(error, status), compose_error_headers(error))


def compose_error(error: ConverseError, status: int | None = None) -> JsonObject:
    """Return the body of an error, which is also an event of a stream.

    Args:
        status: Its status; none in the middle of a stream.
    """
    fault, _ = classify(error)
    message = compose_error_message(error)
    is_too_large = status == 413 and fault is ProviderFault.INVALID_REQUEST
    words: dict[str, JsonValue] = {"type": "request_too_large" if is_too_large else _TYPES[fault]}
    if fault is ProviderFault.QUOTA:
        words["details"] = {"error_code": _SPENT}
    tried = [_compose(words, message), _tell_kind(error, fault, words, message)]
    if fault in _CERTAIN:
        tried.append(_compose({"type": _CERTAIN[fault]}, message))
    if isinstance(error, ProviderError) and _is_word_here(error, fault):
        code = {"details": {"error_code": error.vendor_code}} if error.vendor_code else {}
        tried.insert(0, _compose({"type": error.vendor_type, **code}, message))
    body = next((each for each in tried if _reads_as(each, error, status)), tried[-1])
    request_id = error.request_id if isinstance(error, ProviderError) else None
    return {"type": "error", "error": body, "request_id": request_id}


def _is_word_here(error: ProviderError, fault: ProviderFault) -> bool:
    """Return whether to keep a vendor's type; one of OpenAI's may have another meaning here."""
    meant = FAULTS_BY_TYPE.get(error.vendor_type or "")
    return meant is not None and (meant is fault or fault not in _OWN_WORDS)


def _compose(words: JsonObject, message: str, **more: JsonValue) -> JsonObject:
    return {**words, "message": message, **more}


def _tell_kind(
    error: ConverseError, fault: ProviderFault, words: JsonObject, message: str
) -> JsonObject:
    """Return the error with a message that alone shows its kind here."""
    if not isinstance(error, ContextOverflowError):
        return _compose(
            words, f"{_BLOCKED}{message}" if fault is ProviderFault.BLOCKED else message
        )
    if error.tokens and error.limit:
        told = f"prompt is too long: {error.tokens} tokens > {error.limit} maximum"
        return _compose(words, told)
    known = {"n_prompt_tokens": error.tokens, "n_ctx": error.limit}  # llama.cpp's text
    return _compose(words, "prompt is too long", **{k: v for k, v in known.items() if v})


def _reads_as(body: JsonObject, error: ConverseError, status: int | None) -> bool:
    """Return whether a client will classify it correctly."""
    read = produce_error({"error": body}, provider="", status=status)
    if isinstance(read, ContextOverflowError) and isinstance(error, ContextOverflowError):
        return (read.tokens, read.limit) == (error.tokens or None, error.limit or None)
    if isinstance(read, ContextOverflowError) or isinstance(error, ContextOverflowError):
        return False
    return classify(read)[0] is classify(error)[0]
