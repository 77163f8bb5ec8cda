"""Errors of all kinds reach OpenAI's clients in OpenAI's format, and are classified correctly."""

from __future__ import annotations

from typing import Any

import attrs
import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import errors
from vibe_llms.dialects import chat_completions
from vibe_llms.dialects.client_answers import classify
from vibe_llms.dialects.openai_serving import compose_openai_error
from vibe_llms.exceptions import (
    AccessError,
    ContextOverflowError,
    ControlError,
    ConverseError,
    CorruptionError,
    LimitError,
    ProviderError,
    ProviderFault,
    RequestError,
    Stage,
    TransportError,
    UnknownConversationError,
    UnknownNameError,
)

PLACE = "/etc/gateway/keys.toml"
KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz"

CLASSES = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    502: openai.InternalServerError,
    503: openai.InternalServerError,
    504: openai.InternalServerError,
    529: openai.InternalServerError,
}
"""What the official library raises, by the status."""


def read(answer: Any) -> ConverseError:
    """Read an answer as our own client does."""
    return chat_completions.produce_error(
        answer.body, provider="gateway", status=answer.status, headers=answer.headers
    )


def raise_as_sdk(answer: Any) -> openai.APIStatusError:
    """Return the exception of the official library for an answer."""

    def answer_request(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(answer.status, json=answer.body, headers=dict(answer.headers))

    http = httpx2.Client(transport=httpx2.MockTransport(answer_request))
    client = openai.OpenAI(
        api_key="k", base_url="http://vendor.test/v1", http_client=http, max_retries=0
    )
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    return caught.value


@given(errors)
def test_an_error_of_any_kind_is_read_as_the_same(error: ConverseError) -> None:
    """Its fault, its status, and the time to wait."""
    answer = chat_completions.nativize_error(error)

    again = read(answer)

    assert classify(again) == classify(error)
    assert attrs.asdict(answer)["body"].keys() == {"error"}
    assert answer.body["error"].keys() == {"message", "type", "param", "code"}  # type: ignore[union-attr]


@given(errors)
def test_an_error_in_the_middle_of_a_stream_is_read_as_the_same(error: ConverseError) -> None:
    """Without a status, by its fields alone."""
    body = {"error": compose_openai_error(error, conversation_field="messages", status=None)}

    again = chat_completions.produce_error(body, provider="gateway")

    assert classify(again)[0] is classify(error)[0]


@given(
    fault=st.sampled_from(ProviderFault),
    status=st.none() | st.sampled_from([*CLASSES, 200, 402, 408, 413]),
    code=st.sampled_from([None, "rate_limit_exceeded", "unheard_of", "1113"]),
    kind=st.sampled_from([None, "requests", "invalid_request_error", "novel_error"]),
)
def test_a_vendors_own_error_keeps_its_fault(
    fault: ProviderFault, status: int | None, code: str | None, kind: str | None
) -> None:
    """Also if its code, its status and its fault contradict each other."""
    error = ProviderError(fault=fault, status=status, vendor_code=code, vendor_type=kind)

    again = read(chat_completions.nativize_error(error))

    assert classify(again) == classify(error)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"message": "No key.", "type": "invalid_request_error", "code": "invalid_api_key"}, 401),
        ({"message": "Slow.", "type": "tokens", "code": "rate_limit_exceeded", "param": None}, 429),
        ({"message": "Broke.", "type": "insufficient_quota", "code": "insufficient_quota"}, 429),
        ({"message": "Bad.", "type": "invalid_request_error", "param": "messages[0].role"}, 400),
        ({"message": "Down.", "type": "server_error"}, 500),
        ({"message": "New.", "type": "novel_error", "code": "novel"}, 503),
        ({"message": "No.", "type": "invalid_request_error", "code": "content_filter"}, 400),
    ],
)
def test_the_vendors_own_fields_are_repeated(body: dict[str, Any], status: int) -> None:
    """Message, type, field and code, and the class that the official library raises."""
    error = chat_completions.produce_error({"error": body}, provider="openai", status=status)

    answer = chat_completions.nativize_error(error)
    raised = raise_as_sdk(answer)

    assert {name: text for name, text in answer.body["error"].items() if text} == {  # type: ignore[union-attr]
        name: text for name, text in body.items() if text
    }
    assert type(raised) is CLASSES[status]
    assert (raised.code, raised.type) == (body.get("code"), body["type"])


@pytest.mark.parametrize(
    ("error", "raised", "code", "param"),
    [
        (UnknownNameError(kind="model", name="gpt-9"), 404, "model_not_found", "model"),
        (
            UnknownConversationError(identity="resp_1"),
            404,
            "previous_response_not_found",
            "previous_response_id",
        ),
        (RequestError(path="messages[1]", detail="No."), 400, None, "messages[1]"),
        (RequestError(path="canisters[1].content[0]", detail="No."), 400, None, "messages"),
        (ControlError(control="top_p", path="controls.top_p"), 400, None, "top_p"),
        (ContextOverflowError(tokens=9, limit=8), 400, "context_length_exceeded", None),
        (AccessError(fault=ProviderFault.QUOTA, detail="Spent."), 429, "insufficient_quota", None),
        (AccessError(fault=ProviderFault.AUTHENTICATION), 401, "invalid_api_key", None),
        (LimitError(limit="request_bytes", value=9), 413, None, None),
        (LimitError(limit="requests", value=9), 503, "server_is_overloaded", None),
        (TransportError(address=PLACE), 502, None, None),
    ],
)
def test_our_own_errors_have_openais_codes(
    error: ConverseError, raised: int, code: str | None, param: str | None
) -> None:
    """The class that the official library raises, the code, and the field of the request."""
    answer = chat_completions.nativize_error(error)

    caught = raise_as_sdk(answer)

    assert type(caught) is CLASSES.get(raised, openai.APIStatusError)
    assert caught.status_code == raised
    assert caught.code == code
    assert caught.param == param


def test_clients_find_the_sizes_of_an_overflow() -> None:
    """In OpenAI's sentence, unless the vendor's own message already has them."""
    other = ContextOverflowError(tokens=201, limit=200, detail="prompt is too long: 201 > 200.")
    own = ContextOverflowError(
        tokens=9,
        limit=8,
        detail="This model's maximum context length is 8 tokens, but the request has 9 tokens.",
    )

    assert chat_completions.nativize_error(other).body["error"] == {
        "message": "This model's maximum context length is 200 tokens. However, your messages "
        "resulted in 201 tokens.",
        "type": "invalid_request_error",
        "param": None,
        "code": "context_length_exceeded",
    }
    again = read(chat_completions.nativize_error(own))
    assert isinstance(again, ContextOverflowError)
    assert (again.tokens, again.limit, again.detail) == (9, 8, own.detail)


@pytest.mark.parametrize(
    "error",
    [
        CorruptionError(path=PLACE, line=3, detail=f"{PLACE} is damaged"),
        ConverseError(detail=f"KeyError in {PLACE}", remedy=PLACE, stage=Stage.DECODE),
        TransportError(address=f"http://10.0.0.3/{PLACE}", detail=PLACE, remedy=PLACE),
        UnknownNameError(kind="model", name="m", detail=f"{PLACE} has no m.", remedy=PLACE),
        LimitError(limit="response_bytes", detail=PLACE, remedy=PLACE),
        ProviderError(provider=PLACE, remedy=PLACE, detail=f"Incorrect API key: {KEY}"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_internal_details_are_not_sent(error: ConverseError) -> None:
    """No path, no address, no setting, no key."""
    answer = chat_completions.nativize_error(error)

    assert PLACE not in str(answer)
    assert KEY not in str(answer)
    assert "10.0.0.3" not in str(answer)
