"""The time that a vendor asks to wait: seconds, milliseconds, a date, or an invalid value."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.bedrock.calling import errors as bedrock
from vibe_llms.dialects.errors import read_retry_after
from vibe_llms.dialects.generate_content.calling import errors as generate_content
from vibe_llms.dialects.messages.calling import errors as messages
from vibe_llms.dialects.ollama_chat.calling import errors as ollama_chat
from vibe_llms.dialects.openai_errors import produce_openai_error
from vibe_llms.exceptions import ConverseError, ProviderError
from vibe_llms.providers.retries import RetryPolicy

DIALECTS: dict[str, Callable[..., ConverseError]] = {
    "openai": produce_openai_error,
    "bedrock": bedrock.produce_error,
    "messages": messages.produce_error,
    "ollama_chat": ollama_chat.produce_error,
    "generate_content": generate_content.produce_error,
}
dialects = pytest.mark.parametrize("produce", DIALECTS.values(), ids=list(DIALECTS))


def read_wait(produce: Callable[..., ConverseError], **headers: str) -> float | None:
    """Return the time that an overloaded vendor asks to wait."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    error = produce({}, provider="p", status=429, headers=named)
    assert isinstance(error, ProviderError)
    return error.retry_after_seconds


@dialects
def test_seconds_milliseconds_and_dates_are_read(
    produce: Callable[..., ConverseError],
) -> None:
    """In the headers of all vendors."""
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60))
    past = format_datetime(datetime.now(UTC) - timedelta(seconds=60))

    assert read_wait(produce, retry_after="7") == 7
    assert read_wait(produce, retry_after="0.5") == 0.5
    assert read_wait(produce, retry_after_ms="1500", retry_after="9") == 1.5
    assert 50 < (read_wait(produce, retry_after=later) or 0) <= 60
    assert read_wait(produce, retry_after=past) == 0


@dialects
@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-1", "1e999", "", " ", "soon", "9" * 400])
@pytest.mark.parametrize("name", ["retry_after", "retry_after_ms"])
def test_an_invalid_time_is_ignored(
    produce: Callable[..., ConverseError], name: str, text: str
) -> None:
    """It causes neither an immediate retry nor an endless wait."""
    assert read_wait(produce, **{name: text}) is None


@dialects
@given(text=st.text(max_size=40) | st.from_regex(r"[0-9eE+.\-]{1,12}"))
def test_any_text_is_a_time_or_none(produce: Callable[..., ConverseError], text: str) -> None:
    """Any header gives a finite time or none."""
    seconds = read_wait(produce, retry_after=text)
    assert seconds is None or (seconds >= 0 and math.isfinite(seconds))


@given(
    st.datetimes(timezones=st.none() | st.timezones()).map(format_datetime)
    | st.from_regex(
        r"[A-Z][a-z]{2}, [0-9]{1,6} [A-Z][a-z]{2} [0-9]{1,9} [0-9:]{1,12} [A-Z+0-9]{1,9}"
    )
)
def test_any_date_is_a_time_or_none(text: str) -> None:
    """Also a date in the distant past or future, or an invalid one."""
    seconds = read_retry_after({"retry-after": text})
    assert seconds is None or (seconds >= 0 and math.isfinite(seconds))


@pytest.mark.parametrize("delay", ["9" * 400 + "s", "nans", "-3s", "infs", "", None, 3])
def test_an_invalid_delay_in_the_body_leaves_the_header(delay: object) -> None:
    """Google sends delays in the details of an error."""
    body = {"error": {"code": 429, "details": [{"retryDelay": delay}]}}
    error = generate_content.produce_error(
        body, provider="google", status=429, headers={"retry-after": "7"}
    )
    assert isinstance(error, ProviderError)
    assert error.retry_after_seconds == 7


def test_a_wait_beyond_our_limit_ends_the_attempts() -> None:
    """Even if it is finite."""
    policy = RetryPolicy(attempts=3, longest_seconds=60)
    headers = {"retry-after": "1e300"}
    error = produce_openai_error({}, provider="p", status=429, headers=headers)
    assert policy.decide(error, 1, 0.0) is None
