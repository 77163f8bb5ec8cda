"""Chat Completions of OpenAI, and of compatible vendors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.testing.simulator.asks import Ask
from vibe_llms.testing.simulator.chat_deltas import produce_deltas
from vibe_llms.testing.simulator.chat_requests import check_request, read_request
from vibe_llms.testing.simulator.complaints import SimulatedRefusal
from vibe_llms.testing.simulator.credentials import check_bearer
from vibe_llms.testing.simulator.faces import SimulatedFace, SimulatedFrame, SimulatedRequest
from vibe_llms.testing.simulator.perplexity import produce_search_fields, spread_perplexity
from vibe_llms.testing.simulator.rendering import (
    assign_ids,
    count_usage,
    interleave,
)
from vibe_llms.testing.simulator.scripts import (
    Invoke,
    Part,
    ScriptedAnswer,
)

STOPS = {
    "end": "stop",
    "stop_sequence": "stop",
    "pause": "stop",
    "tool_use": "tool_calls",
    "context": "length",
    "refusal": "stop",
}
KINDS = {
    "authentication": "invalid_request_error",
    "missing": "invalid_request_error",
    "invalid": "invalid_request_error",
    "context": "invalid_request_error",
    "permission": "invalid_request_error",
    "too_large": "invalid_request_error",
    "rate": "requests",
    "overloaded": "service_unavailable_error",
    "server": "server_error",
}
EMPTY: dict[str, Any] = {
    "refusal": "",
    "content": "",
    "reasoning": "",
    "reasoning_content": "",
    "reasoning_details": [],
    "function_call": {"arguments": "", "name": ""},
    "audio": {"id": "", "data": "", "transcript": "", "expires_at": 0},
    "images": [],
    "annotations": [],
    "tool_calls": [],
}
"""Empty fields that some vendors send."""
VLLM_KINDS = {"invalid": "BadRequestError", "missing": "NotFoundError", "rate": "RateLimitError"}


def produce_headers(setting: SimulatedRequest) -> dict[str, str]:
    """Create the vendor's own headers of an answer."""
    if setting.names.get("deployment"):
        return {"apim-request-id": setting.identity, "x-ms-region": "Simulated"}
    return {
        "x-request-id": setting.identity,
        "openai-processing-ms": "7",
        "openai-version": "2020-10-01",
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
    }


def check_credentials(setting: SimulatedRequest) -> None:
    """Refuse a request without a key, if the vendor requires one."""
    if not {"vllm", "llama_cpp"} & setting.conditions.values.keys():
        check_bearer(setting)


def overflow(ask: Ask, limit: int) -> SimulatedRefusal:
    """Create the refusal of a prompt that is too long."""
    return SimulatedRefusal(
        400,
        "context",
        f"This model's maximum context length is {limit} tokens. However, your messages resulted "
        f"in {ask.received} tokens. Please reduce the length of the messages.",
        param="messages",
    )


def render(turn: ScriptedAnswer, ask: Ask, setting: SimulatedRequest) -> dict[str, Any]:
    """Write a whole answer."""
    conditions = setting.conditions
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if "mistral" in conditions:
        del message["refusal"]
    for part, identity in _assign(turn, setting):
        _add(message, part, identity, setting)
    if "empty_siblings" in conditions:
        message = {**EMPTY, **{name: value for name, value in message.items() if value}}
    if message.get("annotations") is None:
        message["annotations"] = []
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": STOPS.get(turn.ending, turn.ending),
    }
    if "vllm" in conditions:
        choice |= {"stop_reason": None, "token_ids": None}
    if "openrouter" in conditions:
        choice["native_finish_reason"] = turn.ending
    body = {**_head(ask, setting, "chat.completion"), "choices": [choice]}
    if "no_usage" not in conditions:
        body["usage"] = _write_usage(turn, ask, setting)
    if "perplexity" in conditions:
        choice["delta"] = {"role": "assistant", "content": ""}
        body |= produce_search_fields(turn)
    if "llama_cpp" in conditions:
        body["timings"] = {"prompt_n": ask.received, "predicted_ms": 7.0}
    return body


def _assign(turn: ScriptedAnswer, setting: SimulatedRequest) -> list[tuple[Part, str]]:
    def mint() -> str:
        # Mistral's ids have nine letters, and it accepts no others.
        return setting.mint("", 9) if "mistral" in setting.conditions else setting.mint("call_", 24)

    return assign_ids(turn, setting, mint)


def _head(ask: Ask, setting: SimulatedRequest, kind: str) -> dict[str, Any]:
    conditions = setting.conditions
    head: dict[str, Any] = {
        "id": setting.identity.replace("req_", "chatcmpl-"),
        "object": kind,
        "created": setting.now,
        "model": ask.model,
    }
    if "openrouter" in conditions:
        head |= {"id": setting.identity.replace("req_", "gen-"), "provider": "Simulated"}
    elif not {"mistral", "perplexity"} & conditions.values.keys():
        head |= {"service_tier": "default", "system_fingerprint": "fp_simulated"}
    return head


def _add(message: dict[str, Any], part: Part, identity: str, setting: SimulatedRequest) -> None:
    """Add a part to a whole message."""
    for delta in produce_deltas(part, identity, 0, setting, whole=True):
        for key, value in delta.items():
            if key == "tool_calls":
                call = {k: v for k, v in value[0].items() if k != "index"}
                message.setdefault("tool_calls", []).append(call)
            elif isinstance(value, list):
                message[key] = _join(message.get(key), value)
            elif isinstance(value, str) and isinstance(message.get(key), list):
                message[key].append({"type": "text", "text": value})
            elif isinstance(value, str):
                message[key] = (message.get(key) or "") + value
            else:
                message[key] = value


def _join(present: Any, added: list[Any]) -> list[Any]:
    if isinstance(present, str):
        present = [{"type": "text", "text": present}] if present else []
    return [*(present or []), *added]


def _write_usage(turn: ScriptedAnswer, ask: Ask, setting: SimulatedRequest) -> dict[str, Any]:
    tokens = count_usage(turn, ask)
    usage: dict[str, Any] = {
        "prompt_tokens": tokens.received,
        "completion_tokens": tokens.produced,
        "total_tokens": tokens.received + tokens.produced,
    }
    if "vllm" in setting.conditions or "perplexity" in setting.conditions:
        return usage
    usage["prompt_tokens_details"] = {"cached_tokens": tokens.cached, "audio_tokens": 0}
    usage["completion_tokens_details"] = {
        "reasoning_tokens": tokens.reasoning,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    }
    return usage


def stream(turn: ScriptedAnswer, ask: Ask, setting: SimulatedRequest) -> Iterator[SimulatedFrame]:
    """Write the chunks of an answer."""
    conditions = setting.conditions
    head = _head(ask, setting, "chat.completion.chunk")
    asked = (setting.body.get("stream_options") or {}).get("include_usage")
    with_choice = {"mistral", "deepseek", "groq", "perplexity"} & conditions.values.keys()
    usage = None if "no_usage" in conditions else _write_usage(turn, ask, setting)
    tail: dict[str, Any] = {}
    # With usage requested, OpenAI writes a null into each chunk before the one that has it.
    if asked and not with_choice and "usage_only_at_end" not in conditions:
        tail["usage"] = None
    if "usage_every_chunk" in conditions and usage:
        tail["usage"] = usage

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        if "openrouter" in conditions:
            choice["native_finish_reason"] = turn.ending if reason else None
        return {**head, "choices": [choice], **tail}

    # Azure first sends its filter's result for the prompt.
    if "empty_choices" in conditions:
        filters = [{"prompt_index": 0, "content_filter_results": {}}]
        yield SimulatedFrame({**head, "choices": [], "prompt_filter_results": filters})
    empty = EMPTY if "empty_siblings" in conditions else {}
    yield SimulatedFrame(chunk({"role": "assistant", "content": "", "refusal": None, **empty}))
    if "perplexity" in conditions:
        yield from spread_perplexity(turn, head, usage, STOPS)
        return
    for delta in _order_deltas(turn, setting):
        yield SimulatedFrame(chunk(delta))
    last = chunk({}, STOPS.get(turn.ending, turn.ending))
    if usage and "groq" in conditions:
        last["x_groq"] = {"id": setting.identity, "usage": usage}
    if usage and with_choice:
        last["usage"] = usage
    yield SimulatedFrame(last, ends=True)
    # OpenAI's usage comes in a chunk of its own, after the last choice.
    if usage and not with_choice and (asked or "usage_only_at_end" in conditions):
        yield SimulatedFrame({**head, "choices": [], "usage": usage})
    yield SimulatedFrame("[DONE]", ends=True)


def _order_deltas(turn: ScriptedAnswer, setting: SimulatedRequest) -> Iterator[dict[str, Any]]:
    lanes: list[list[dict[str, Any]]] = []
    for part, identity in _assign(turn, setting):
        deltas = produce_deltas(part, identity, len(lanes), setting)
        if not isinstance(part, Invoke):
            yield from deltas
        elif "interleaved_calls" in setting.conditions:
            lanes.append(list(deltas))
        else:
            lanes.append([])
            yield from deltas
    yield from interleave(lanes)


def complain(complaint: SimulatedRefusal, setting: SimulatedRequest) -> dict[str, Any]:
    """Write an error in the format of the vendor whose quirks are set."""
    conditions, code = setting.conditions, complaint.code
    kind = KINDS[complaint.kind]
    if complaint.kind == "context":
        code = "context_length_exceeded"
        if "perplexity" in conditions:
            kind = "too_many_prompt_tokens"
    if "vllm" in conditions:
        kind = VLLM_KINDS.get(complaint.kind, "InternalServerError")
        error = {"message": complaint.message, "type": kind, "param": complaint.param}
        return {"error": {**error, "code": complaint.status}}
    if "perplexity" in conditions:
        kind = complaint.code or kind
        return {"error": {"message": complaint.message, "type": kind, "code": complaint.status}}
    if "openrouter" in conditions:
        metadata = {"provider_name": "Simulated"}
        told = {"message": complaint.message, "code": complaint.status, "metadata": metadata}
        return {"error": told, "user_id": "user_simulated"}
    if "mistral" in conditions:
        error = {"object": "error", "message": complaint.message, "type": kind}
        return {**error, "param": complaint.param, "code": code}
    error = {"message": complaint.message, "type": kind, "param": complaint.param}
    return {"error": {**error, "code": code}}


CHAT: Final = SimulatedFace(
    check=check_request,
    read=read_request,
    render=render,
    stream=stream,
    complain=complain,
    overflow=overflow,
    check_credentials=check_credentials,
    produce_headers=produce_headers,
)
