"""Turns without a complete answer, in the formats of all vendors, are reported by one rule."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from vibe_llms.dialects import chat_completions, generate_content, messages, ollama_chat, responses
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.assembly import Assembler


def gemini(reason: str, **fields: Any) -> Any:
    return {"candidates": [{"content": {}, "finishReason": reason, **fields}]}


def claude(*content: Any, **fields: Any) -> Any:
    return {"type": "message", "role": "assistant", "content": list(content), **fields}


def chat(reason: str, **message: Any) -> Any:
    message = {"role": "assistant", "content": "", **message}
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}


def incomplete(reason: str, *output: Any) -> Any:
    details = {"reason": reason}
    status = "incomplete"
    return {"object": "response", "status": status, "incomplete_details": details, "output": output}


_BLOCKED = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "Not this one."}
_REFUSED = {"stop_reason": "refusal", "stop_details": {"explanation": "Against the policy."}}
_THINKING = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
_REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}
_YES = {"role": "assistant", "content": "Yes."}
_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
_OLLAMA = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True}
_MALFORMED = {"finishMessage": "Malformed function call:\n print(x"}


def read(dialect: ModuleType, body: Any) -> Response:
    assembler = Assembler(provider="vendor", model="model", protocol=dialect.PROTOCOL)
    for event in dialect.Decoder(provider="vendor").decode_response(body):
        assembler.feed(event)
    request = Request(canisters=[UserCanister("Well?")])
    return assembler.produce_response(request, duration_seconds=1.0, first_seconds=None)


@pytest.mark.parametrize(
    ("dialect", "body", "reason", "words"),
    [
        (
            generate_content,
            gemini("MALFORMED_FUNCTION_CALL", **_MALFORMED),
            "failed",
            ": MALFORMED_FUNCTION_CALL, Malformed function call: print(x.",
        ),
        (generate_content, gemini("SAFETY"), "refused", ": SAFETY."),
        (generate_content, gemini("RECITATION"), "refused", ": RECITATION."),
        (generate_content, gemini("OTHER"), "failed", "unknown reason: OTHER."),
        (
            generate_content,
            {"promptFeedback": _BLOCKED},
            "refused",
            ": PROHIBITED_CONTENT, Not this one.",
        ),
        (generate_content, gemini("MAX_TOKENS"), "limit", "before it said anything."),
        (messages, claude(**_REFUSED), "refused", ": refusal, Against the policy."),
        (messages, claude(_THINKING, stop_reason="max_tokens"), "limit", "before it said anything"),
        (responses, incomplete("max_output_tokens", _REASONING), "limit", "before it said"),
        (responses, incomplete("content_filter"), "refused", ": content_filter."),
        (chat_completions, chat("content_filter"), "refused", ": content_filter."),
        (chat_completions, chat("length"), "limit", "before it said anything."),
        (chat_completions, chat("error"), "failed", ": error."),
        (chat_completions, chat("never_heard_of"), "failed", "unknown reason: never_heard_of."),
        (ollama_chat, {**_OLLAMA, "done_reason": "load"}, "failed", "unknown reason: load."),
        (ollama_chat, {**_OLLAMA, "done_reason": "length"}, "limit", "before it said anything."),
    ],
)
def test_a_turn_without_an_answer_has_a_reason(
    dialect: ModuleType, body: Any, reason: str, words: str
) -> None:
    """With the vendor's own message, in one line."""
    response = read(dialect, body)

    assert not response.is_answered
    assert response.shortfall is not None
    assert response.shortfall.reason == reason
    assert response.shortfall.is_failure
    assert words in response.shortfall.detail
    assert "\n" not in response.shortfall.detail


@pytest.mark.parametrize(
    ("dialect", "body", "reason", "words"),
    [
        (chat_completions, chat("length", content="Half"), "limit", "limit of output tokens."),
        (chat_completions, chat("stop", refusal="I will not."), "refused", "refused."),
        (messages, claude({"type": "text", "text": "No"}, **_REFUSED), "refused", "policy."),
    ],
)
def test_a_partial_answer_is_shown(dialect: ModuleType, body: Any, reason: str, words: str) -> None:
    """It is neither an answer nor a failure."""
    response = read(dialect, body)

    assert not response.is_answered
    assert response.shortfall is not None
    assert (response.shortfall.reason, response.shortfall.is_failure) == (reason, False)
    assert response.shortfall.detail.endswith(words)


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (messages, claude(stop_reason="end_turn")),
        (chat_completions, chat("stop", content="Yes.")),
        (chat_completions, {"choices": [{"index": 0, "message": {"content": "Yes."}}]}),
        (generate_content, {"candidates": [{"content": {"parts": [{"text": "Yes."}]}}]}),
        (chat_completions, chat("stop")),
        *[
            (chat_completions, chat(word, content="Yes."))
            for word in ("", "COMPLETE", "FINISHED", "completed", "end_of_text", "natural", "eos")
        ],
        (chat_completions, chat("tool_call", tool_calls=[_CALL])),
        (chat_completions, chat("stop", tool_calls=[_CALL])),
        (chat_completions, chat("function_call", tool_calls=[_CALL])),
        (messages, claude({"type": "text", "text": "Yes."}, stop_reason="stop")),
        (messages, claude({"type": "text", "text": "Yes."}, stop_reason=None)),
        (messages, claude({"type": "text", "text": "Yes."}, stop_reason="eos")),
        (ollama_chat, {**_OLLAMA, "message": _YES, "done_reason": "tool_calls"}),
        (generate_content, gemini("DONE", content={"parts": [{"text": "Yes."}]})),
    ],
)
def test_a_completed_turn_is_an_answer(dialect: ModuleType, body: Any) -> None:
    """Even without a text; and texts of a server that never reports a reason."""
    assert read(dialect, body).is_answered


def test_a_long_message_of_a_vendor_is_bounded() -> None:
    response = read(generate_content, gemini("SAFETY", finishMessage="no " * 10_000))

    assert response.shortfall is not None
    assert len(response.shortfall.detail) < 1_000


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (generate_content, gemini("OTHER", content={"parts": [{"text": "Half"}]})),
        (chat_completions, chat("unknown", content="Half")),
    ],
)
def test_an_unknown_stop_reason_is_a_failure(dialect: ModuleType, body: Any) -> None:
    """Other native reasons are different; see above."""
    shortfall = read(dialect, body).shortfall
    assert shortfall is not None
    assert shortfall.is_failure
