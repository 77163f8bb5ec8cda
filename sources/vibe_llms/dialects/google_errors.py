"""Classification of Google's errors by a table; the most specific name has precedence.

An error is ``{"error": {code, message, status, details}}``, in a stream too, or within a JSON
array; its status is a name of ``google.rpc.Code``. The reason in an ``ErrorInfo`` is more specific,
and the message is used only if nothing else distinguishes the error.
"""

from __future__ import annotations

import math
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
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.exceptions import (
    ConverseError,
    ProviderFault,
)

FAULTS_BY_STATUS_NAME: Final = {
    "CANCELLED": ProviderFault.TIMEOUT,
    "UNKNOWN": ProviderFault.SERVER,
    "INVALID_ARGUMENT": ProviderFault.INVALID_REQUEST,
    "DEADLINE_EXCEEDED": ProviderFault.TIMEOUT,
    "NOT_FOUND": ProviderFault.NOT_FOUND,
    "ALREADY_EXISTS": ProviderFault.INVALID_REQUEST,
    "PERMISSION_DENIED": ProviderFault.PERMISSION,
    "UNAUTHENTICATED": ProviderFault.AUTHENTICATION,
    "RESOURCE_EXHAUSTED": ProviderFault.RATE_LIMITED,
    "FAILED_PRECONDITION": ProviderFault.INVALID_REQUEST,
    "ABORTED": ProviderFault.OVERLOADED,
    "OUT_OF_RANGE": ProviderFault.INVALID_REQUEST,
    "UNIMPLEMENTED": ProviderFault.INVALID_REQUEST,
    "INTERNAL": ProviderFault.SERVER,
    "UNAVAILABLE": ProviderFault.OVERLOADED,
    "DATA_LOSS": ProviderFault.SERVER,
}
"""Faults by the names of ``google.rpc.Code``, all of them but OK."""

FAULTS_BY_REASON: Final = {
    "API_KEY_INVALID": ProviderFault.AUTHENTICATION,
    "API_KEY_SERVICE_BLOCKED": ProviderFault.PERMISSION,
    "API_KEY_HTTP_REFERRER_BLOCKED": ProviderFault.PERMISSION,
    "API_KEY_IP_ADDRESS_BLOCKED": ProviderFault.PERMISSION,
    "API_KEY_ANDROID_APP_BLOCKED": ProviderFault.PERMISSION,
    "API_KEY_IOS_APP_BLOCKED": ProviderFault.PERMISSION,
    "ACCESS_TOKEN_EXPIRED": ProviderFault.AUTHENTICATION,
    "ACCESS_TOKEN_SCOPE_INSUFFICIENT": ProviderFault.PERMISSION,
    "ACCESS_TOKEN_TYPE_UNSUPPORTED": ProviderFault.AUTHENTICATION,
    "ACCOUNT_STATE_INVALID": ProviderFault.AUTHENTICATION,
    "BILLING_DISABLED": ProviderFault.QUOTA,
    "CONSUMER_INVALID": ProviderFault.PERMISSION,
    "CONSUMER_SUSPENDED": ProviderFault.PERMISSION,
    "CREDENTIALS_MISSING": ProviderFault.AUTHENTICATION,
    "IAM_PERMISSION_DENIED": ProviderFault.PERMISSION,
    "LOCATION_POLICY_VIOLATED": ProviderFault.PERMISSION,
    "RATE_LIMIT_EXCEEDED": ProviderFault.RATE_LIMITED,
    "RESOURCE_QUOTA_EXCEEDED": ProviderFault.QUOTA,
    "SAFETY": ProviderFault.BLOCKED,
    "SERVICE_DISABLED": ProviderFault.PERMISSION,
    "USER_PROJECT_DENIED": ProviderFault.PERMISSION,
}
"""Faults by the reason of an ``ErrorInfo`` (``google.api.ErrorReason``). ``SAFETY`` is a finish
reason that gateways use as the reason when another vendor has blocked an answer.
"""

UNSPECIFIED: Final = "ERROR_REASON_UNSPECIFIED"
"""The reason of an error of unknown meaning."""

_MESSAGES: Final = (
    ("FAILED_PRECONDITION", re.compile(r"billing", re.IGNORECASE), ProviderFault.QUOTA),
    ("FAILED_PRECONDITION", re.compile(r"location", re.IGNORECASE), ProviderFault.PERMISSION),
    ("INVALID_ARGUMENT", re.compile(r"API key", re.IGNORECASE), ProviderFault.AUTHENTICATION),
    ("RESOURCE_EXHAUSTED", re.compile(r"credits?\b.*\bdepleted"), ProviderFault.QUOTA),
)
_LONG_QUOTA: Final = re.compile(r"Per(?:Day|Week|Month)", re.IGNORECASE)
_OVERFLOW: Final = re.compile(
    r"(?:input )?token count\s*(?:\((\d+)\))?.*exceeds the maximum number of tokens allowed"
    r"\s*\(?(\d+)?",
    re.IGNORECASE | re.DOTALL,
)
_DELAY: Final = re.compile(r"(\d+(?:\.\d+)?)s")


def _read_error(body: object, status: int | None, model: str) -> ErrorData | ConverseError:
    facts = _find_facts(body)
    message = str(facts.get("message") or facts.get("detail") or "it gave no reason.")
    code, status_name = facts.get("code"), str(facts.get("status") or "")
    if isinstance(code, int) and (
        status is None or status < 400
    ):  # in a stream the HTTP status is 200
        status = code
    overflow = _OVERFLOW.search(message)
    if overflow:
        return produce_overflow(model, message, *overflow.groups())
    if overflow_error := find_overflow(message, model):
        return overflow_error
    native_details = facts.get("details")
    if not isinstance(native_details, list):
        native_details = []
    details = [each for each in native_details if isinstance(each, Mapping)]
    reason = next((str(each["reason"]) for each in details if each.get("reason")), None)
    return ErrorData(
        fault=_find_fault(status_name, reason, details, message, status),
        message=message,
        status=status,
        kind=status_name or None,
        code=reason or code,
        retry_after_seconds=_find_delay(details),
    )


produce_google_error: Final = ErrorProducer(_read_error)


def _find_facts(body: object) -> Mapping[str, Any]:
    if isinstance(body, list) and body:
        body = body[0]
    inner = body.get("error", body) if isinstance(body, Mapping) else body
    return inner if isinstance(inner, Mapping) else {"message": inner}


def _find_fault(
    status_name: str,
    reason: str | None,
    details: list[Mapping[str, Any]],
    message: str,
    status: int | None,
) -> ProviderFault:
    if reason == UNSPECIFIED:
        return ProviderFault.UNKNOWN
    if reason in FAULTS_BY_REASON:
        return FAULTS_BY_REASON[reason]
    for kind, pattern, fault in _MESSAGES:
        if status_name == kind and pattern.search(message):
            return fault
    if status_name == "RESOURCE_EXHAUSTED" and any(map(_is_long_quota, details)):
        return ProviderFault.QUOTA
    if status_name in FAULTS_BY_STATUS_NAME:
        return FAULTS_BY_STATUS_NAME[status_name]
    return find_fault(status, {499: ProviderFault.TIMEOUT})


def _is_long_quota(detail: Mapping[str, Any]) -> bool:
    """Return whether an exhausted quota is not reset within minutes."""
    violations = [camelize(each) for each in detail.get("violations") or ()]
    return any(_LONG_QUOTA.search(str(each.get("quotaId", ""))) for each in violations)


def _find_delay(details: list[Mapping[str, Any]]) -> float | None:
    for detail in details:
        match = _DELAY.fullmatch(str(camelize(detail).get("retryDelay", "")))
        if match and math.isfinite(seconds := float(match[1])):
            return seconds
    return None
