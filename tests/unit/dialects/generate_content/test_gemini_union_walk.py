"""Every field and value in Google's types is mapped, or stays native and round-trips.

The table beside this file was read from google-genai, and is compared with the installed version.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from fidelity.meanings import distil
from support.vendors.gemini_answers import decode, read_turn, round_trip_request
from vibe_llms.dialects.generate_content import Decoder, nativize_response
from vibe_llms.dialects.generate_content.calling.usage import normalize_usage
from vibe_llms.dialects.generate_content.tables import STOP_REASONS
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
)

mean = functools.partial(distil, "generate_content")

TABLE = tomllib.loads(Path(__file__).with_name("gemini_types.toml").read_text("utf-8"))
FIELDS: Mapping[str, Mapping[str, str]] = TABLE["fields"]
WORDS: Mapping[str, Mapping[str, str]] = TABLE["words"]

MUST_BE_MAPPED = {
    "Part": {"text", "thought", "thoughtSignature", "inlineData", "fileData", "functionCall",
             "functionResponse", "executableCode", "codeExecutionResult", "toolCall",
             "toolResponse"},
    "Candidate": {"content", "finishReason", "groundingMetadata", "citationMetadata"},
    "GenerateContentResponse": {"usageMetadata", "responseId", "modelVersion"},
    "GenerateContentResponseUsageMetadata": {"promptTokenCount", "cachedContentTokenCount",
                                             "candidatesTokenCount", "thoughtsTokenCount"},
}  # fmt: skip
"""Text, media, reasoning, invocations, results, citations and usage may not stay native."""

SAMPLES: Mapping[str, Any] = {
    "text": "words",
    "inlineData": {"mimeType": "image/png", "data": "AAAA"},
    "fileData": {"mimeType": "video/mp4", "fileUri": "https://example.org/a.mp4"},
    "functionCall": {"id": "c1", "name": "f", "args": {"a": 1}},
    "executableCode": {"id": "x1", "language": "PYTHON", "code": "1"},
    "codeExecutionResult": {"id": "x1", "outcome": "OUTCOME_OK", "output": "1"},
    "toolCall": {"id": "t1", "toolType": "URL_CONTEXT", "args": {"u": "v"}},
    "toolResponse": {"id": "t1", "toolType": "URL_CONTEXT", "response": {"r": 1}},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}


def test_the_table_is_that_of_the_installed_types() -> None:
    """A new release shows what is missing."""
    for name, fields in FIELDS.items():
        declared = {f.alias or key for key, f in getattr(types, name).model_fields.items()}
        assert declared == set(fields), name
    for name, words in WORDS.items():
        assert {member.value for member in getattr(types, name)} == set(words), name


@pytest.mark.parametrize("kind", MUST_BE_MAPPED)
def test_common_fields_are_mapped(kind: str) -> None:
    """Fields that every vendor has become common fields."""
    assert all(FIELDS[kind][name] not in ("native", "sdk") for name in MUST_BE_MAPPED[kind])


@pytest.mark.parametrize("name", FIELDS["Part"])
def test_every_field_of_a_part_is_kept(name: str) -> None:
    """Mapped or native, beside a text or alone, streamed or not: it round-trips."""
    part: dict[str, Any] = {name: SAMPLES.get(name, {"some": {"thing": [1]}})}
    if name in ("thought", "thoughtSignature"):
        part = {name: True if name == "thought" else "c2VhbA==", "text": "words"}
    if name == "functionResponse":
        call = {"functionCall": {"id": "c1", "name": "f", "args": {}}, "thoughtSignature": "c2Vh"}
        result = {name: {"id": "c1", "name": "f", "response": {"output": "1"}}}
        contents = [
            {"role": "user", "parts": [{"text": "go"}]},
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [result]},
        ]
        assert mean(round_trip_request({"contents": contents})["contents"]) == mean(contents)
        return
    for each in (part, {"text": "words", **part}):
        candidate = {"content": {"role": "model", "parts": [each]}, "finishReason": "STOP"}
        written: Any = nativize_response(decode({"candidates": [candidate]})).value
        assert written["candidates"][0]["content"]["parts"] == [each]
        request_body = {"contents": [{"role": "model", "parts": [each]}]}
        if name != "functionCall":  # a call must follow a word of the user, and be answered
            assert mean(round_trip_request(request_body)["contents"]) == mean(
                request_body["contents"]
            )


@pytest.mark.parametrize("name", FIELDS["Part"])
def test_every_field_of_a_part_becomes_the_content_in_the_table(name: str) -> None:
    """The kinds of contents are those of the table."""
    expected = FIELDS["Part"][name]
    if name in ("functionResponse", "thoughtSignature"):
        return
    canister = read_turn(
        {name: SAMPLES.get(name, True), **({"text": "hm"} if name == "thought" else {})}
    )
    match expected:
        case "invocation" | "result":
            kind = InvocationCanister if expected == "invocation" else ResultCanister
            assert isinstance(canister, kind)
            ours = name == "functionCall"
            assert canister.owner is (Owner.OURS if ours else Owner.VENDOR)
        case _:
            assert isinstance(canister, AssistantCanister)
            (content,) = canister.content
            media = ("image", "audio", "video", "file")
            assert content.type == expected or (expected == "media" and content.type in media)


@pytest.mark.parametrize("name", FIELDS["Candidate"])
def test_every_field_of_a_candidate_round_trips(name: str) -> None:
    """Fields without a common name are native data of the response."""
    samples = {"index": 0, "finishReason": "STOP", "avgLogprobs": -0.5}
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": "a"}]}}
    candidate["finishReason"] = "STOP"
    if name != "content":
        candidate[name] = samples.get(name, {"some": "thing"})
    body = {"candidates": [candidate], "modelVersion": "m"}
    assert mean(nativize_response(decode(body)).value) == mean(body)


@pytest.mark.parametrize(
    "name", [n for n, word in FIELDS["GenerateContentResponse"].items() if word == "native"]
)
def test_every_field_of_a_response_round_trips(name: str) -> None:
    """Also the fields around the candidates."""
    candidate = {"content": {"role": "model", "parts": [{"text": "a"}]}, "finishReason": "STOP"}
    body = {"candidates": [candidate], "modelVersion": "m", name: {"some": "thing"}}
    assert mean(nativize_response(decode(body)).value) == mean(body)


@pytest.mark.parametrize(("name", "bucket"), FIELDS["GenerateContentResponseUsageMetadata"].items())
def test_every_count_is_in_the_bucket_of_the_table(name: str, bucket: str) -> None:
    """Each count is in one bucket, and the native usage is kept."""
    native: dict[str, Any] = {name: 5}
    if bucket.endswith("audio_tokens"):
        total = "candidatesTokenCount" if bucket.startswith("out") else "promptTokenCount"
        native = {total: 9, name: [{"modality": "AUDIO", "tokenCount": 5}]}
        if name == "cacheTokensDetails":
            native |= {"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": 10}]}
    usage = normalize_usage(native)
    assert usage.native is not None
    if bucket != "native":
        assert getattr(usage, bucket) == 5


@pytest.mark.parametrize(("word", "expected"), WORDS["FinishReason"].items())
def test_every_finish_reason_has_a_stop_reason(word: str, expected: str) -> None:
    """With the native reason."""
    body = {"candidates": [{"finishReason": word}]}
    response = decode(body)
    assert response.metadata.stop_reason == expected
    assert response.metadata.origin.native_stop_reason == word
    assert set(STOP_REASONS) == set(WORDS["FinishReason"])


@pytest.mark.parametrize("word", WORDS["BlockedReason"])
def test_every_blocked_prompt_is_a_filtered_response(word: str) -> None:
    """There are no candidates; the reason and the ratings are kept."""
    body = {"promptFeedback": {"blockReason": word, "safetyRatings": []}, "modelVersion": "m"}
    response = decode(body)
    assert response.canisters == ()
    assert response.metadata.stop_reason is StopReason.FILTERED
    assert mean(nativize_response(response).value) == mean(body)
    assert Decoder(provider="google").decode_response(body)


@pytest.mark.parametrize(("kind", "expected"), FIELDS["Tool"].items())
def test_every_tool_round_trips(kind: str, expected: str) -> None:
    """The vendor's own tools, and functions."""
    value: Any = {"some": {"thing": 1}}
    if expected == "invocables":
        value = [{"name": "f", "description": "Does.", "parametersJsonSchema": SCHEMA}]
    body = {"contents": [{"role": "user", "parts": [{"text": "go"}]}], "tools": [{kind: value}]}
    assert mean(round_trip_request(body)) == mean(body)


@pytest.mark.parametrize("name", FIELDS["FunctionDeclaration"])
def test_every_field_of_a_function_round_trips(name: str) -> None:
    """Schemas in both forms, and the description of the response."""
    function: dict[str, Any] = {"name": "f"}
    if name != "name":
        function[name] = "Does." if name == "description" else SCHEMA
    body = {
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "tools": [{"functionDeclarations": [function]}],
    }
    assert mean(round_trip_request(body)) == mean(body)


@pytest.mark.parametrize(("mode", "expected"), WORDS["FunctionCallingConfigMode"].items())
@pytest.mark.parametrize("further", [{}, {"streamFunctionCallArguments": True}])
def test_every_mode_round_trips(mode: str, expected: str, further: dict[str, Any]) -> None:
    """As a common choice, with native data for the rest."""
    function = {"name": "f", "description": "Does.", "parametersJsonSchema": SCHEMA}
    body = {
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "tools": [{"functionDeclarations": [function]}],
        "toolConfig": {"functionCallingConfig": {"mode": mode, **further}},
    }
    request: dict[str, Any] = {}
    assert mean(round_trip_request(body, request)) == mean(body)
    assert expected in ("native", request["request"].invocation_choice)


TOP_FIELDS = {"safetySettings", "labels", "cachedContent", "serviceTier", "continuationToken",
              "store", "modelArmorConfig", "generationOutputConfig"}  # fmt: skip
CONFIG_SAMPLES: Mapping[str, Any] = {
    "temperature": 0.5, "topP": 0.5, "topK": 5, "maxOutputTokens": 5, "stopSequences": ["x"],
    "presencePenalty": 0.5, "frequencyPenalty": 0.5, "seed": 5, "serviceTier": "flex",
    "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 5},
    "responseMimeType": "text/x.enum", "responseSchema": SCHEMA, "responseJsonSchema": SCHEMA,
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), FIELDS["GenerateContentConfig"].items())
@pytest.mark.parametrize("knows_controls", [True, False])
def test_every_parameter_round_trips(name: str, expected: str, knows_controls: bool) -> None:
    """As a control, or as native data of the request."""
    if expected in ("sdk", "supervisor", "invocables", "choice"):
        return
    value = CONFIG_SAMPLES.get(name, {"some": "thing"})
    body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "go"}]}]}
    body |= {name: value} if name in TOP_FIELDS else {"generationConfig": {name: value}}
    kept: dict[str, Any] = {}
    assert mean(round_trip_request(body, kept, knows_controls=knows_controls)) == mean(body)
    if knows_controls and expected not in ("native", "schema", "reasoning_effort"):
        assert kept["request"].controls == {expected: value}


@pytest.mark.parametrize(("word", "expected"), WORDS["ThinkingLevel"].items())
@pytest.mark.parametrize("spell", [str.upper, str.lower])
def test_every_level_keeps_its_spelling(word: str, expected: str, spell: Any) -> None:
    """Vendors accept both spellings."""
    body = {
        "contents": [{"role": "user", "parts": [{"text": "go"}]}],
        "generationConfig": {"thinkingConfig": {"thinkingLevel": spell(word)}},
    }
    kept: dict[str, Any] = {}
    assert mean(round_trip_request(body, kept, knows_controls=True)) == mean(body)
    assert expected in ("native", kept["request"].controls.get("reasoning_effort"))


@pytest.mark.parametrize(("word", "expected"), WORDS["Outcome"].items())
def test_every_outcome_is_a_success_or_an_error(word: str, expected: str) -> None:
    """Of code that the vendor executed."""
    canister = read_turn({"codeExecutionResult": {"outcome": word, "output": "1"}})
    assert isinstance(canister, ResultCanister)
    assert canister.is_error is (expected == "error")


@pytest.mark.parametrize(("word", "expected"), WORDS["ToolType"].items())
def test_every_tool_of_the_vendor_has_a_name(word: str, expected: str) -> None:
    """By its type."""
    canister = read_turn({"toolCall": {"toolType": word, "args": {}}})
    assert isinstance(canister, InvocationCanister)
    assert canister.name == expected
