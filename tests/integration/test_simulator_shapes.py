"""Gemini and Ollama, for which no SDK stands as judge, answer in the shapes that were recorded."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import pytest

from vibe_llms.testing.simulator import (
    Cite,
    Draw,
    Invoke,
    Refuse,
    Say,
    ScriptedAnswer,
    Search,
    Simulator,
    Think,
)
from vibe_llms.testing.simulator.behaviour import produce_png

TEXT, COUNT, OBJECT = {"type": "string"}, {"type": "integer", "minimum": 0}, {"type": "object"}


def closed(required: str, **properties: Any) -> dict[str, Any]:
    """The schema of an object that has no other fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": required.split(),
        "additionalProperties": False,
    }


CALL = closed("name args", id=TEXT, name=TEXT, args=OBJECT)
PART = {
    **closed(
        "",
        text=TEXT,
        thought={"const": True},
        thoughtSignature={"type": "string", "minLength": 16},
        functionCall=CALL,
        inlineData=closed("mimeType data", mimeType=TEXT, data=TEXT),
    ),
    "minProperties": 1,
}
CANDIDATE = closed(
    "content",
    content=closed("parts role", parts={"type": "array", "items": PART}, role={"const": "model"}),
    finishReason={"enum": ["STOP", "MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL"]},
    finishMessage=TEXT,
    index=COUNT,
    safetyRatings={"type": "array"},
    groundingMetadata=OBJECT,
)
GEMINI = closed(
    "candidates usageMetadata modelVersion responseId",
    candidates={"type": "array", "items": CANDIDATE},
    usageMetadata=closed(
        "promptTokenCount totalTokenCount",
        promptTokenCount=COUNT,
        candidatesTokenCount=COUNT,
        totalTokenCount=COUNT,
        thoughtsTokenCount=COUNT,
        cachedContentTokenCount=COUNT,
        promptTokensDetails={"type": "array"},
    ),
    modelVersion=TEXT,
    responseId=TEXT,
)
OLLAMA = closed(
    "model created_at message done",
    model=TEXT,
    created_at={"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT[\d:.]+Z$"},
    message=closed(
        "role content",
        role={"const": "assistant"},
        content=TEXT,
        thinking=TEXT,
        images={"type": "array", "items": TEXT},
        tool_calls={
            "type": "array",
            "items": closed(
                "function",
                id=TEXT,
                function=closed("name arguments", name=TEXT, arguments=OBJECT, index=COUNT),
            ),
        },
    ),
    done={"type": "boolean"},
    done_reason={"enum": ["stop", "length"]},
    **dict.fromkeys(
        ["total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration"], COUNT
    ),
    eval_count=COUNT,
    eval_duration=COUNT,
)
DECLARATIONS = [
    {"name": name, "parametersJsonSchema": {"type": "object", "properties": {"n": {}}}}
    for name in ("first", "second")
]
WAYS = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
EVERYTHING = ScriptedAnswer(
    parts=(
        Think("Hm, hm."),
        Search("what?"),
        Say("So it is, "),
        Say("indeed.", (Cite(url="https://example.com/a"),)),
        Draw(produce_png(1, 1)),
        Invoke("first", {"n": 1}),
        Invoke("second", {}),
    )
)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A simulator without conditions."""
    async with Simulator() as running:
        yield running


async def post(simulator: Simulator, path: str, body: Any, status: int = 200) -> list[Any]:
    """The objects that come back, one or many."""
    headers = {"x-goog-api-key": "k"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(simulator.url + path, json=body) as response,
    ):
        text = await response.text()
        assert response.status == status, text
    if response.content_type == "application/json":
        return [json.loads(text)]
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]


async def generate(simulator: Simulator, streams: bool, **body: Any) -> list[Any]:
    """What Gemini answers, each object held against the schema."""
    method = "streamGenerateContent?alt=sse" if streams else "generateContent"
    answers = await post(simulator, f"/v1beta/models/gemini-3-pro:{method}", body)
    for answer in answers:
        jsonschema.validate(answer, GEMINI)
    assert "finishReason" in answers[-1]["candidates"][0]
    return answers


async def chat(simulator: Simulator, streams: bool, **body: Any) -> list[Any]:
    """What Ollama answers, each object held against the schema."""
    answers = await post(simulator, "/api/chat", {"model": "m", "stream": streams, **body})
    for answer in answers:
        jsonschema.validate(answer, OLLAMA)
    assert [answer["done"] for answer in answers] == [False] * (len(answers) - 1) + [True]
    return answers


def said(text: str) -> Any:
    """Contents that say a text."""
    return [{"role": "user", "parts": [{"text": text}]}]


def collect_parts(answers: list[Any]) -> list[Any]:
    """All parts of an answer of Gemini."""
    return [part for a in answers for part in a["candidates"][0]["content"]["parts"]]


@pytest.mark.slow
@WAYS
async def test_all_that_can_be_said_has_the_shapes_of_gemini(
    simulator: Simulator, streams: bool
) -> None:
    """Thoughts, text, pictures, calls and grounding; a refusal says nothing but why."""
    simulator.enqueue(EVERYTHING, ScriptedAnswer(parts=(Refuse("No."),)))
    answers = await generate(simulator, streams, contents=said("x"))
    parts = collect_parts(answers)
    thoughts = "".join(part["text"] for part in parts if part.get("thought"))
    text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
    assert (thoughts, text) == ("Hm, hm.", "So it is, indeed.")
    calls = [part for part in parts if "functionCall" in part]
    assert ["thoughtSignature" in call for call in calls] == [True, False]
    grounding = answers[-1]["candidates"][0]["groundingMetadata"]
    segment = grounding["groundingSupports"][0]["segment"]
    assert text.encode()[segment["startIndex"] : segment["endIndex"]].decode() == "indeed."
    refused = await generate(simulator, streams, contents=said("x"))
    assert refused[-1]["candidates"][0]["finishReason"] == "SAFETY"


@pytest.mark.slow
@WAYS
async def test_tools_make_a_round_trip_with_their_signature(
    simulator: Simulator, streams: bool
) -> None:
    """Gemini insists on the signature that it gave, on the part that had it."""
    contents = said("use tools")
    tools = [{"functionDeclarations": DECLARATIONS}]
    answers = await generate(simulator, streams, contents=contents, tools=tools)
    parts = [part for part in collect_parts(answers) if "functionCall" in part]
    assert len(parts) == 2
    contents.append({"role": "model", "parts": parts})
    responses = [
        {
            "functionResponse": {
                "id": part["functionCall"]["id"],
                "name": part["functionCall"]["name"],
                "response": {"output": "sun"},
            }
        }
        for part in parts
    ]
    contents.append({"role": "user", "parts": responses})
    answers = await generate(simulator, streams, contents=contents, tools=tools)
    text = "".join(part["text"] for part in collect_parts(answers))
    assert text == "first said: sun; second said: sun"
    path = "/v1/models/gemini-3-pro:generateContent"
    fewer = [*contents[:2], {"role": "user", "parts": responses[:1]}]
    (error,) = await post(simulator, path, {"contents": fewer}, 400)
    assert "number of function response parts" in error["error"]["message"]
    signature = parts[0].pop("thoughtSignature")
    (error,) = await post(simulator, path, {"contents": contents}, 400)
    assert "missing a thought_signature" in error["error"]["message"]
    parts[0]["thoughtSignature"] = signature.swapcase()
    (error,) = await post(simulator, path, {"contents": contents}, 400)
    assert error["error"]["status"] == "INVALID_ARGUMENT"
    parts[0]["thoughtSignature"] = "skip_thought_signature_validator"
    await post(simulator, path, {"contents": contents})


@WAYS
async def test_gemini_keeps_to_schemas_limits_and_stops(
    simulator: Simulator, streams: bool
) -> None:
    """Structured output, maxOutputTokens and stopSequences do what they say."""
    schema = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}
    config: Any = {"responseMimeType": "application/json", "responseSchema": schema}
    answers = await generate(simulator, streams, contents=said("x"), generationConfig=config)
    assert json.loads("".join(p["text"] for p in collect_parts(answers))) == {"n": 7}
    config = {"maxOutputTokens": 1}
    answers = await generate(
        simulator, streams, contents=said("long text"), generationConfig=config
    )
    assert answers[-1]["candidates"][0]["finishReason"] == "MAX_TOKENS"
    config = {"stopSequences": ["two"]}
    answers = await generate(simulator, streams, contents=said("one two"), generationConfig=config)
    assert "".join(p["text"] for p in collect_parts(answers)) == "one "


@WAYS
async def test_all_that_can_be_said_has_the_shapes_of_ollama(
    simulator: Simulator, streams: bool
) -> None:
    """Thinking, text, pictures and calls."""
    simulator.enqueue(EVERYTHING)
    answers = await chat(simulator, streams, messages=[{"role": "user", "content": "x"}])
    messages = [answer["message"] for answer in answers]
    assert "".join(m["content"] for m in messages) == "So it is, indeed."
    assert "".join(m.get("thinking", "") for m in messages) == "Hm, hm."
    calls = [call["function"] for m in messages for call in m.get("tool_calls", ())]
    assert [(call["index"], call["arguments"]) for call in calls] == [(0, {"n": 1}), (1, {})]


@pytest.mark.slow
@WAYS
async def test_tools_pictures_and_schemas_work_in_ollama(
    simulator: Simulator, streams: bool
) -> None:
    """A round trip of a tool, a picture that is seen, JSON that fits."""
    tools = [{"type": "function", "function": {"name": "first", "parameters": {}}}]
    messages: Any = [{"role": "user", "content": "call first"}]
    answers = await chat(simulator, streams, messages=messages, tools=tools)
    (calls,) = [a["message"]["tool_calls"] for a in answers if "tool_calls" in a["message"]]
    messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    messages.append({"role": "tool", "tool_name": "first", "content": "sun"})
    answers = await chat(simulator, streams, messages=messages, tools=tools)
    assert "".join(a["message"]["content"] for a in answers) == "first said: sun"
    images = [base64.b64encode(produce_png(4, 5)).decode()]
    messages = [{"role": "user", "content": "look", "images": images}]
    answers = await chat(simulator, streams, messages=messages)
    assert "".join(a["message"]["content"] for a in answers) == "I see image/png of 4 x 5 pixels."
    form = {"type": "object", "properties": {"n": {"type": "integer"}}}
    answers = await chat(
        simulator, streams, messages=[{"role": "user", "content": "x"}], format=form
    )
    assert json.loads("".join(a["message"]["content"] for a in answers)) == {"n": 7}


async def test_ollama_tells_of_its_models(simulator: Simulator) -> None:
    """Version, tags, what runs, what a model can do, and a pull with progress."""
    async with aiohttp.ClientSession() as session:
        for path, field in (("version", "version"), ("tags", "models"), ("ps", "models")):
            async with session.get(f"{simulator.url}/api/{path}") as response:
                assert field in await response.json()
    (shown,) = await post(simulator, "/api/show", {"model": "m"})
    assert "tools" in shown["capabilities"]
    lines = await post(simulator, "/api/pull", {"model": "m"})
    assert lines[-1] == {"status": "success"}
    assert [line["completed"] for line in lines if "completed" in line][-1] == 1_000_000
    (missing,) = await post(simulator, "/api/show", {"model": "does-not-exist"}, 404)
    assert missing == {"error": "model 'does-not-exist' not found"}


def _collect_paths(value: Any, at: str = "") -> set[str]:
    """The places of an object that hold something, without their numbers."""
    if isinstance(value, dict):
        return {
            path
            for key, item in value.items()
            if at.rsplit(".", 1)[-1] not in ("args", "arguments")
            for path in _collect_paths(item, f"{at}.{key}")
        }
    if isinstance(value, list):
        return {path for item in value for path in _collect_paths(item, at)}
    return {at}


@pytest.mark.slow
@pytest.mark.parametrize("vendor", ["gemini", "ollama_chat"])
async def test_what_is_simulated_was_seen_in_recordings(simulator: Simulator, vendor: str) -> None:
    """No field is said that no real answer had, but for those that are documented alone."""
    folder = os.environ.get("VIBE_LLMS_RECORDINGS")
    if not folder:
        pytest.skip("VIBE_LLMS_RECORDINGS names no folder of recordings")
    seen: set[str] = set()
    with (Path(folder) / f"{vendor}.jsonl").open(encoding="utf-8") as file:
        for row in map(json.loads, file):
            if row["status"] != 200:
                continue
            bodies = [row["body"]] if row["body"].lstrip()[:2] in ("{\n", "{}") else []
            for text in bodies or row["body"].splitlines():
                try:
                    seen |= _collect_paths(json.loads(text.removeprefix("data: ")))
                except ValueError:
                    continue
    simulator.enqueue(EVERYTHING)
    if vendor == "gemini":
        answers = await generate(simulator, True, contents=said("x"))
        documented = {
            f".candidates.content.parts.{name}"
            for name in ("functionCall.id", "inlineData.data", "inlineData.mimeType")
        }
    else:
        answers = await chat(simulator, True, messages=[{"role": "user", "content": "x"}])
        documented = {
            f".message.{name}"
            for name in (
                "thinking",
                "images",
                "tool_calls.id",
                "tool_calls.function.index",
                "tool_calls.function.name",
                "tool_calls.function.arguments.n",
            )
        }
    said_paths = {
        path for answer in answers for path in _collect_paths(answer) if ".args." not in path
    }
    assert said_paths - seen - documented == set()
