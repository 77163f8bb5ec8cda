"""Errors of all kinds reach Google's clients in Google's format, and are classified correctly."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from google import genai
from google.genai.errors import APIError, ClientError, ServerError
from google.genai.types import HttpOptions
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import errors
from vibe_llms.dialects import generate_content
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
KEY = "AIzaSyA1234567890abcdefghijklmnopqrstuv"


def read(answer: Any) -> ConverseError:
    """Read an answer as our own client does."""
    return generate_content.produce_error(
        answer.body, provider="gateway", status=answer.status, headers=answer.headers
    )


def raise_as_sdk(answer: Any) -> APIError:
    """Return the exception of the official library for an answer."""

    def answer_request(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(answer.status, json=answer.body, headers=dict(answer.headers))

    http = httpx2.Client(transport=httpx2.MockTransport(answer_request))
    client = genai.Client(api_key="k", http_options=HttpOptions(httpx_client=http))
    with pytest.raises(APIError) as caught:
        client.models.generate_content(model="m", contents="Hi")
    return caught.value


@given(errors)
def test_an_error_of_any_kind_is_read_as_the_same(error: ConverseError) -> None:
    """Its fault, its status, and the time to wait."""
    answer = generate_content.nativize_error(error)

    assert classify(read(answer)) == classify(error)


@given(
    fault=st.sampled_from(ProviderFault),
    status=st.none() | st.sampled_from([200, 400, 401, 402, 403, 404, 408, 413, 429, 500, 529]),
    code=st.sampled_from([None, "RATE_LIMIT_EXCEEDED", "unheard_of", "429"]),
    kind=st.sampled_from([None, "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "NOVEL"]),
)
def test_a_vendors_own_error_keeps_its_fault(
    fault: ProviderFault, status: int | None, code: str | None, kind: str | None
) -> None:
    """Also if its name, its status and its fault contradict each other."""
    error = ProviderError(
        fault=fault, status=status, vendor_code=code, vendor_type=kind, detail="No API key."
    )

    assert classify(read(generate_content.nativize_error(error))) == classify(error)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "raised"),
    [
        ({"code": 404, "message": "No such model.", "status": "NOT_FOUND"}, ClientError),
        ({"code": 429, "message": "Slower.", "status": "RESOURCE_EXHAUSTED"}, ClientError),
        ({"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}, ServerError),
        (
            {
                "code": 400,
                "message": "API key not valid. Please pass a valid API key.",
                "status": "INVALID_ARGUMENT",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                        "reason": "API_KEY_INVALID",
                        "domain": "googleapis.com",
                    }
                ],
            },
            ClientError,
        ),
        (
            {
                "code": 429,
                "message": "Please retry.",
                "status": "RESOURCE_EXHAUSTED",
                "details": [
                    {
                        "@type": "type.googleapis.com/google.rpc.RetryInfo",
                        "retryDelay": "49s",
                    }
                ],
            },
            ClientError,
        ),
    ],
)
def test_the_vendors_own_fields_are_repeated(body: dict[str, Any], raised: type[Exception]) -> None:
    """Message, status, reason and the time to wait."""
    error = generate_content.produce_error(
        {"error": body}, provider="google", status=int(body["code"])
    )

    answer = generate_content.nativize_error(error)

    assert answer.body == {"error": body}
    assert answer.status == body["code"]
    assert type(raise_as_sdk(answer)) is raised


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (AccessError(fault=ProviderFault.QUOTA, detail="Spent."), 429, "RESOURCE_EXHAUSTED"),
        (AccessError(fault=ProviderFault.AUTHENTICATION), 401, "UNAUTHENTICATED"),
        (ContextOverflowError(tokens=9, limit=8), 400, "INVALID_ARGUMENT"),
        (LimitError(limit="request_bytes", value=9), 413, "INVALID_ARGUMENT"),
        (LimitError(limit="requests", value=9), 503, "UNAVAILABLE"),
        (TransportError(address=PLACE), 502, "INTERNAL"),
    ],
)
def test_our_own_errors_have_the_vendors_names(
    error: ConverseError, status: int, word: str
) -> None:
    """The official library raises the class of the status, and knows the name."""
    raised = raise_as_sdk(generate_content.nativize_error(error))

    assert (raised.code, raised.status) == (status, word)


def test_clients_find_the_sizes_of_an_overflow() -> None:
    """In the vendor's sentence, which our own client reads as the same error."""
    answer = generate_content.nativize_error(ContextOverflowError(tokens=201, limit=200))

    again = read(answer)

    assert isinstance(again, ContextOverflowError)
    assert (again.tokens, again.limit) == (201, 200)


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
    writer = generate_content.StreamWriter({}, model="m")
    sent = str(generate_content.nativize_error(error)) + str(writer.fail(error))

    assert PLACE not in sent
    assert KEY not in sent
    assert "10.0.0.3" not in sent
