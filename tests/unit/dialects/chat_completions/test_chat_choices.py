"""Choices of complete responses: none, some with errors, and in any order."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from vibe_llms.dialects.chat_completions import PROTOCOL, Decoder, nativize_response
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.messages.views import text_of
from vibe_llms.providers.assembly import Assembler

mean = functools.partial(distil, "chat_completions")

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
HEAD = {"id": "c", "object": "chat.completion", "created": 7, "model": "m", "usage": USAGE}


def read(body: dict[str, Any]) -> Response:
    assembler = Assembler(provider="vendor", model="asked", protocol=PROTOCOL)
    for event in Decoder(provider="vendor").decode_response(json.dumps(body).encode()):
        assembler.feed(event)
    return Response(
        request=Request(canisters=[UserCanister("?")]),
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
        losses=assembler.losses,
    )


def say(index: int | None, text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"index": index, "message": message, "finish_reason": "stop"}


@pytest.mark.parametrize("choices", [{"choices": []}, {"choices": None}, {}])
def test_a_response_without_choices_is_an_error(choices: dict[str, Any]) -> None:
    """Even if the vendor reports success, and has counted tokens."""
    body = {**HEAD, **choices, "base_resp": {"status_code": 0, "status_msg": "success"}}

    with pytest.raises(ConverseError, match="empty"):
        read(body)


@pytest.mark.parametrize(
    ("fields", "fault", "words"),
    [
        (
            {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
            ProviderFault.QUOTA,
            "insufficient balance",
        ),
        (
            {"base_resp": {"status_code": 1002, "status_msg": "too fast"}},
            ProviderFault.RATE_LIMITED,
            "too fast",
        ),
        ({"error": {"message": "no", "type": "api_error"}}, ProviderFault.SERVER, "no"),
        ({"error_msg": "no such thing"}, None, "no such thing"),
        ({"errors": [{"msg": "bad", "loc": ["a"]}]}, None, "a: bad"),
        ({"errorMessage": "not now"}, None, "not now"),
    ],
)
@pytest.mark.parametrize("choices", [{"choices": []}, {"choices": None}, {}])
def test_a_failure_without_choices_is_an_error(
    choices: dict[str, Any], fields: dict[str, Any], fault: ProviderFault | None, words: str
) -> None:
    """The vendor may report it in any field, even in an answer that looks like a success."""
    with pytest.raises(ConverseError) as raised:
        read({**HEAD, **choices, **fields})

    assert isinstance(raised.value, ProviderError)
    assert words in raised.value.detail
    assert fault is None or raised.value.fault is fault


@given(st.lists(st.sampled_from([None, 0, 1, 2]), min_size=1, max_size=4))
def test_choices_keep_their_order(numbers: list[int | None]) -> None:
    """With any indexes: descending, equal, or missing."""
    choices = [say(number, f"text {place}") for place, number in enumerate(numbers)]
    body = {**HEAD, "choices": choices}

    assert mean(nativize_response(read(body)).value) == mean(body)


@pytest.mark.parametrize(
    ("numbers", "text"), [([1, 0], "text 1"), ([1], "text 0"), ([0, 0], "text 0")]
)
def test_the_answer_is_the_first_choice_of_the_lowest_index(numbers: list[int], text: str) -> None:
    """At any position."""
    choices = [say(number, f"text {place}") for place, number in enumerate(numbers)]

    (canister,) = read({**HEAD, "choices": choices}).canisters

    assert text_of(canister) == text
