"""Classification of errors of OpenAI, and of the many vendors with the same format.

A table in which the most specific name wins: a code before a type, and both before the status. The
message is only used for an input that is too long, as some vendors do not distinguish it otherwise.
Chat Completions and Responses share this module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.errors import (
    ErrorData,
    ErrorProducer,
    find_fault,
    find_overflow,
    produce_overflow,
)
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderFault,
)

_A, _B, _I, _N, _O, _P, _Q, _R, _S, _T = (
    ProviderFault.AUTHENTICATION,
    ProviderFault.BLOCKED,
    ProviderFault.INVALID_REQUEST,
    ProviderFault.NOT_FOUND,
    ProviderFault.OVERLOADED,
    ProviderFault.PERMISSION,
    ProviderFault.QUOTA,
    ProviderFault.RATE_LIMITED,
    ProviderFault.SERVER,
    ProviderFault.TIMEOUT,
)

FAULTS_BY_RESPONSE_CODE: Final = {
    "bio_policy": _B,
    "data_residency_mismatch": _P,
    "empty_image_file": _I,
    "failed_to_download_image": _I,
    "image_content_policy_violation": _B,
    "image_file_not_found": _N,
    "image_file_too_large": _I,
    "image_parse_error": _I,
    "image_too_large": _I,
    "image_too_small": _I,
    "invalid_base64_image": _I,
    "invalid_image": _I,
    "invalid_image_format": _I,
    "invalid_image_mode": _I,
    "invalid_image_url": _I,
    "invalid_prompt": _B,
    "misalignment_policy_violation": _B,
    "rate_limit_exceeded": _R,
    "server_error": _S,
    "unsupported_image_media_type": _I,
    "vector_store_timeout": _T,
}
"""Faults by the codes of a failed response (``openai.types.responses.ResponseError``)."""

FAULTS_BY_WORD: Final = FAULTS_BY_RESPONSE_CODE | {
    "access_terminated": _P,
    "account_deactivated": _P,
    "api_error": _S,
    "authentication_error": _A,
    "authenticationerror": _A,
    "badrequesterror": _I,
    "billing_hard_limit_reached": _Q,
    "billing_not_active": _Q,
    "capacity_exceeded": _O,
    "content_filter": _B,
    "content_policy_violation": _B,
    "conversation_not_found": _N,
    "deploymentnotfound": _N,
    "engine_overloaded": _O,
    "engine_overloaded_error": _O,
    "exceeded_current_quota_error": _Q,
    "forbidden": _P,
    "incorrect_hostname": _P,
    "insufficient_balance": _Q,
    "insufficient_quota": _Q,
    "internal_error": _S,
    "internal_server_error": _S,
    "internalservererror": _S,
    "invalid_api_key": _A,
    "invalid_authentication_error": _A,
    "invalid_function_parameters": _I,
    "invalid_model": _N,
    "invalid_organization": _A,
    "invalid_request_error": _I,
    "ip_not_authorized": _P,
    "json_validate_failed": _S,
    "mismatched_organization": _A,
    "model_not_found": _N,
    "moderation_blocked": _B,
    "not_found_error": _N,
    "notfounderror": _N,
    "overloaded": _O,
    "overloaded_error": _O,
    "permission_denied": _P,
    "permission_error": _P,
    "previous_response_not_found": _N,
    "rate_limit_error": _R,
    "rate_limit_reached_error": _R,
    "rate_limited": _R,
    "ratelimitreached": _R,
    "requests": _R,
    "responsibleaipolicyviolation": _B,
    "server_is_overloaded": _O,
    "service_tier_capacity_exceeded": _O,
    "service_unavailable": _O,
    "service_unavailable_error": _O,
    "slow_down": _O,
    "string_above_max_length": _I,
    "timeout": _T,
    "tokens": _R,
    "too_many_requests": _R,
    "tool_use_failed": _S,
    "unauthorized": _A,
    "unknown_error": ProviderFault.UNKNOWN,
    "unavailable_error": _O,
    "unsupported_country_region_territory": _P,
    "unsupported_parameter": _I,
    "unsupported_value": _I,
}
"""Faults by the vendor's code or type, in lower case; codes are looked up first.

With ``json_validate_failed`` and ``tool_use_failed`` Groq rejects the model's output, not the
request: after a retry the output is usually valid.
"""

_VAGUE_NAMES: Final = frozenset({"api_error", "invalid_request_error"})
"""Types that many errors share, so that the status is more specific."""

_OVERFLOW_WORDS: Final = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "tokens_limit_reached",
        "too_many_prompt_tokens",
    }
)
_OVERFLOW_MESSAGE: Final = re.compile(
    r"maximum (?:context|prompt|input) length"
    r"|exceed\w*[^.]{0,60}\bcontext (?:window|length|size)"
    r"|context (?:window|length|size)[^.]{0,40}\bexceed",
    re.IGNORECASE,
)
_LIMIT: Final = re.compile(
    r"(?:maximum (?:context|prompt|input) length (?:is|of)|maximum context length:?) (\d+)"
)
_TOKENS: Final = re.compile(
    r"(?:resulted in|requested(?: about)?|contains(?: at least)?|has) (\d+) (?:input )?tokens"
    r"|request contains (\d+)"
)
_SHOWN_OUTPUT_CHARACTERS: Final = 300
_OVERFLOW_STATUSES: Final = (None, 200, 400, 413, 422, 500)


def read_openai_error(body: object, status: int | None, model: str) -> ErrorData | ConverseError:
    """Read an error. A number as the code in the body is a status."""
    facts = _find_facts(body)
    code, kind = facts.get("code"), facts.get("type")
    names = (code, _find_inner_code(facts), kind)
    lower_names = [word.lower() for word in names if isinstance(word, str)]
    message = _find_message(facts)
    if status in (None, 200):
        status = _read_status(code) or status
    if status in _OVERFLOW_STATUSES and (overflow := find_overflow(message, model)):
        return overflow
    if _is_overflow(lower_names, message, status):
        return _produce_overflow(facts, message, model)
    fault = _find_fault(lower_names, status)
    param = facts.get("param")
    return ErrorData(fault=fault, message=message, status=status, kind=kind, code=code, param=param)


produce_openai_error: Final = ErrorProducer(read_openai_error)


def _find_facts(body: object) -> Mapping[str, Any]:
    """Return the object with the error, which vendors put in different places."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, Mapping):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        return {"message": text}
    for holder in (body, body.get("response")):
        inner = holder.get("error") if isinstance(holder, Mapping) else None
        if isinstance(inner, Mapping):
            return inner
        if isinstance(inner, str):
            return {"message": inner, "code": body.get("code")}
    if "message" not in body and body.get("detail"):
        return {**body, "message": body["detail"]}
    return body


def _find_message(facts: Mapping[str, Any]) -> str:
    message = facts.get("message")
    metadata = facts.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    text = " ".join(str(part).strip() for part in (message, raw) if part)
    output = facts.get("failed_generation")  # the model's output, which Groq could not parse
    if isinstance(output, str) and output:
        text += f" failed_generation: {output[:_SHOWN_OUTPUT_CHARACTERS]}"
    return text or "it gave no reason."


def _find_inner_code(facts: Mapping[str, Any]) -> Any:
    inner = facts.get("innererror")
    return inner.get("code") if isinstance(inner, Mapping) else None


def _read_status(code: object) -> int | None:
    if isinstance(code, str) and re.fullmatch("[45][0-9][0-9]", code):
        return int(code)
    return code if isinstance(code, int) and 400 <= code < 600 else None


def _find_fault(lower_names: list[str], status: int | None) -> ProviderFault:
    has_status = status is not None and status >= 400
    for word in lower_names:
        if word in FAULTS_BY_WORD and not (has_status and word in _VAGUE_NAMES):
            return FAULTS_BY_WORD[word]
    return find_fault(status)


def _is_overflow(lower_names: list[str], message: str, status: int | None) -> bool:
    if any(word in _OVERFLOW_WORDS for word in lower_names):
        return True
    return status in _OVERFLOW_STATUSES and _OVERFLOW_MESSAGE.search(message) is not None


def _produce_overflow(facts: Mapping[str, Any], message: str, model: str) -> ContextOverflowError:
    tokens = _find_number(facts.get("n_prompt_tokens"), _TOKENS, message)
    return produce_overflow(
        model, message, tokens, _find_number(facts.get("n_ctx"), _LIMIT, message)
    )


def _find_number(value: object, pattern: re.Pattern[str], message: str) -> int | None:
    if isinstance(value, int):
        return value
    found = pattern.search(message)
    return None if found is None else int(next(group for group in found.groups() if group))
