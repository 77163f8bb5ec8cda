"""Errors of the hosts of Chat Completions, and their faults."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.chat_completions import produce_error
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
)

FAULTS_BY_CLASS = {
    openai.AuthenticationError: ProviderFault.AUTHENTICATION,
    openai.BadRequestError: ProviderFault.INVALID_REQUEST,
    openai.ConflictError: ProviderFault.SERVER,
    openai.InternalServerError: ProviderFault.SERVER,
    openai.NotFoundError: ProviderFault.NOT_FOUND,
    openai.PermissionDeniedError: ProviderFault.PERMISSION,
    openai.RateLimitError: ProviderFault.RATE_LIMITED,
    openai.UnprocessableEntityError: ProviderFault.INVALID_REQUEST,
}
STATUSES = {openai.InternalServerError: 500}
NOT_OF_A_STATUS = {"OAuthError": "its own way to a token, which we do not go"}


def survey_classes() -> list[type[openai.APIStatusError]]:
    """Return the SDK's error classes that belong to a status."""
    return [
        cls
        for cls in openai.APIStatusError.__subclasses__()
        if cls.__module__.startswith("openai") and cls.__name__ not in NOT_OF_A_STATUS
    ]


def produce_vendor_error(body: Any, status: int | None = 400) -> ConverseError:
    """Make the exception for an error of a vendor."""
    return produce_error(body, provider="vendor", model="vendor:m", status=status)


def access_fault(error: ConverseError) -> ProviderFault:
    """Return the fault of a vendor's error."""
    assert isinstance(error, ProviderError)
    return error.fault


def test_every_class_of_the_official_sdk_has_a_fault() -> None:
    """This fails if a new SDK has a new class."""
    assert set(survey_classes()) == FAULTS_BY_CLASS.keys()


@pytest.mark.parametrize("cls", FAULTS_BY_CLASS, ids=lambda cls: cls.__name__)
def test_a_status_has_the_fault_of_the_sdk_class(cls: Any) -> None:
    """If the error has no more specific field."""
    status = getattr(cls, "status_code", None) or STATUSES[cls]
    status = status if isinstance(status, int) else STATUSES[cls]

    assert (
        access_fault(produce_vendor_error({"error": {"message": "no"}}, status))
        is FAULTS_BY_CLASS[cls]
    )


@pytest.mark.parametrize(
    ("body", "status", "fault"),
    [
        ({"error": {"code": "insufficient_quota"}}, 429, ProviderFault.QUOTA),
        ({"error": {"type": "service_unavailable_error"}}, None, ProviderFault.OVERLOADED),
        ({"error": {"message": "x", "code": 429}}, None, ProviderFault.RATE_LIMITED),
        ({"error": {"message": "x", "code": 502}}, 200, ProviderFault.SERVER),
        ({"error": {"code": "content_filter", "status": 400}}, 400, ProviderFault.BLOCKED),
        ({"object": "error", "message": "x", "code": 400}, 400, ProviderFault.INVALID_REQUEST),
        ({"message": "Unauthorized"}, 401, ProviderFault.AUTHENTICATION),
        ("Too many requests", 429, ProviderFault.RATE_LIMITED),
        ({"error": "boom"}, 500, ProviderFault.SERVER),
        ({"error": {"message": "Insufficient Balance"}}, 402, ProviderFault.QUOTA),
        ({"error": {"message": "Flex tier is full"}}, 498, ProviderFault.OVERLOADED),
    ],
)
def test_the_most_specific_field_decides(body: Any, status: int, fault: ProviderFault) -> None:
    """A code before a type, both before the status; in a stream the code is a status."""
    assert access_fault(produce_vendor_error(body, status)) is fault


@pytest.mark.parametrize(
    ("message", "tokens", "limit"),
    [
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096", 5000,
         4096),
        ("You passed 5000 input tokens and requested 1 output tokens. However, the model's context "
         "length is only 4096 tokens", 5000, 4096),
        ("`inputs` tokens + `max_new_tokens` must be <= 4097. Given: 4076 `inputs` tokens", 4076,
         4097),
        ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
         40000, None),
        ("Please reduce the length of the messages or completion.", None, None),
        ("This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
         150000, 131072),
        ("the request exceeds the available context size, try increasing it", None, None),
        ("Input is too long for requested model.", None, None),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
         1200000, 1048576),
        ("This endpoint's maximum context length is 131072 tokens. However, you requested about "
         "200000 tokens", 200000, 131072),
    ],
)  # fmt: skip
def test_an_overflow_is_recognized_by_its_message(
    message: str, tokens: int | None, limit: int | None
) -> None:
    """In the words of each host; the sizes are read if the message has them."""
    error = produce_vendor_error({"error": {"message": message}})

    assert isinstance(error, ContextOverflowError)
    assert (error.tokens, error.limit) == (tokens, limit)
    assert error.model == "vendor:m"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"detail": [{"loc": ["body", "x"], "msg": "Field required"}]}, "body.x: Field required"),
        ({"message": {"detail": [{"loc": ["body"], "msg": "No"}]}, "code": "1500"}, "body: No"),
        ({"detail": "Not Found"}, "Not Found"),
        ("<html><head><title>502 Bad Gateway</title></head><p>x</p></html>", "502 Bad Gateway"),
        (b"<p>no <b>way</b></p>", "no way"),
        ({"error": {"message": ["a", "b"]}}, "a; b"),
    ],
)
def test_lists_and_pages_become_readable_messages(body: Any, detail: str) -> None:
    """As Mistral, FastAPI and proxies send them."""
    assert produce_vendor_error(body, 422).detail == detail


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from(["error", "message", "detail", "msg", "loc", "code", "type"]), inner,
        max_size=3),
))  # fmt: skip
def test_any_body_becomes_one_of_our_errors(body: Any) -> None:
    """Whatever its type."""
    assert isinstance(produce_vendor_error(body, 400), ConverseError)
