"""Whatever a request looks like, the simulator answers it or refuses it, and never stumbles."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.testing.simulator.answering import understand
from vibe_llms.testing.simulator.behaviour import respond
from vibe_llms.testing.simulator.chat_completions import CHAT
from vibe_llms.testing.simulator.faults import read_conditions
from vibe_llms.testing.simulator.generate_content import GEMINI
from vibe_llms.testing.simulator.messages import MESSAGES
from vibe_llms.testing.simulator.ollama import OLLAMA
from vibe_llms.testing.simulator.protocols import (
    SimulatedProtocol,
    SimulatedRequest,
    produce_minting,
)
from vibe_llms.testing.simulator.refusals import SimulatedRefusal
from vibe_llms.testing.simulator.responses import RESPONSES

USER = {"role": "user", "content": "use tools and think"}
IMAGE = {"url": "data:image/png;base64,AAAA"}
CHAT_BODY = {
    "model": "m",
    "messages": [
        {"role": "user", "content": [{"type": "image_url", "image_url": IMAGE}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "x"},
        USER,
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}},
    "max_tokens": 9,
    "stop": ["x"],
    "reasoning_effort": "low",
}
MESSAGES_BODY = {
    "model": "m",
    "max_tokens": 9,
    "system": "s",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "f", "input": {}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
    ],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "tool_choice": {"type": "tool", "name": "f"},
    "thinking": {"type": "adaptive"},
    "output_config": {"format": {"type": "json_schema", "schema": {}}},
    "stop_sequences": ["x"],
}
RESPONSES_BODY = {
    "model": "m",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "x"}]},
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "a", "output": "x"},
    ],
    "tools": [{"type": "function", "name": "f", "parameters": {}}],
    "tool_choice": "required",
    "text": {"format": {"type": "json_schema", "name": "s", "schema": {}}},
    "reasoning": {"effort": "low"},
    "max_output_tokens": 9,
}
GEMINI_BODY = {
    "contents": [
        {"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {}}}]},
        {"role": "user", "parts": [{"text": "use tools"}]},
    ],
    "tools": [{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}},
    "generationConfig": {
        "thinkingConfig": {"includeThoughts": True},
        "responseSchema": {"type": "OBJECT"},
        "stopSequences": ["x"],
        "maxOutputTokens": 9,
    },
}
OLLAMA_BODY = {
    "model": "m",
    "messages": [
        {"role": "user", "content": "x", "images": ["AAAA"]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "f", "arguments": {}}}],
        },
        {"role": "tool", "tool_name": "f", "content": "x"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "format": {"type": "object"},
    "think": True,
    "options": {"num_ctx": 99, "num_predict": 9, "stop": ["x"]},
}
SUBJECTS: dict[str, tuple[SimulatedProtocol, dict[str, Any]]] = {
    "chat": (CHAT, CHAT_BODY),
    "messages": (MESSAGES, MESSAGES_BODY),
    "responses": (RESPONSES, RESPONSES_BODY),
    "gemini": (GEMINI, GEMINI_BODY),
    "ollama": (OLLAMA, OLLAMA_BODY),
}
WRONG = st.sampled_from([None, 0, -1, "", "x", [], {}, [None], [[]], {"type": "x"}, True, [1]])


def make_request(body: Any) -> SimulatedRequest:
    """A request with every key."""
    headers = {
        "authorization": "Bearer k",
        "x-api-key": "k",
        "x-goog-api-key": "k",
        "anthropic-version": "2023-06-01",
    }
    return SimulatedRequest(
        path="",
        query={},
        headers=headers,
        body=body,
        conditions=read_conditions("signatures_optional"),
        mint=produce_minting(),
        now=0,
        names={"model": "m"},
        identity="req_x",
    )


def survey_places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places of plain data."""
    pairs: Any = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value) if isinstance(value, list) else pairs
    return [at] + [place for key, item in pairs for place in survey_places(item, (*at, key))]


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_right_request_is_understood(name: str) -> None:
    """What the others are made of is right itself."""
    protocol, body = SUBJECTS[name]
    prompt = understand(protocol, make_request(body))
    assert [tool.name for tool in prompt.tools] == ["f"]
    assert prompt.wants_reasoning
    assert prompt.max_tokens == 9
    assert respond(prompt).parts


@pytest.mark.parametrize("name", SUBJECTS)
@given(data=st.data())
def test_a_request_that_is_wrong_somewhere_is_refused_or_answered(
    name: str, data: st.DataObject
) -> None:
    """Nothing but a refusal is raised, wherever something of another kind stands."""
    protocol, body = SUBJECTS[name]
    body = copy.deepcopy(body)
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(survey_places(body)[1:]))
        inner: Any = body
        for key in way:
            inner = inner[key]
        inner[last] = copy.deepcopy(data.draw(WRONG))
    request = make_request(body)
    caught = None
    try:
        prompt = understand(protocol, request)
    except SimulatedRefusal as refusal:
        caught = refusal
    if caught is not None:
        assert caught.status in (400, 404)
        assert "error" in protocol.write_error(caught, request)
        return
    turn = respond(prompt)
    assert turn.parts
    assert protocol.render(turn, prompt, request)
    assert list(protocol.stream(turn, prompt, request))[-1].ends
