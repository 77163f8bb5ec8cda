"""Absent, null and empty fields round-trip, in one of these forms."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from strategies.ollama import assemble, describe_model, read_whole
from vibe_llms.dialects.ollama_chat import (
    Decoder,
    Quirks,
    nativize_request,
    nativize_response,
    normalize_request,
)
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request

mean = functools.partial(distil, "ollama_chat")

REQUEST = Request(canisters=(UserCanister("hi"),))
CALL = {"id": "a", "function": {"name": "f", "arguments": {"x": 1}}}
NOTHING = object()
texts = st.sampled_from([NOTHING, None, "", "hi"])
lists = st.sampled_from([NOTHING, None, [], [CALL]])


def _compose(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not NOTHING}


messages = st.builds(
    _compose,
    content=texts,
    thinking=texts,
    tool_calls=lists,
    images=st.sampled_from([NOTHING, None, []]),
    x_hint=st.sampled_from([NOTHING, None, 1]),
)
bodies = st.builds(
    _compose,
    model=texts,
    created_at=texts,
    message=st.one_of(
        st.sampled_from([NOTHING, None]),
        st.builds(
            lambda message, role: message | _compose(role=role),
            messages,
            st.sampled_from([NOTHING, None, "", "assistant", "other"]),
        ),
    ),
    done=st.just(True),
    done_reason=st.sampled_from([NOTHING, None, "", "stop"]),
    eval_count=st.sampled_from([NOTHING, None, 0, 7, "7"]),
    total_duration=st.sampled_from([NOTHING, None, 0]),
    **{"$": st.sampled_from([NOTHING, None, {"null": ["model"]}])},
).filter(lambda body: any(value is not None for value in (body.get("message") or {}).values()))
"""A message may say as little as whose it is; without one there is no answer."""


@given(bodies)
def test_a_response_with_empty_fields_round_trips(body: dict[str, Any]) -> None:
    """Absent, null and empty mean the same; required fields are inserted."""
    back = nativize_response(read_whole(body, REQUEST))

    made_up = {name: body.get(name) for name in ("model", "created_at") if not body.get(name)}
    assert mean({**back.value, **made_up}) == mean(body)
    assert back.losses == ()


@given(messages, st.sampled_from(["assistant", "user", "system", "narrator"]))
def test_a_message_with_empty_fields_round_trips(message: dict[str, Any], role: str) -> None:
    """In a client's request, in each role."""
    native = {
        "model": "llama3",
        "messages": [{"role": role, **message}, {"role": "user", "content": "go"}],
        "stream": False,
    }
    if role == "assistant" and message.get("tool_calls"):
        answer = {"role": "tool", "content": "1", "tool_call_id": "a", "tool_name": "f"}
        native["messages"].insert(1, answer)  # type: ignore[attr-defined]

    back = nativize_request(normalize_request(native).value, describe_model(), Quirks())

    assert mean(back.value) == mean(native)


@pytest.mark.parametrize("field", ["tool_call_id", "tool_name", "content"])
@pytest.mark.parametrize("value", [NOTHING, None, ""])
def test_a_result_with_empty_fields_round_trips(field: str, value: object) -> None:
    """A result without names answers by its order, and is written without names."""
    result = {"role": "tool", "content": "1", "tool_call_id": "a", "tool_name": "f"}
    result = _compose(**(result | {field: value}))
    call = {key: inner for key, inner in CALL.items() if key != "id"}
    native = {
        "model": "llama3",
        "messages": [{"role": "assistant", "content": "", "tool_calls": [call]}, result],
        "stream": False,
    }

    back = nativize_request(normalize_request(native).value, describe_model(), Quirks())

    assert mean(back.value) == mean(native)


@pytest.mark.parametrize("fields", [{}, {"arguments": None}, {"arguments": {}, "index": None}])
def test_a_call_with_empty_fields_round_trips(fields: dict[str, Any]) -> None:
    """Arguments that are null or missing are empty."""
    call = {"id": None, "function": {"name": "f", **fields}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    body = {"model": "m", "created_at": "now", "message": message, "done": True}

    assert mean(nativize_response(read_whole(body, REQUEST)).value) == mean(body)


def test_a_tool_with_a_null_description_round_trips() -> None:
    """Null means absent in tools, too."""
    function = {"name": "f", "description": None, "parameters": None}
    native = {
        "model": "llama3",
        "messages": [{"role": "user", "content": "go"}],
        "tools": [{"type": None, "function": function}],
        "stream": False,
    }

    back = nativize_request(normalize_request(native).value, describe_model(), Quirks())

    assert mean(back.value) == mean(native)


def test_log_probabilities_are_collected_from_all_lines() -> None:
    """Each line has those of its piece; a last line without any removes none."""
    decoder = Decoder(provider="ollama")
    head = {"model": "m", "created_at": "now"}
    events = []
    for number in range(3):
        piece = {"role": "assistant", "content": "a"}
        line = {**head, "message": piece, "done": False, "logprobs": [{"token": str(number)}]}
        events += decoder.decode(json.dumps(line).encode())
    last = {**head, "message": {"role": "assistant", "content": ""}, "done": True}
    events += [*decoder.decode({**last, "logprobs": None}), *decoder.finish()]

    body = nativize_response(assemble(events, REQUEST)).value

    assert body["logprobs"] == [{"token": "0"}, {"token": "1"}, {"token": "2"}]
