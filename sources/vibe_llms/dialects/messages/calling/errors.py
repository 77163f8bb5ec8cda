"""What a vendor's error means: a table in which the most specific word wins.

The code in the details of an error comes before its type, and the type before the status: an
error in the middle of a stream arrives under the status 200. The words of a message are
declared unstable and count only for what the vendor says nowhere else: that the input was too
long, and that the money is used up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.errors import (
    produce_overflow,
    read_advice,
    read_request_id,
    read_retry_after,
)
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
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
    "already_member": _I,
    "api_key_scope_missing": _P,
    "available_tools_limit_exceeded": _I,
    "bundle_attachment_not_supported": _I,
    "bundle_on_call": _I,
    "cannot_invite_emails_with_unverified_domains": _I,
    "cannot_remove_last_member": _I,
    "cannot_sign_out_managed_member": _P,
    "cannot_sign_out_membership_admin": _P,
    "cannot_sign_out_owner": _P,
    "cannot_sign_out_primary_owner": _P,
    "cannot_sign_out_privileged_member": _P,
    "cannot_sign_out_self": _I,
    "claude_code_key_creator_not_member": _P,
    "claude_code_version_too_old": _I,
    "claude_tag_writes_not_enabled": _P,
    "cmek_context_unavailable": _S,
    "cmek_feature_unsupported": _I,
    "cmek_key_disabled": _P,
    "cmek_key_network_blocked": _P,
    "cmek_key_unreachable": _S,
    "compaction_block_ambiguous": _I,
    "compaction_block_misplaced": _I,
    "compaction_content_mismatch": _I,
    "compaction_incomplete_turn": _I,
    "compaction_nothing_to_summarize": _I,
    "compaction_signature_invalid": _I,
    "compaction_too_many_tool_references": _I,
    "compaction_tool_changes_mismatch": _I,
    "compaction_unavailable": _O,
    "compliance_configuration_restricted": _P,
    "concurrent_membership_change": _S,
    "contract_spend_limit_reached": _Q,
    "email_domain_not_allowed": _P,
    "enforced_spend_limit_reached": _Q,
    "environment_archived": _I,
    "environment_create_disabled": _P,
    "environment_not_found": _N,
    "environment_update_disabled": _P,
    "external_key_changed": _I,
    "external_key_in_workspace_policy": _I,
    "external_key_validation_failed": _I,
    "external_key_validation_timed_out": _T,
    "file_expired": _N,
    "file_not_downloadable": _I,
    "heartbeat_precondition_failed": _I,
    "image_dimensions_too_large": _I,
    "invalid_config_type_change": _I,
    "invalid_metadata": _I,
    "invite_already_exists": _I,
    "key_profile_mismatch": _P,
    "linked_organization_billing_unavailable": _Q,
    "linked_organization_spend_limit_reached": _Q,
    "org_api_key_limit_exceeded": _I,
    "org_member_limit_exceeded": _I,
    "organization_level_scoped_api_key_required": _P,
    "organization_not_enrolled_in_beta": _P,
    "organization_on_hold": _P,
    "organization_type_not_supported": _P,
    "parent_organization_required": _P,
    "plugin_name_taken": _I,
    "ramp_limit_exceeded": _R,
    "rbac_group_grants_owner_access": _I,
    "rbac_group_managed_settings_not_found": _N,
    "rbac_group_not_found": _N,
    "rbac_group_order_limit_exceeded": _I,
    "rbac_group_owner_access_unconfirmed": _I,
    "rbac_role_not_found": _N,
    "registration_pending": _O,
    "request_body_encoding_invalid": _I,
    "request_body_encoding_unsupported": _I,
    "request_body_timeout": _T,
    "request_body_too_large_after_decoding": _I,
    "sandbox_egress_restricted": _P,
    "scan_failed": _I,
    "scan_pending": _S,
    "settings_document_limit_exceeded": _I,
    "settings_history_limit_exceeded": _I,
    "skill_name_taken": _I,
    "skill_read_blocked_undecryptable": _I,
    "slack_channel_set_up_environment_not_found": _N,
    "slack_channel_set_up_settings_conflict": _I,
    "slack_channel_set_up_settings_refused": _I,
    "spend_limits_admin_api_writes_not_enabled": _P,
    "storage_quota_exceeded": _Q,
    "thread_already_continued": _I,
    "thread_continue_in_flight": _I,
    "thread_fingerprint_mismatch": _I,
    "thread_not_found": _N,
    "thread_unsupported_request": _I,
    "tool_name_conflict": _I,
    "tool_reference_unresolved": _I,
    "unsupported_charset": _I,
    "user_profile_billing_not_authorized": _P,
    "user_profile_not_billable": _Q,
    "user_profile_not_found": _N,
    "user_profile_required": _I,
    "workspace_api_key_limit_exceeded": _I,
    "workspace_member_limit_exceeded": _I,
    "workspace_policy_violation": _P,
}
"""From ``error.details.error_code``. Source: ``ERROR_CLASSES`` of the PyPI distribution anthropic
2.12.0."""

FAULTS_BY_TYPE: Final = {
    "api_error": _S,
    "authentication_error": _A,
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
}
"""From ``error.type``: the vendor's ``ErrorType``, and words of those who answer like it."""

FAULTS_BY_STATUS: Final = {
    400: _I,
    401: _A,
    402: _Q,
    403: _P,
    404: _N,
    408: _T,
    409: _S,
    412: _I,
    413: _I,
    422: _I,
    429: _R,
    431: _I,
    499: ProviderFault.UNKNOWN,
    500: _S,
    501: _I,
    502: _S,
    503: _O,
    504: _T,
    529: _O,
}
"""409 is a lock that another request holds: the vendor's own client asks again."""

_VAGUE_TYPES: Final = frozenset({"api_error", "invalid_request_error"})
"""Types that so many errors share that the status says more."""

_MONEY: Final = re.compile(
    r"credit balance is too low|reached your specified (?:\w+ )*usage limits?|spend(?:ing)? limit",
    re.IGNORECASE,
)
_OVERFLOW: Final = re.compile(
    r"prompt is too long(?:: (?P<tokens>\d+) tokens > (?P<limit>\d+))?"
    r"|exceeds? (?:the )?context limit(?:: (?P<input>\d+) \+ \d+ > (?P<bound>\d+))?"
    r"|exceeds? the available context size",
    re.IGNORECASE,
)
_OVERFLOW_TYPES: Final = ("exceed_context_size_error",)


def produce_error(
    body: object,
    *,
    provider: str,
    model: str = "",
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> ConverseError:
    """Makes the exception for an error in the vendor's words.

    Args:
        body: What came: the whole object, the error in it, or anything else, text included.
        model: That was asked.
        status: The HTTP status; an error within a stream has none of its own.
        headers: Of the answer: they name the exchange and say whether and when to ask again.
    """
    facts = _find_facts(body)
    kind, code = _find_kind(facts), _find_code(facts)
    message = str(facts.get("message") or "it gave no reason.")
    overflow = _OVERFLOW.search(message)
    if kind in _OVERFLOW_TYPES or (overflow and kind in (None, "invalid_request_error")):
        return _produce_overflow(facts, message, model, overflow)
    return ProviderError(
        provider=provider,
        fault=_find_fault(code, kind, status, message),
        detail=message,
        status=status,
        vendor_type=kind,
        vendor_code=code,
        request_id=_find_request_id(body, headers),
        retry_after_seconds=read_retry_after(headers),
        should_retry=read_advice(headers),
    )


def _find_facts(body: object) -> Mapping[str, Any]:
    """Returns the object that tells of the error, wherever it is."""
    if not isinstance(body, Mapping):
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
        return {"message": text}
    inner = body.get("error")
    if isinstance(inner, Mapping):
        return inner
    if isinstance(inner, str):
        return {"message": body.get("message") or inner, "type": inner}
    return {"message": body.get("message") or body.get("Message") or body.get("detail")}


def _find_kind(facts: Mapping[str, Any]) -> str | None:
    kind = facts.get("type")
    return kind if isinstance(kind, str) else None


def _find_code(facts: Mapping[str, Any]) -> str | None:
    details = facts.get("details")
    code = details.get("error_code") if isinstance(details, Mapping) else None
    return code if isinstance(code, str) else None


def _find_fault(
    code: str | None, kind: str | None, status: int | None, message: str
) -> ProviderFault:
    if code in FAULTS_BY_CODE:
        return FAULTS_BY_CODE[str(code)]
    has_status = status is not None and status >= 400
    if kind in FAULTS_BY_TYPE and (kind not in _VAGUE_TYPES or not has_status):
        return FAULTS_BY_TYPE[kind]
    if kind in (None, "invalid_request_error") and _MONEY.search(message):
        return _Q
    if not has_status or status is None:
        return ProviderFault.UNKNOWN
    return FAULTS_BY_STATUS.get(status, _S if status >= 500 else _I)


def _find_request_id(body: object, headers: Mapping[str, str] | None) -> str | None:
    named = read_request_id(headers)
    told = body.get("request_id") if isinstance(body, Mapping) else None
    return named or (told if isinstance(told, str) else None)


def _produce_overflow(
    facts: Mapping[str, Any], message: str, model: str, match: re.Match[str] | None
) -> ContextOverflowError:
    told = match.groupdict() if match else {}
    tokens = told.get("tokens") or told.get("input") or facts.get("n_prompt_tokens")
    limit = told.get("limit") or told.get("bound") or facts.get("n_ctx")
    return produce_overflow(model, message, tokens, limit)
