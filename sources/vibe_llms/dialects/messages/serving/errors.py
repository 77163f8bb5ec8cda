"""Errors in Anthropic's format.

The status makes the vendor's libraries raise the right class, and a code a subclass of it. Another
vendor's values are kept if clients interpret them in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vibe_llms.dialects.client_answers import (
    BLOCKED_PREFIX,
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
_UNAMBIGUOUS_TYPES: Final = {
    ProviderFault.INVALID_REQUEST: "bad_request_error",
    ProviderFault.SERVER: "server_error",
}
"""Types that clients trust more than the status, unlike the usual types."""

_FAULTS_WITH_OWN_TYPE: Final = frozenset(
    {
        ProviderFault.AUTHENTICATION,
        ProviderFault.NOT_FOUND,
        ProviderFault.PERMISSION,
        ProviderFault.RATE_LIMITED,
    }
)
"""Faults that always have a distinct type."""

_NO_BUDGET_CODE: Final = "enforced_spend_limit_reached"
"""The code of an exhausted budget; with status 429 the library has a class for it."""


def nativize_error(error: ConverseError) -> ErrorAnswer:
    """Return the status, the headers and the body of an error for a client."""
    _, status = classify(error)
    return ErrorAnswer(status, compose_error(error, status), compose_error_headers(error))


def compose_error(error: ConverseError, status: int | None = None) -> JsonObject:
    """Return the body of an error, which is also an event of a stream.

    Args:
        status: The HTTP status; ``None`` in the middle of a stream.
    """
    fault, _ = classify(error)
    message = compose_error_message(error)
    is_too_large = status == 413 and fault is ProviderFault.INVALID_REQUEST
    fields: dict[str, JsonValue] = {"type": "request_too_large" if is_too_large else _TYPES[fault]}
    if fault is ProviderFault.QUOTA:
        fields["details"] = {"error_code": _NO_BUDGET_CODE}
    candidates = [_compose(fields, message), _compose_specific(error, fault, fields, message)]
    if fault in _UNAMBIGUOUS_TYPES:
        candidates.append(_compose({"type": _UNAMBIGUOUS_TYPES[fault]}, message))
    if isinstance(error, ProviderError) and _keeps_vendor_type(error, fault):
        code = {"details": {"error_code": error.vendor_code}} if error.vendor_code else {}
        candidates.insert(0, _compose({"type": error.vendor_type, **code}, message))
    body = next((each for each in candidates if _is_read_as(each, error, status)), candidates[-1])
    request_id = error.request_id if isinstance(error, ProviderError) else None
    return {"type": "error", "error": body, "request_id": request_id}


def _keeps_vendor_type(error: ProviderError, fault: ProviderFault) -> bool:
    """Return whether to keep another vendor's type, whose meaning may differ."""
    meaning = FAULTS_BY_TYPE.get(error.vendor_type or "")
    return meaning is not None and (meaning is fault or fault not in _FAULTS_WITH_OWN_TYPE)


def _compose(fields: JsonObject, message: str, **others: JsonValue) -> JsonObject:
    return {**fields, "message": message, **others}


def _compose_specific(
    error: ConverseError, fault: ProviderFault, fields: JsonObject, message: str
) -> JsonObject:
    """Return the error. If the kind has no type of this protocol, the message shows the kind."""
    if not isinstance(error, ContextOverflowError):
        return _compose(
            fields, f"{BLOCKED_PREFIX}{message}" if fault is ProviderFault.BLOCKED else message
        )
    if error.tokens and error.limit:
        message = f"prompt is too long: {error.tokens} tokens > {error.limit} maximum"
        return _compose(fields, message)
    sizes = {"n_prompt_tokens": error.tokens, "n_ctx": error.limit}  # llama.cpp's text
    return _compose(
        fields, "prompt is too long", **{name: size for name, size in sizes.items() if size}
    )


def _is_read_as(body: JsonObject, error: ConverseError, status: int | None) -> bool:
    """Return whether a client will classify the error correctly."""
    parsed = produce_error({"error": body}, provider="", status=status)
    if isinstance(parsed, ContextOverflowError) and isinstance(error, ContextOverflowError):
        return (parsed.tokens, parsed.limit) == (error.tokens or None, error.limit or None)
    if isinstance(parsed, ContextOverflowError) or isinstance(error, ContextOverflowError):
        return False
    return classify(parsed)[0] is classify(error)[0]
