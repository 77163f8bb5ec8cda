"""Errors for clients in Google's format.

By the HTTP status, the vendor's libraries choose the class of the exception; the status name and
the reason in the details tell more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from vibe_llms.dialects.client_answers import (
    ErrorAnswer,
    classify,
    compose_error_headers,
    compose_error_message,
)
from vibe_llms.dialects.google_errors import (
    FAULTS_BY_STATUS_NAME,
    UNSPECIFIED,
    produce_google_error,
)
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
)
from vibe_llms.foundation.json_types import JsonObject, JsonValue

_NAMES: Final[Mapping[ProviderFault, tuple[str, str | None]]] = {
    ProviderFault.AUTHENTICATION: ("UNAUTHENTICATED", None),
    ProviderFault.PERMISSION: ("PERMISSION_DENIED", None),
    ProviderFault.QUOTA: ("RESOURCE_EXHAUSTED", "RESOURCE_QUOTA_EXCEEDED"),
    ProviderFault.NOT_FOUND: ("NOT_FOUND", None),
    ProviderFault.INVALID_REQUEST: ("INVALID_ARGUMENT", None),
    ProviderFault.BLOCKED: ("INVALID_ARGUMENT", "SAFETY"),
    ProviderFault.RATE_LIMITED: ("RESOURCE_EXHAUSTED", None),
    ProviderFault.OVERLOADED: ("UNAVAILABLE", None),
    ProviderFault.SERVER: ("INTERNAL", None),
    ProviderFault.TIMEOUT: ("DEADLINE_EXCEEDED", None),
    ProviderFault.UNKNOWN: ("UNKNOWN", UNSPECIFIED),
}
"""The vendor's name of each fault, and a reason if that alone is ambiguous."""

_UNAMBIGUOUS_NAMES: Final[Mapping[ProviderFault, tuple[str, str | None]]] = {
    ProviderFault.INVALID_REQUEST: ("OUT_OF_RANGE", None),
    ProviderFault.RATE_LIMITED: ("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED"),
}
"""Names that determine the fault alone, without the message."""

_TYPE_PREFIX: Final = "type.googleapis.com/google.rpc."


def nativize_google_error(error: ConverseError) -> ErrorAnswer:
    """Return the status, the headers and the body of an error for a client."""
    body = compose_google_error(error)
    return ErrorAnswer(classify(error)[1], body, compose_error_headers(error))


def compose_google_error(error: ConverseError) -> JsonObject:
    """Return the body of an error, which is also a chunk of a stream."""
    fault, _ = classify(error)
    candidates: list[tuple[str, str | None]] = [
        _NAMES[fault],
        _UNAMBIGUOUS_NAMES.get(fault, _NAMES[fault]),
    ]
    if isinstance(error, ProviderError) and error.vendor_type in FAULTS_BY_STATUS_NAME:
        code = error.vendor_code or ""
        candidates.insert(0, (error.vendor_type, None if code.isdecimal() else code or None))
    bodies = [_compose(error, *names) for names in candidates]
    return next((each for each in bodies if _is_classified_like(each, error)), bodies[-1])


def _compose(error: ConverseError, status_name: str, reason: str | None) -> JsonObject:
    message = compose_error_message(error)
    if isinstance(error, ContextOverflowError):
        message = _format_overflow(error)
    body: dict[str, JsonValue] = {
        "code": classify(error)[1],
        "message": message,
        "status": status_name,
    }
    if details := list(_list_details(error, reason)):
        body["details"] = details
    return {"error": body}


def _list_details(error: ConverseError, reason: str | None) -> Iterator[JsonObject]:
    if reason is not None:
        yield {"@type": f"{_TYPE_PREFIX}ErrorInfo", "reason": reason, "domain": "googleapis.com"}
    retry_after = compose_error_headers(error).get("retry-after")
    if retry_after is not None:
        yield {"@type": f"{_TYPE_PREFIX}RetryInfo", "retryDelay": f"{retry_after}s"}


def _format_overflow(error: ContextOverflowError) -> str:
    """Return the vendor's sentence, which clients parse for the numbers."""
    tokens = f" ({error.tokens})" if error.tokens else ""
    limit = f" ({error.limit})" if error.limit else ""
    count = f"The input token count{tokens}"
    return f"{count} exceeds the maximum number of tokens allowed{limit}."


def _is_classified_like(body: JsonObject, error: ConverseError) -> bool:
    """Return whether a client will classify a body like the original error."""
    read = produce_google_error(body, provider="", status=classify(error)[1])
    if isinstance(read, ContextOverflowError) or isinstance(error, ContextOverflowError):
        return type(read) is type(error)
    return classify(read)[0] is classify(error)[0]
