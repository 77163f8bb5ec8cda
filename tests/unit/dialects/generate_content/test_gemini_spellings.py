"""Different spellings of clients and the vendor have the same meaning, and round-trip."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from fidelity.meanings import distil
from support.vendors.gemini_answers import decode, round_trip_request
from vibe_llms.dialects.generate_content import nativize_response

mean = functools.partial(distil, "generate_content")

FUNCTION = {"name": "f", "description": "d"}
OBJECT = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}

UNUSUAL_REQUESTS: dict[str, Any] = {
    "one of an enumeration": {
        "generationConfig": {
            "responseMimeType": "text/x.enum",
            "responseSchema": {"type": "STRING", "enum": ["a", "b"]},
        }
    },
    "a mode without functions": {"toolConfig": {"functionCallingConfig": {"mode": "NONE"}}},
    "functions in several tools": {
        "tools": [
            {"functionDeclarations": [FUNCTION]},
            {"functionDeclarations": [{**FUNCTION, "name": "g", "parameters": OBJECT}]},
        ]
    },
    "functions beside a search": {
        "tools": [{"functionDeclarations": [FUNCTION], "googleSearch": {}}, {"urlContext": {}}]
    },
    "no tools": {"tools": []},
    "an empty description": {
        "tools": [{"functionDeclarations": [{**FUNCTION, "description": ""}]}]
    },
    "numbers beyond a control": {"generationConfig": {"maxOutputTokens": "5", "topK": -1}},
}


@pytest.mark.parametrize("fields", UNUSUAL_REQUESTS.values(), ids=UNUSUAL_REQUESTS)
@pytest.mark.parametrize("knows_controls", [True, False])
def test_an_unusual_request_round_trips(fields: Any, knows_controls: bool) -> None:
    """Whether its parameters became controls or not."""
    body = {"contents": [{"role": "user", "parts": [{"text": "q"}]}], **fields}

    assert mean(round_trip_request(body, knows_controls=knows_controls)) == mean(body)


ANSWERS: dict[str, Any] = {
    "without contents": {"candidates": [{"finishReason": "SAFETY", "index": 0}]},
    "without parts": {"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}]},
    "without a role": {"candidates": [{"content": {"parts": [{"text": "a"}]}}]},
    "of another role": {"candidates": [{"content": {"role": "user", "parts": [{"text": "a"}]}}]},
    "blocked": {"promptFeedback": {"blockReason": "OTHER"}},
    "with a title of no kind": {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": "a"}]},
                "finishReason": "STOP",
                "groundingMetadata": {
                    "groundingChunks": [{"web": {"uri": "u", "title": 4}}],
                    "groundingSupports": [
                        {"segment": {"endIndex": 1}, "groundingChunkIndices": [0]}
                    ],
                },
            }
        ]
    },
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_missing_fields_of_an_answer_change_nothing(answer: Any) -> None:
    """A complete answer round-trips with its fields, and with the name of the requested model."""
    response = decode(answer)
    written = nativize_response(response)

    assert mean(written.value) == mean({**answer, "modelVersion": "asked"})
    assert written.losses == response.losses == ()
