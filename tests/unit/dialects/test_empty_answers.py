"""An empty answer is an error, unless it has a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.vendors.hostility import produce_decoder, read_stream
from vibe_llms.events.stream import ResponseFinishedEvent
from vibe_llms.exceptions import ConverseError, Stage, StreamTruncatedError
from vibe_llms.messages.canisters import StopReason

USAGE = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
ACCOUNT = {"promptTokenCount": 3, "totalTokenCount": 3}
MESSAGE_START = {"type": "message_start", "message": {"id": "m", "content": [], "usage": {}}}
STOP = {"type": "message_stop"}

EMPTY_BODIES: list[tuple[str, Any]] = [
    ("bedrock", {"output": {"message": {"role": "assistant", "content": []}}}),
    ("bedrock", {"output": {"message": {"role": "assistant", "content": None}}}),
    ("bedrock", {"output": {"message": {"role": "assistant"}}, "stopReason": None}),
    ("bedrock", {"output": None, "stopReason": None, "usage": {}}),
    ("chat_completions", {"choices": None}),
    ("chat_completions", {"choices": []}),
    ("chat_completions", {"choices": {}}),
    ("chat_completions", {"id": "c", "choices": [], "usage": USAGE}),
    ("chat_completions", {"usage": USAGE}),
    ("chat_completions", {"choices": [{}]}),
    ("chat_completions", {"choices": [{"index": 0, "message": None}]}),
    ("chat_completions", {"choices": [{"message": None, "finish_reason": "stop"}]}),
    ("chat_completions", {"choices": [{"message": {}, "finish_reason": "stop"}]}),
    ("chat_completions", {"choices": [{"message": {"content": None}, "finish_reason": "stop"}]}),
    ("chat_completions", {"choices": [{"message": {"role": "assistant", "content": ""}}]}),
    ("generate_content", {"candidates": None}),
    ("generate_content", {"candidates": []}),
    ("generate_content", {"candidates": [], "usageMetadata": ACCOUNT}),
    ("generate_content", {"usageMetadata": ACCOUNT}),
    ("generate_content", {"promptFeedback": None}),
    ("generate_content", {"promptFeedback": {"safetyRatings": []}}),
    ("generate_content", {"candidates": [{}]}),
    ("generate_content", {"candidates": [{"content": None}]}),
    ("generate_content", {"candidates": [{"content": {"role": "model", "parts": []}}]}),
    ("messages", {"type": "message", "content": []}),
    ("messages", {"type": "message", "content": None}),
    ("messages", {"type": "message", "content": [], "stop_reason": None}),
    ("messages", {"type": "message", "content": None, "stop_reason": None}),
    ("ollama_chat", {"model": "m", "done": True}),
    ("ollama_chat", {"model": "m", "done": True, "message": None}),
    ("ollama_chat", {"model": "m", "done": True, "message": {}}),
    ("ollama_chat", {"model": "m", "done": True, "done_reason": "stop", "message": None}),
    ("responses", {"id": "r", "output": None}),
    ("responses", {"id": "r", "output": []}),
    ("responses", {"id": "r", "output": None, "status": "completed"}),
    ("responses", {"id": "r", "output": [], "status": "completed", "usage": {}}),
    ("responses", {"id": "r", "output": [], "status": "incomplete"}),
]
EMPTY_STREAMS: list[tuple[str, list[Any]]] = [
    ("chat_completions", ["[DONE]"]),
    ("chat_completions", [{"choices": []}, "[DONE]"]),
    ("chat_completions", [{"choices": [], "usage": USAGE}, "[DONE]"]),
    ("chat_completions", [{"choices": [{"index": 0, "delta": {}}]}, "[DONE]"]),
    ("chat_completions", [{"choices": [{"index": 0, "delta": {"role": "assistant"}}]}, "[DONE]"]),
    ("chat_completions", [{"choices": [{"delta": None, "finish_reason": "stop"}]}, "[DONE]"]),
    ("generate_content", []),
    ("generate_content", [{"candidates": []}]),
    ("messages", [STOP]),
    ("messages", [{"type": "ping"}, STOP]),
    ("messages", [MESSAGE_START, STOP]),
    ("messages", [MESSAGE_START, {"type": "message_delta", "delta": {"stop_reason": None}}, STOP]),
    ("ollama_chat", [{"done": True}]),
    ("ollama_chat", [{"message": None, "done": False}, {"message": None, "done": True}]),
    ("responses", ["[DONE]"]),
    ("responses", [{"type": "response.completed", "response": {}}]),
    ("responses", [{"type": "response.completed", "response": {"id": "r", "output": []}}]),
    ("responses", [{"type": "response.completed", "response": {"id": "r", "output": None}}]),
    ("responses", [{"type": "response.incomplete", "response": {"id": "r", "output": []}}]),
]
REASONED: list[tuple[str, Any, StopReason]] = [
    (
        "chat_completions",
        {"choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": "stop"}]},
        StopReason.ANSWERED,
    ),
    (
        "chat_completions",
        {"choices": [{"index": 0, "finish_reason": "content_filter"}]},
        StopReason.FILTERED,
    ),
    (
        "chat_completions",
        {"choices": [{"message": {"content": None}, "finish_reason": "length"}]},
        StopReason.LIMIT,
    ),
    ("generate_content", {"promptFeedback": {"blockReason": "SAFETY"}}, StopReason.FILTERED),
    ("generate_content", {"candidates": [{"finishReason": "SAFETY"}]}, StopReason.FILTERED),
    ("generate_content", {"candidates": [{"finishReason": "STOP"}]}, StopReason.ANSWERED),
    ("bedrock", {"output": {}, "stopReason": "end_turn"}, StopReason.ANSWERED),
    ("bedrock", {"stopReason": "guardrail_intervened"}, StopReason.FILTERED),
    ("messages", {"content": [], "stop_reason": "end_turn"}, StopReason.ANSWERED),
    ("messages", {"content": [], "stop_reason": "refusal"}, StopReason.REFUSED),
    ("ollama_chat", {"done": True, "message": {"role": "assistant"}}, StopReason.ANSWERED),
    (
        "responses",
        {
            "output": [],
            "status": "incomplete",
            "incomplete_details": {"reason": "max_output_tokens"},
        },
        StopReason.LIMIT,
    ),
    ("responses", {"output": [], "status": "cancelled"}, StopReason.INTERRUPTED),
    (
        "responses",
        {"output": [{"type": "message", "content": []}], "status": "completed"},
        StopReason.ANSWERED,
    ),
]


def encode(frame: Any) -> bytes:
    return frame.encode() if isinstance(frame, str) else json.dumps(frame).encode()


@pytest.mark.parametrize(("protocol", "body"), EMPTY_BODIES, ids=repr)
def test_an_empty_body_is_an_error(protocol: str, body: Any) -> None:
    """It has neither a content nor a reason, and must not be taken for an answer."""
    with pytest.raises(ConverseError, match=r"parrot .* empty") as caught:
        produce_decoder(protocol).decode_response(encode(body))

    assert caught.value.stage is Stage.DECODE


@pytest.mark.parametrize(("protocol", "frames"), EMPTY_STREAMS, ids=repr)
def test_an_empty_stream_is_an_error(protocol: str, frames: list[Any]) -> None:
    """Even with an end mark."""
    with pytest.raises(ConverseError) as caught:
        read_stream(protocol, [(encode(frame), "") for frame in frames])

    is_empty = "empty" in str(caught.value)
    assert is_empty or isinstance(caught.value, StreamTruncatedError)


@pytest.mark.parametrize(("protocol", "body", "reason"), REASONED, ids=repr)
def test_an_empty_answer_with_a_reason_is_valid(
    protocol: str, body: Any, reason: StopReason
) -> None:
    """A model may have nothing to add, be filtered, or reach its limit while it thinks."""
    last = produce_decoder(protocol).decode_response(encode(body))[-1]

    assert isinstance(last, ResponseFinishedEvent)
    assert last.stop_reason is reason


def test_a_stream_may_end_with_an_empty_final_copy() -> None:
    """As some gateways send it: the streamed items are the answer."""
    item = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "So."}]}
    frames = [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"id": "r", "output": []}},
    ]
    decoder = produce_decoder("responses")

    events = [event for frame in frames for event in decoder.decode(encode(frame))]

    assert [*events, *decoder.finish()][-1].stop_reason is StopReason.ANSWERED
