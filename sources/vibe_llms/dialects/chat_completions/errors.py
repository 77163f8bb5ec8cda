"""What a vendor's error means: a table in which the most specific word wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
)

FAULTS_BY_WORD: Final = {
    "authentication_error": ProviderFault.AUTHENTICATION,
    "content_filter": ProviderFault.BLOCKED,
    "content_policy_violation": ProviderFault.BLOCKED,
    "insufficient_quota": ProviderFault.QUOTA,
    "invalid_api_key": ProviderFault.AUTHENTICATION,
    "invalid_request_error": ProviderFault.INVALID_REQUEST,
    "model_not_found": ProviderFault.NOT_FOUND,
    "not_found_error": ProviderFault.NOT_FOUND,
    "overloaded_error": ProviderFault.OVERLOADED,
    "permission_error": ProviderFault.PERMISSION,
    "rate_limit_error": ProviderFault.RATE_LIMITED,
    "rate_limit_exceeded": ProviderFault.RATE_LIMITED,
    "server_error": ProviderFault.SERVER,
    "timeout": ProviderFault.TIMEOUT,
    "unavailable_error": ProviderFault.OVERLOADED,
}
"""From a code or a type in the vendor's words; codes are looked up first."""

FAULTS_BY_STATUS: Final = {
    400: ProviderFault.INVALID_REQUEST,
    401: ProviderFault.AUTHENTICATION,
    402: ProviderFault.QUOTA,
    403: ProviderFault.PERMISSION,
    404: ProviderFault.NOT_FOUND,
    408: ProviderFault.TIMEOUT,
    422: ProviderFault.INVALID_REQUEST,
    429: ProviderFault.RATE_LIMITED,
    503: ProviderFault.OVERLOADED,
    504: ProviderFault.TIMEOUT,
    529: ProviderFault.OVERLOADED,
}
_OVERFLOW_WORDS: Final = ("context_length_exceeded", "exceed_context_size_error")


def produce_error(
    body: object,
    *,
    provider: str,
    model: str = "",
    status: int | None = None,
    request_id: str | None = None,
    retry_after_seconds: float | None = None,
) -> ConverseError:
    """Makes the exception for an error in the vendor's words.

    Args:
        body: What came: ``{"error": {…}}``, the inner dictionary, or anything else.
        status: The HTTP status; the ``code`` in the body where the error came in a stream.
    """
    facts = _find_facts(body)
    code, kind = facts.get("code"), facts.get("type")
    words = [str(word).lower() for word in (code, kind) if isinstance(word, str)]
    message = str(facts.get("message") or "it gave no reason.")
    if status is None and isinstance(code, int):
        status = code
    if any(word in _OVERFLOW_WORDS for word in words):
        return _produce_overflow(facts, message, model)
    return ProviderError(
        provider=provider,
        fault=_find_fault(words, status),
        detail=message,
        status=status,
        vendor_type=None if kind is None else str(kind),
        vendor_code=None if code is None else str(code),
        request_id=request_id,
        retry_after_seconds=retry_after_seconds,
    )


def _find_facts(body: object) -> Mapping[str, Any]:
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    return inner if isinstance(inner, Mapping) else {"message": inner}


def _find_fault(words: list[str], status: int | None) -> ProviderFault:
    for word in words:
        # An error type that every refusal shares says less than the status does.
        if word in FAULTS_BY_WORD and (word != "invalid_request_error" or status is None):
            return FAULTS_BY_WORD[word]
    if status is None or status < 400:
        return ProviderFault.UNKNOWN
    return FAULTS_BY_STATUS.get(
        status, ProviderFault.SERVER if status >= 500 else ProviderFault.INVALID_REQUEST
    )


def _produce_overflow(facts: Mapping[str, Any], message: str, model: str) -> ContextOverflowError:
    tokens, limit = facts.get("n_prompt_tokens"), facts.get("n_ctx")
    return ContextOverflowError(
        model=model,
        tokens=tokens if isinstance(tokens, int) else None,
        limit=limit if isinstance(limit, int) else None,
        detail=message if message.endswith(".") else f"{message}.",
        remedy="Shorten the conversation, or use a model with a larger window.",
        path="canisters",
    )
