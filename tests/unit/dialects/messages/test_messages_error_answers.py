"""Errors of all kinds reach Anthropic's clients in Anthropic's format, and are classified
correctly.
"""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import errors
from vibe_llms.dialects import chat_completions, messages
from vibe_llms.dialects.client_answers import classify
from vibe_llms.exceptions import (
    AccessError,
    ContextOverflowError,
    ConverseError,
    CorruptionError,
    LimitError,
    ProviderError,
    ProviderFault,
    TransportError,
)

PLACE = "/etc/gateway/keys.toml"
KEY = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"


def read(answer: Any) -> ConverseError:
    """Read an answer as our own client does."""
    return messages.produce_error(
        answer.body, provider="gateway", status=answer.status, headers=answer.headers
    )


def raise_as_sdk(answer: Any) -> anthropic.APIStatusError:
    """Return the exception of the official library for an answer."""

    def answer_request(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(answer.status, json=answer.body, headers=dict(answer.headers))

    http = httpx2.Client(transport=httpx2.MockTransport(answer_request))
    client = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
        )
    return caught.value


@given(errors)
def test_an_error_of_any_kind_is_read_as_the_same(error: ConverseError) -> None:
    """Its fault, its status, and the time to wait."""
    answer = messages.nativize_error(error)

    assert classify(read(answer)) == classify(error)


@given(
    fault=st.sampled_from(ProviderFault),
    status=st.none() | st.sampled_from([200, 400, 401, 402, 403, 404, 408, 413, 429, 500, 529]),
    code=st.sampled_from([None, "enforced_spend_limit_reached", "unheard_of"]),
    kind=st.sampled_from([None, "rate_limit_error", "invalid_request_error", "novel_error"]),
)
def test_a_vendors_own_error_keeps_its_fault(
    fault: ProviderFault, status: int | None, code: str | None, kind: str | None
) -> None:
    """Also if its type, its status and its fault contradict each other."""
    error = ProviderError(fault=fault, status=status, vendor_code=code, vendor_type=kind)

    assert classify(read(messages.nativize_error(error))) == classify(error)


@pytest.mark.parametrize(
    ("body", "status", "raised"),
    [
        ({"type": "authentication_error", "message": "No."}, 401, anthropic.AuthenticationError),
        ({"type": "billing_error", "message": "No."}, 402, anthropic.APIStatusError),
        ({"type": "overloaded_error", "message": "Overloaded"}, 529, anthropic.InternalServerError),
        ({"type": "invalid_request_error", "message": "No."}, 400, anthropic.BadRequestError),
        (
            {
                "type": "rate_limit_error",
                "message": "Slower.",
                "details": {"error_code": "ramp_limit_exceeded"},
            },
            429,
            anthropic.RateLimitError,
        ),
        (
            {
                "type": "invalid_request_error",
                "message": "Output blocked by content filtering policy",
            },
            400,
            anthropic.BadRequestError,
        ),
    ],
)
def test_the_vendors_own_fields_are_repeated(
    body: dict[str, Any], status: int, raised: type[Exception]
) -> None:
    """Message, type and code, and the class that the official library raises."""
    whole = {"type": "error", "error": body, "request_id": "req_1"}
    error = messages.produce_error(whole, provider="anthropic", status=status)

    answer = messages.nativize_error(error)

    assert answer.body == whole
    assert answer.status == status
    assert isinstance(raise_as_sdk(answer), raised)


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (AccessError(fault=ProviderFault.QUOTA, detail="Spent."), 429, "billing_error"),
        (AccessError(fault=ProviderFault.AUTHENTICATION), 401, "authentication_error"),
        (ContextOverflowError(tokens=9, limit=8), 400, "invalid_request_error"),
        (LimitError(limit="request_bytes", value=9), 413, "request_too_large"),
        (LimitError(limit="requests", value=9), 503, "overloaded_error"),
        (TransportError(address=PLACE), 502, "api_error"),
    ],
)
def test_our_own_errors_have_the_vendors_types(
    error: ConverseError, status: int, kind: str
) -> None:
    """The official library raises the class of the status, and knows the type."""
    raised = raise_as_sdk(messages.nativize_error(error))

    assert (raised.status_code, raised.type) == (status, kind)


def test_an_exhausted_budget_has_its_own_class() -> None:
    """It is a rate limit that does not end by waiting."""
    raised = raise_as_sdk(messages.nativize_error(AccessError(fault=ProviderFault.QUOTA)))

    assert type(raised).__name__ == "EnforcedSpendLimitReachedError"
    assert isinstance(raised, anthropic.RateLimitError)


def test_clients_find_the_sizes_of_an_overflow() -> None:
    """In the vendor's sentence; some clients then shorten the conversation and try again."""
    answer = messages.nativize_error(ContextOverflowError(tokens=201, limit=200))

    assert answer.body["error"] == {
        "type": "invalid_request_error",
        "message": "prompt is too long: 201 tokens > 200 maximum",
    }


@pytest.mark.parametrize(
    "error",
    [
        CorruptionError(path=PLACE, line=3, detail=f"{PLACE} is damaged"),
        TransportError(address=f"http://10.0.0.3/{PLACE}", detail=PLACE, remedy=PLACE),
        ProviderError(provider=PLACE, remedy=PLACE, detail=f"Incorrect API key: {KEY}"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_internal_details_are_not_sent(error: ConverseError) -> None:
    """No path, no address, no key; neither in an answer nor in a stream."""
    writer = messages.StreamWriter({}, model="m")
    sent = str(messages.nativize_error(error)) + str(writer.fail(error))

    assert PLACE not in sent
    assert KEY not in sent
    assert "10.0.0.3" not in sent


@pytest.mark.parametrize(
    ("status", "kind_sent", "word"),
    [
        (401, "invalid_request_error", "authentication_error"),
        (403, "invalid_request_error", "permission_error"),
        (404, "invalid_request_error", "not_found_error"),
        (429, "invalid_request_error", "rate_limit_error"),
        (400, "invalid_request_error", "invalid_request_error"),
    ],
)
def test_the_error_type_is_that_of_this_protocol(status: int, kind_sent: str, word: str) -> None:
    """OpenAI sends ``invalid_request_error`` also for an invalid key and for an unknown model."""
    body = {"error": {"message": "No.", "type": kind_sent, "param": None, "code": None}}
    error = chat_completions.produce_error(body, provider="openai", status=status)

    answer = messages.nativize_error(error)

    assert answer.status == status
    assert answer.body["error"]["type"] == word  # type: ignore[index,call-overload]
