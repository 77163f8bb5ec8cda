"""Forms with the same meaning round-trip: parts, results and schemas."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from fidelity.meanings import distil
from vibe_llms.dialects.generate_content import (
    PROTOCOL,
    Decoder,
    Quirks,
    nativize_request,
    nativize_response,
    normalize_request,
)
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.messages.views import text_of
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.providers.assembly import Assembler

mean = functools.partial(distil, "generate_content")

ATTRIBUTES = ModelsIntegrator(provider="google").integrate("gemini-2.5-flash")


def send_back(native: dict[str, Any]) -> Any:
    return nativize_request(normalize_request(native).value, ATTRIBUTES, Quirks()).value


def test_parts_of_a_complete_response_stay_separate() -> None:
    """The text is one content, and has as many parts as before."""
    thoughts = [{"text": "a", "thought": True}, {"text": "bc", "thought": True}]
    parts = [*thoughts, {"text": "one "}, {"text": "two"}, {"text": "!"}]
    content = {"role": "model", "parts": parts}
    body = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "modelVersion": "m",
        "responseId": "r",
    }
    assembler = Assembler(provider="google", model="m", protocol=PROTOCOL)
    for event in Decoder(provider="google").decode_response(json.dumps(body).encode()):
        assembler.feed(event)
    response = Response(
        request=Request(canisters=[UserCanister("?")]),
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
        losses=assembler.losses,
    )

    assert text_of(response.canisters[0]) == "one two!"
    assert mean(nativize_response(response).value) == mean(body)


@pytest.mark.parametrize("role", ["user", "model"])
def test_parts_of_a_request_stay_separate(role: str) -> None:
    """In each role."""
    parts = [{"text": "one "}, {"text": "two"}]
    last = {"role": "user", "parts": [{"text": "go"}]}
    first = {"role": "user", "parts": [{"text": "so"}]}
    contents = [first, {"role": role, "parts": parts}, last]

    assert mean(send_back({"contents": contents})["contents"]) == mean(contents)


@pytest.mark.parametrize("response", [[1, {"a": 2}], [], "text", "", 5, True, {"output": [1]}])
def test_a_response_of_a_function_round_trips(response: Any) -> None:
    """A list, a text or a number is not put into an object."""
    contents = [
        {"role": "user", "parts": [{"text": "go"}]},
        {"role": "model", "parts": [{"functionCall": {"id": "1", "name": "f", "args": {}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "1", "name": "f", "response": response}}],
        },
    ]

    assert mean(send_back({"contents": contents})["contents"]) == mean(contents)


@pytest.mark.parametrize(
    "newer", [{"type": "object", "properties": {"a": {"type": "string"}}}, {"type": "array"}]
)
def test_a_schema_in_both_forms_round_trips(newer: dict[str, Any]) -> None:
    """Whether both are equal or not."""
    native = {
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": newer,
            "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        },
    }

    assert mean(send_back(native)) == mean(native)
