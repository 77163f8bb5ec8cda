"""Classification of errors by a table in which the most specific name wins.

The code in the details of an error is more specific than its type. The type is more specific than
the status, which is 200 for an error in the middle of a stream. Messages are documented as
unstable, so they are only used for errors that the vendor does not distinguish otherwise: input
that is too long, exhausted credit, and content that a filter has blocked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.errors import (
    BLOCKED_MESSAGE,
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

_A, _I, _N, _O, _P, _Q, _R, _S, _T = (
    ProviderFault.AUTHENTICATION,
    ProviderFault.INVALID_REQUEST,
    ProviderFault.NOT_FOUND,
    ProviderFault.OVERLOADED,
    ProviderFault.PERMISSION,
    ProviderFault.QUOTA,
    ProviderFault.RATE_LIMITED,
    ProviderFault.SERVER,
    ProviderFault.TIMEOUT,
)

FAULTS_BY_CODE: Final = {
    "cannot_sign_out_primary_owner": _P,
    "claude_code_key_creator_not_member": _P,
    "cmek_context_unavailable": _S,
    "cmek_key_disabled": _P,
    "cmek_key_network_blocked": _P,
    "cmek_key_unreachable": _S,
    "contract_spend_limit_reached": _Q,
    "email_domain_not_allowed": _P,
    "enforced_spend_limit_reached": _Q,
    "external_key_changed": _I,
    "external_key_validation_timed_out": _T,
    "key_profile_mismatch": _P,
    "organization_not_enrolled_in_beta": _P,
    "organization_on_hold": _P,
    "organization_type_not_supported": _P,
    "parent_organization_required": _P,
    "plugin_name_taken": _I,
    "request_body_timeout": _T,
    "skill_name_taken": _I,
    "skill_read_blocked_undecryptable": _I,
    "slack_channel_set_up_settings_conflict": _I,
    "storage_quota_exceeded": _Q,
    "user_profile_not_billable": _Q,
    "user_profile_not_found": _N,
    "workspace_policy_violation": _P,
}
"""Faults by ``error.details.error_code``, if more specific than the status. Source:
``ERROR_CLASSES`` of the PyPI distribution anthropic 2.12.0.
"""

FAULTS_BY_TYPE: Final = {
    "api_error": _S,
    "authentication_error": _A,
    "bad_request_error": _I,
    "billing_error": _Q,
    "conflict_error": _S,
    "gateway_timeout_error": _T,
    "invalid_request_error": _I,
    "memory_path_conflict_error": _I,
    "memory_precondition_failed_error": _I,
    "not_found_error": _N,
    "overloaded_error": _O,
    "permission_error": _P,
    "rate_limit_error": _R,
    "request_too_large": _I,
    "server_error": _S,
    "timeout_error": _T,
    "unavailable_error": _O,
    "unknown_error": ProviderFault.UNKNOWN,
}
"""Faults by ``error.type``: the vendor's ``ErrorType``, and those of compatible servers."""

_FAULTS_BY_STATUS: Final = {499: ProviderFault.UNKNOWN, 501: _I}
"""Statuses with another meaning in this protocol than in HTTP."""

_VAGUE_TYPES: Final = frozenset({"api_error", "invalid_request_error"})
"""Types that many errors share, so that the status is more specific."""

_NO_CREDIT_MESSAGE: Final = re.compile(
    r"credit balance is too low|reached your specified (?:\w+ )*usage limits?|spend(?:ing)? limit",
    re.IGNORECASE,
)
_OVERFLOW_MESSAGE: Final = re.compile(
    r"prompt is too long(?:: (?P<tokens>\d+) tokens > (?P<limit>\d+))?"
    r"|exceeds? (?:the )?context limit(?:: (?P<input>\d+) \+ \d+ > (?P<bound>\d+))?"
    r"|exceeds? the available context size",
    re.IGNORECASE,
)
_OVERFLOW_TYPES: Final = ("exceed_context_size_error",)


def _read_error(body: object, status: int | None, model: str) -> ErrorData | ConverseError:
    facts = _find_facts(body)
    details = facts.get("details")
    kind = read_text(facts.get("type"))
    code = read_text(details.get("error_code")) if isinstance(details, Mapping) else None
    message = str(facts.get("message") or "it gave no reason.")
    overflow_match = _OVERFLOW_MESSAGE.search(message)
    if kind in _OVERFLOW_TYPES or (overflow_match and kind in (None, "invalid_request_error")):
        return _produce_overflow(facts, message, model, overflow_match)
    if kind in (None, "invalid_request_error") and (
        overflow_error := find_overflow(message, model)
    ):
        return overflow_error
    return ErrorData(
        fault=_find_fault(code, kind, status, message),
        message=message,
        status=status,
        kind=kind,
        code=code,
        request_id=body.get("request_id") if isinstance(body, Mapping) else None,
    )


produce_error: Final = ErrorProducer(_read_error)


def _find_facts(body: object) -> Mapping[str, Any]:
    """Return the object with the error, which servers put in different places."""
    if not isinstance(body, Mapping):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        return {"message": text}
    inner = body.get("error")
    if isinstance(inner, Mapping):
        return inner
    if isinstance(inner, str):
        return {"message": body.get("message") or inner, "type": inner}
    return {"message": body.get("message") or body.get("Message") or body.get("detail")}


def _find_fault(
    code: str | None, kind: str | None, status: int | None, message: str
) -> ProviderFault:
    if code in FAULTS_BY_CODE:
        return FAULTS_BY_CODE[str(code)]
    if kind in (None, "invalid_request_error") and BLOCKED_MESSAGE.search(message):
        return ProviderFault.BLOCKED
    has_status = status is not None and status >= 400
    if kind in FAULTS_BY_TYPE and (kind not in _VAGUE_TYPES or not has_status):
        return FAULTS_BY_TYPE[kind]
    if kind in (None, "invalid_request_error") and _NO_CREDIT_MESSAGE.search(message):
        return _Q
    return find_fault(status, _FAULTS_BY_STATUS)


def _produce_overflow(
    facts: Mapping[str, Any], message: str, model: str, match: re.Match[str] | None
) -> ContextOverflowError:
    sizes = match.groupdict() if match else {}
    tokens = sizes.get("tokens") or sizes.get("input") or facts.get("n_prompt_tokens")
    limit = sizes.get("limit") or sizes.get("bound") or facts.get("n_ctx")
    return produce_overflow(model, message, tokens, limit)
