"""Chat Completions of OpenAI, and of compatible vendors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.testing.simulator.chat_deltas import produce_deltas
from vibe_llms.testing.simulator.chat_requests import check_request, read_request
from vibe_llms.testing.simulator.credentials import check_bearer
from vibe_llms.testing.simulator.perplexity import produce_search_fields, stream_chunks
from vibe_llms.testing.simulator.prefix_caches import cache_all_prefixes
from vibe_llms.testing.simulator.prompts import SimulatedPrompt
from vibe_llms.testing.simulator.protocols import (
    SimulatedFrame,
    SimulatedProtocol,
    SimulatedRequest,
)
from vibe_llms.testing.simulator.refusals import SimulatedRefusal
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


def produce_headers(request: SimulatedRequest) -> dict[str, str]:
    """Create the vendor's own headers of an answer."""
    if request.names.get("deployment"):
        return {"apim-request-id": request.identity, "x-ms-region": "Simulated"}
    return {
        "x-request-id": request.identity,
        "openai-processing-ms": "7",
        "openai-version": "2020-10-01",
        "x-ratelimit-limit-requests": "5000",
        "x-ratelimit-remaining-requests": "4999",
        "x-ratelimit-reset-requests": "12ms",
    }


def check_credentials(request: SimulatedRequest) -> None:
    """Refuse a request without a key, if the vendor requires one."""
    if not {"vllm", "llama_cpp"} & request.conditions.values.keys():
        check_bearer(request)


def overflow(prompt: SimulatedPrompt, limit: int) -> SimulatedRefusal:
    """Create the refusal of a prompt that is too long."""
    return SimulatedRefusal(
        400,
        "context",
        f"This model's maximum context length is {limit} tokens. However, your messages resulted "
        f"in {prompt.tokens} tokens. Please reduce the length of the messages.",
        param="messages",
    )


def render(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    """Write a whole answer."""
    conditions = request.conditions
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if "mistral" in conditions:
        del message["refusal"]
    for part, identity in _assign_ids(turn, request):
        _add_part(message, part, identity, request)
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
    body = {**_write_head(prompt, request, "chat.completion"), "choices": [choice]}
    if "no_usage" not in conditions:
        body["usage"] = _write_usage(turn, prompt, request)
    if "perplexity" in conditions:
        choice["delta"] = {"role": "assistant", "content": ""}
        body |= produce_search_fields(turn)
    if "llama_cpp" in conditions:
        body["timings"] = {"prompt_n": prompt.tokens, "predicted_ms": 7.0}
    return body


def _assign_ids(turn: ScriptedAnswer, request: SimulatedRequest) -> list[tuple[Part, str]]:
    def mint() -> str:
        # Mistral's ids have nine characters, and Mistral accepts no other ids.
        return request.mint("", 9) if "mistral" in request.conditions else request.mint("call_", 24)

    return assign_ids(turn, request, mint)


def _write_head(prompt: SimulatedPrompt, request: SimulatedRequest, kind: str) -> dict[str, Any]:
    conditions = request.conditions
    head: dict[str, Any] = {
        "id": request.identity.replace("req_", "chatcmpl-"),
        "object": kind,
        "created": request.now,
        "model": prompt.model,
    }
    if "openrouter" in conditions:
        head |= {"id": request.identity.replace("req_", "gen-"), "provider": "Simulated"}
    elif not {"mistral", "perplexity"} & conditions.values.keys():
        head |= {"service_tier": "default", "system_fingerprint": "fp_simulated"}
    return head


def _add_part(
    message: dict[str, Any], part: Part, identity: str, request: SimulatedRequest
) -> None:
    """Add a part to a whole message."""
    for delta in produce_deltas(part, identity, 0, request, whole=True):
        for key, value in delta.items():
            if key == "tool_calls":
                call = {k: v for k, v in value[0].items() if k != "index"}
                message.setdefault("tool_calls", []).append(call)
            elif isinstance(value, list):
                message[key] = _join_contents(message.get(key), value)
            elif isinstance(value, str) and isinstance(message.get(key), list):
                message[key].append({"type": "text", "text": value})
            elif isinstance(value, str):
                message[key] = (message.get(key) or "") + value
            else:
                message[key] = value


def _join_contents(present: Any, added: list[Any]) -> list[Any]:
    if isinstance(present, str):
        present = [{"type": "text", "text": present}] if present else []
    return [*(present or []), *added]


def _write_usage(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    tokens = count_usage(turn, prompt)
    usage: dict[str, Any] = {
        "prompt_tokens": tokens.received,
        "completion_tokens": tokens.produced,
        "total_tokens": tokens.received + tokens.produced,
    }
    if "vllm" in request.conditions or "perplexity" in request.conditions:
        return usage
    details = {"cached_tokens": tokens.cached, "audio_tokens": 0}
    if tokens.written:
        details["cache_write_tokens"] = tokens.written
    usage["prompt_tokens_details"] = details
    usage["completion_tokens_details"] = {
        "reasoning_tokens": tokens.reasoning,
        "audio_tokens": 0,
        "accepted_prediction_tokens": 0,
        "rejected_prediction_tokens": 0,
    }
    return usage


def stream(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    """Write the chunks of an answer."""
    conditions = request.conditions
    head = _write_head(prompt, request, "chat.completion.chunk")
    usage_requested = (request.body.get("stream_options") or {}).get("include_usage")
    usage_in_last_choice = {"mistral", "deepseek", "groq", "perplexity"} & conditions.values.keys()
    usage = None if "no_usage" in conditions else _write_usage(turn, prompt, request)
    chunk_usage: dict[str, Any] = {}
    # With usage requested, OpenAI writes a null into each chunk before the chunk with the usage.
    if usage_requested and not usage_in_last_choice and "usage_only_at_end" not in conditions:
        chunk_usage["usage"] = None
    if "usage_every_chunk" in conditions and usage:
        chunk_usage["usage"] = usage

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        if "openrouter" in conditions:
            choice["native_finish_reason"] = turn.ending if reason else None
        return {**head, "choices": [choice], **chunk_usage}

    # Azure first sends the result of its content filter for the prompt.
    if "empty_choices" in conditions:
        filters = [{"prompt_index": 0, "content_filter_results": {}}]
        yield SimulatedFrame({**head, "choices": [], "prompt_filter_results": filters})
    empty = EMPTY if "empty_siblings" in conditions else {}
    yield SimulatedFrame(chunk({"role": "assistant", "content": "", "refusal": None, **empty}))
    if "perplexity" in conditions:
        yield from stream_chunks(turn, head, usage, STOPS)
        return
    for delta in _order_deltas(turn, request):
        yield SimulatedFrame(chunk(delta))
    last = chunk({}, STOPS.get(turn.ending, turn.ending))
    if usage and "groq" in conditions:
        last["x_groq"] = {"id": request.identity, "usage": usage}
    if usage and usage_in_last_choice:
        last["usage"] = usage
    yield SimulatedFrame(last, ends=True)
    # OpenAI's usage comes in a chunk of its own, after the last choice.
    sends_usage = usage_requested or "usage_only_at_end" in conditions
    if usage and not usage_in_last_choice and sends_usage:
        yield SimulatedFrame({**head, "choices": [], "usage": usage})
    yield SimulatedFrame("[DONE]", ends=True)


def _order_deltas(turn: ScriptedAnswer, request: SimulatedRequest) -> Iterator[dict[str, Any]]:
    """Yield the deltas of all parts; a fault interleaves those of invocations."""
    lanes: list[list[dict[str, Any]]] = []
    for part, identity in _assign_ids(turn, request):
        deltas = produce_deltas(part, identity, len(lanes), request)
        if not isinstance(part, Invoke):
            yield from deltas
        elif "interleaved_calls" in request.conditions:
            lanes.append(list(deltas))
        else:
            lanes.append([])
            yield from deltas
    yield from interleave(lanes)


def write_error(refusal: SimulatedRefusal, request: SimulatedRequest) -> dict[str, Any]:
    """Write an error in the format of the vendor whose quirks are set."""
    conditions, code = request.conditions, refusal.code
    kind = KINDS[refusal.kind]
    if refusal.kind == "context":
        code = "context_length_exceeded"
        if "perplexity" in conditions:
            kind = "too_many_prompt_tokens"
    if "vllm" in conditions:
        kind = VLLM_KINDS.get(refusal.kind, "InternalServerError")
        error = {"message": refusal.message, "type": kind, "param": refusal.param}
        return {"error": {**error, "code": refusal.status}}
    if "perplexity" in conditions:
        kind = refusal.code or kind
        return {"error": {"message": refusal.message, "type": kind, "code": refusal.status}}
    if "openrouter" in conditions:
        metadata = {"provider_name": "Simulated"}
        fields = {"message": refusal.message, "code": refusal.status, "metadata": metadata}
        return {"error": fields, "user_id": "user_simulated"}
    if "mistral" in conditions:
        error = {"object": "error", "message": refusal.message, "type": kind}
        return {**error, "param": refusal.param, "code": code}
    error = {"message": refusal.message, "type": kind, "param": refusal.param}
    return {"error": {**error, "code": code}}


CHAT: Final = SimulatedProtocol(
    use_cache=cache_all_prefixes,
    check=check_request,
    read=read_request,
    render=render,
    stream=stream,
    write_error=write_error,
    overflow=overflow,
    check_credentials=check_credentials,
    produce_headers=produce_headers,
)
