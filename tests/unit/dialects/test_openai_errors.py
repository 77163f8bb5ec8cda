"""Errors in OpenAI's format, and in those of vendors with a similar one, have one fault each."""

from __future__ import annotations

import importlib
import re
import tomllib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.errors import read_request_id, read_retry_after
from vibe_llms.dialects.openai_errors import produce_openai_error
from vibe_llms.exceptions import ContextOverflowError, ConverseError, ProviderError, ProviderFault
from vibe_llms.foundation.package_data import access_data


def produce(body: object, status: int | None = 400, **headers: str) -> ProviderError:
    """Return the error for an answer that is not an overflow."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = produce_openai_error(body, provider="p", status=status, headers=named)
    assert isinstance(error, ProviderError)
    return error


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "a"}}, "a"),
        ([{"error": {"message": "a"}}], "a"),
        ({"message": "a", "type": "BadRequestError", "code": 400}, "a"),
        ({"error": "a", "code": "Some sentence"}, "a"),
        ({"detail": "a"}, "a"),
        ({"error": {"message": "a", "metadata": {"raw": "b"}}}, "a b"),
        ("a", "a"),
        (b"a", "a"),
        ({}, "it gave no reason."),
        (None, "it gave no reason."),
    ],
)
def test_the_message_is_found_in_any_field(body: object, message: str) -> None:
    """Vendors use many fields for it."""
    error = produce(body)
    assert error.detail == message
    assert error.fault is ProviderFault.INVALID_REQUEST


def test_the_more_specific_field_decides() -> None:
    """A code before a type, both before the status, except for types without a meaning."""
    assert produce({"error": {"code": "model_not_found"}}).fault is ProviderFault.NOT_FOUND
    inner: dict[str, Any] = {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}
    assert produce({"error": inner}).fault is ProviderFault.BLOCKED
    vague = {"error": {"type": "invalid_request_error", "code": "unheard_of"}}
    assert produce(vague, 403).fault is ProviderFault.PERMISSION
    assert produce(vague, None).fault is ProviderFault.INVALID_REQUEST
    assert produce({"error": {"code": 502, "message": "m"}}, 200).fault is ProviderFault.SERVER
    assert produce({"error": {"message": "m"}}, None).fault is ProviderFault.UNKNOWN


def test_headers_are_read() -> None:
    """Whether to retry, when, and the vendor's request id."""
    error = produce({}, 429, x_should_retry="false", x_request_id="r", retry_after="7")
    assert (error.is_retryable, error.request_id, error.retry_after_seconds) == (False, "r", 7)
    assert produce({}, 400, x_should_retry="true").is_retryable
    assert produce({}, 429, x_should_retry="perhaps").is_retryable
    assert read_retry_after({"Retry-After-Ms": "1500", "Retry-After": "9"}) == 1.5
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60))
    assert 50 < (read_retry_after({"retry-after": later}) or 0) <= 60
    assert read_retry_after({"retry-after": "soon"}) is None
    assert read_retry_after(None) is None
    assert read_request_id({}) is None


@pytest.mark.parametrize(
    ("message", "tokens", "limit"),
    [
        ("This model's maximum prompt length is 131072 but the request contains 150000 tokens.",
         150000, 131072),
        ("Your input exceeds the context window of this model.", None, None),
        ("This endpoint's maximum context length is 8192 tokens. However, you requested about "
         "9000 tokens.", 9000, 8192),
        ("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum "
         "context length", 40000, None),
    ],
)  # fmt: skip
def test_an_overflow_is_recognized_by_its_message(
    message: str, tokens: int | None, limit: int | None
) -> None:
    """Some vendors have no code for it."""
    error = produce_openai_error({"error": {"message": message}}, provider="p", status=400)
    assert isinstance(error, ContextOverflowError)
    assert (error.tokens, error.limit) == (tokens, limit)


WORDINGS = tomllib.loads(access_data("dialects", "overflows.toml").read_text("utf-8"))["wordings"]
DIALECTS = (
    "bedrock",
    "chat_completions",
    "responses",
    "messages",
    "ollama_chat",
    "generate_content",
)


@pytest.mark.parametrize("protocol", DIALECTS)
@pytest.mark.parametrize(
    "wording", WORDINGS, ids=lambda each: f"{each['vendor']} {each['said'][:20]}"
)
def test_the_overflow_messages_of_all_vendors_are_recognized(
    wording: dict[str, str], protocol: str
) -> None:
    """In each protocol; if the message has the length of the prompt, it is read."""
    errors = importlib.import_module(f"vibe_llms.dialects.{protocol}.calling.errors")
    error = errors.produce_error({"error": {"message": wording["said"]}}, provider="p", status=400)
    numbers = {int(each) for each in re.findall(r"\d{4,}", wording["said"])}

    assert isinstance(error, ContextOverflowError)
    assert wording["source"].startswith("https://")
    if protocol != "ollama_chat":
        assert {error.tokens, error.limit} - {None} == numbers
        assert error.tokens is None or error.limit is None or error.tokens > error.limit


@pytest.mark.parametrize(
    "message",
    ["The model's context length is 4096.", "Range of top_p should be [0, 1]", "token limit: 5"],
)
def test_other_messages_about_lengths_are_no_overflow(message: str) -> None:
    """A control that is out of range is another error."""
    error = produce_openai_error({"error": {"message": message}}, provider="p", status=400)
    assert not isinstance(error, ContextOverflowError)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "message", "code", "type", "detail", "metadata", "response"]),
            inner,
        )
    ),
)


@given(PLAIN, st.none() | st.integers(100, 599), st.dictionaries(st.text(), st.text()))
def test_any_body_becomes_one_of_our_errors(
    body: object, status: int | None, headers: dict[str, str]
) -> None:
    """A vendor with an outage may send anything."""
    error = produce_openai_error(body, provider="p", status=status, headers=headers)
    assert isinstance(error, ConverseError)
    assert str(error)
