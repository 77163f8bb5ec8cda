"""Every error that the vendor's own client knows has a fault."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from anthropic._error_classes import ERROR_CLASSES
from anthropic.types.shared.error_type import ErrorType

from vibe_llms.dialects.messages import produce_error
from vibe_llms.dialects.messages.calling.errors import (
    FAULTS_BY_CODE,
    FAULTS_BY_TYPE,
)
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
)


def explain(
    kind: str = "", code: str = "", message: str = "It failed.", **facts: Any
) -> ProviderError:
    """Return the error for an answer of the vendor."""
    inner: dict[str, Any] = {"type": kind, "message": message}
    if code:
        inner["details"] = {"error_code": code}
    body = {"type": "error", "error": inner, "request_id": "req_1"}
    error = produce_error(body, provider="anthropic", model="m", **facts)
    assert isinstance(error, ProviderError)
    return error


def test_every_code_type_and_status_of_the_sdk_has_a_fault() -> None:
    """A code has a row only if it is more specific than its status."""
    assert FAULTS_BY_TYPE.keys() >= set(get_args(ErrorType))
    assert {code for _, code in ERROR_CLASSES if code is not None} >= FAULTS_BY_CODE.keys()
    for status, code in ERROR_CLASSES:
        by_status = explain(status=status).fault
        assert (by_status is ProviderFault.UNKNOWN) == (status == 499)
        assert (explain(code=code or "", status=status).fault is by_status) == (
            code not in FAULTS_BY_CODE
        )


@pytest.mark.parametrize(
    ("kind", "code", "status", "fault", "is_retryable"),
    [
        ("rate_limit_error", "", 429, ProviderFault.RATE_LIMITED, True),
        ("rate_limit_error", "ramp_limit_exceeded", 429, ProviderFault.RATE_LIMITED, True),
        ("rate_limit_error", "contract_spend_limit_reached", 429, ProviderFault.QUOTA, False),
        ("rate_limit_error", "enforced_spend_limit_reached", 429, ProviderFault.QUOTA, False),
        ("billing_error", "", 402, ProviderFault.QUOTA, False),
        ("overloaded_error", "compaction_unavailable", 529, ProviderFault.OVERLOADED, True),
        ("overloaded_error", "", None, ProviderFault.OVERLOADED, True),
        ("overloaded_error", "", 200, ProviderFault.OVERLOADED, True),
        ("api_error", "", None, ProviderFault.SERVER, True),
        ("invalid_request_error", "request_body_timeout", 400, ProviderFault.TIMEOUT, True),
        ("invalid_request_error", "thread_not_found", 404, ProviderFault.NOT_FOUND, False),
        ("conflict_error", "", 409, ProviderFault.SERVER, True),
        ("api_error", "", 501, ProviderFault.INVALID_REQUEST, False),
        ("", "", 413, ProviderFault.INVALID_REQUEST, False),
        ("never_heard_of", "", None, ProviderFault.UNKNOWN, False),
    ],
)
def test_the_most_specific_field_decides(
    kind: str, code: str, status: int | None, fault: ProviderFault, is_retryable: bool
) -> None:
    """The code before the type, the type before the status."""
    error = explain(kind, code, status=status)
    assert (error.fault, error.is_retryable) == (fault, is_retryable)
    assert error.vendor_code == (code or None)
    assert error.request_id == "req_1"


@pytest.mark.parametrize(
    "message",
    [
        "Your credit balance is too low to access the Anthropic API.",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01.",
        "You have reached your specified workspace API usage limits.",
    ],
)
def test_exhausted_credit_is_not_an_invalid_request(message: str) -> None:
    """The vendor answers with status 400 and the type of other rejections; only the message
    differs.
    """
    assert explain("invalid_request_error", message=message, status=400).fault == "quota"


@pytest.mark.parametrize(
    ("body", "tokens", "limit"),
    [
        (("invalid_request_error", "prompt is too long: 300 tokens > 200 maximum"), 300, 200),
        (
            (
                "invalid_request_error",
                "input length and `max_tokens` exceed context limit: 190 + 20 > 200, decrease",
            ),
            190,
            200,
        ),
        (("invalid_request_error", "prompt is too long"), None, None),
        (("exceed_context_size_error", "the request exceeds the available context size"), 9, 8),
    ],
)
def test_an_overflow_is_recognized_by_its_message(
    body: tuple[str, str], tokens: int | None, limit: int | None
) -> None:
    """In any wording of the vendor, and in llama.cpp's."""
    inner = {"type": body[0], "message": body[1], "n_prompt_tokens": 9, "n_ctx": 8}
    if limit is None:
        del inner["n_prompt_tokens"], inner["n_ctx"]
    error = produce_error({"error": inner}, provider="p", model="m", status=400)
    assert isinstance(error, ContextOverflowError)
    assert (error.tokens, error.limit) == (tokens, limit)


def test_headers_decide_whether_and_when_to_retry() -> None:
    """The vendor's advice has precedence over our table."""
    headers = {"Retry-After": "3", "X-Should-Retry": "false", "request-id": "req_2"}
    error = explain("overloaded_error", status=529, headers=headers)
    assert (error.retry_after_seconds, error.is_retryable) == (3.0, False)
    assert error.request_id == "req_2"
    headers = {"retry-after-ms": "1500", "x-should-retry": "true"}
    error = explain("invalid_request_error", status=400, headers=headers)
    assert (error.retry_after_seconds, error.is_retryable) == (1.5, True)


@pytest.mark.parametrize(
    "body", ["<html>", b"\xff", None, [], {}, {"error": "x"}, {"message": "no"}, {"error": {}}]
)
def test_any_body_becomes_one_of_our_errors(body: object) -> None:
    """Proxies have their own formats."""
    error: ConverseError = produce_error(body, provider="p", status=502)
    assert isinstance(error, ProviderError)
    assert error.fault is ProviderFault.SERVER
