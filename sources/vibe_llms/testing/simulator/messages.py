"""Messages of Anthropic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from vibe_llms.testing.simulator.credentials import WRONG
from vibe_llms.testing.simulator.message_blocks import Deltas, produce_blocks
from vibe_llms.testing.simulator.message_requests import check_request, read_request
from vibe_llms.testing.simulator.prefix_caches import cache_marked_prefixes
from vibe_llms.testing.simulator.prompts import SimulatedPrompt
from vibe_llms.testing.simulator.protocols import (
    SimulatedFrame,
    SimulatedProtocol,
    SimulatedRequest,
)
from vibe_llms.testing.simulator.refusals import SimulatedRefusal
from vibe_llms.testing.simulator.rendering import (
    count_usage,
    interleave,
)
from vibe_llms.testing.simulator.scripts import (
    Invoke,
    Refuse,
    ScriptedAnswer,
    Search,
)

STOPS = {
    "end": "end_turn",
    "length": "max_tokens",
    "pause": "pause_turn",
    "context": "model_context_window_exceeded",
    "content_filter": "refusal",
}
KINDS = {
    "authentication": "authentication_error",
    "permission": "permission_error",
    "missing": "not_found_error",
    "too_large": "request_too_large",
    "rate": "rate_limit_error",
    "overloaded": "overloaded_error",
    "server": "api_error",
}


def produce_headers(request: SimulatedRequest) -> dict[str, str]:
    """Create the vendor's own headers of an answer."""
    limits = {
        f"anthropic-ratelimit-{resource}-{field}": value
        for resource in ("requests", "input-tokens", "output-tokens")
        for field, value in (
            ("limit", "4000"),
            ("remaining", "3999"),
            ("reset", "2026-11-22T12:00:00Z"),
        )
    }
    return {"request-id": request.identity, "anthropic-organization-id": "org_simulated", **limits}


def check_credentials(request: SimulatedRequest) -> None:
    """Refuse a request without a valid key, or without a version."""
    headers = request.headers
    key = headers.get("x-api-key") or headers.get("api-key") or ""
    if headers.get("authorization", "").lower().startswith("bearer "):
        key = key or headers["authorization"][7:].strip()
    if not key:
        message = "x-api-key header is required"
        raise SimulatedRefusal(401, "authentication", message)
    if any(word in key for word in WRONG):
        raise SimulatedRefusal(401, "authentication", "invalid x-api-key")
    if "anthropic-version" not in headers and "anthropic_version" not in request.body:
        raise SimulatedRefusal(400, "invalid", "anthropic-version: header is required")


def overflow(prompt: SimulatedPrompt, limit: int) -> SimulatedRefusal:
    """Create the refusal of a prompt that is too long."""
    message = f"prompt is too long: {max(prompt.tokens, limit + 1)} tokens > {limit} maximum"
    return SimulatedRefusal(400, "context", message)


def render(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    """Write a whole answer."""
    blocks = [block for _, block, _ in produce_blocks(turn, prompt, request)]
    message = {**_write_head(prompt, request), "content": blocks, **_write_ending(turn)}
    message["usage"] = _write_usage(turn, prompt) | {
        "output_tokens": count_usage(turn, prompt).produced
    }
    if "no_usage" in request.conditions:
        del message["usage"]
    return message


def _write_head(prompt: SimulatedPrompt, request: SimulatedRequest) -> dict[str, Any]:
    identity = request.identity.replace("req_", "msg_01")
    return {"id": identity, "type": "message", "role": "assistant", "model": prompt.model}


def _write_ending(turn: ScriptedAnswer) -> dict[str, Any]:
    reason = STOPS.get(turn.ending, turn.ending)
    ending: dict[str, Any] = {"stop_reason": reason, "stop_sequence": turn.stop_sequence}
    if reason == "refusal":
        explanation = next((part.text for part in turn.parts if isinstance(part, Refuse)), None)
        ending["stop_details"] = {
            "type": "refusal",
            "category": "general_harms",
            "explanation": explanation,
        }
    return ending


def _write_usage(turn: ScriptedAnswer, prompt: SimulatedPrompt) -> dict[str, Any]:
    tokens = count_usage(turn, prompt)
    searches = sum(isinstance(part, Search) for part in turn.parts)
    usage: dict[str, Any] = {
        "input_tokens": tokens.received - tokens.cached - tokens.written,
        "cache_creation_input_tokens": tokens.written,
        "cache_read_input_tokens": tokens.cached,
        "cache_creation": {
            "ephemeral_5m_input_tokens": tokens.written - tokens.written_long,
            "ephemeral_1h_input_tokens": tokens.written_long,
        },
        "output_tokens": 1,  # as in message_start; message_delta has the real count
        "service_tier": "standard",
    }
    if searches:
        usage["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
    return usage


def stream(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    """Write the events of an answer."""
    conditions = request.conditions
    usage = _write_usage(turn, prompt)
    start = {
        **_write_head(prompt, request),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    start["usage"] = {**usage, "input_tokens": 0} if "usage_only_at_end" in conditions else usage
    if "no_usage" in conditions:
        del start["usage"]
    yield _frame({"type": "message_start", "message": start})
    yield from _stream_blocks(turn, prompt, request)
    delta: dict[str, Any] = {"type": "message_delta", "delta": _write_ending(turn)}
    tokens = count_usage(turn, prompt)
    details = {"output_tokens_details": {"thinking_tokens": tokens.reasoning}}
    delta["usage"] = {**usage, "output_tokens": tokens.produced, **details}
    for name in ("cache_creation", "service_tier"):
        del delta["usage"][name]
    if "no_usage" in conditions:
        del delta["usage"]
    yield _frame(delta)
    yield SimulatedFrame({"type": "message_stop"}, "message_stop", ends=True)


def _frame(data: dict[str, Any]) -> SimulatedFrame:
    return SimulatedFrame(data, data["type"])


def _stream_blocks(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    lanes: list[list[SimulatedFrame]] = []
    for index, (part, block, deltas) in enumerate(produce_blocks(turn, prompt, request)):
        frames = _stream_block(block, deltas, index)
        if isinstance(part, Invoke) and "interleaved_calls" in request.conditions:
            lanes.append(list(frames))
        else:
            yield from frames
        if index == 0:
            yield _frame({"type": "ping"})
    yield from interleave(lanes)


START_FIELDS: dict[str, dict[str, Any]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
    "server_tool_use": {"input": {}},
}


def _stream_block(block: dict[str, Any], deltas: Deltas, index: int) -> Iterator[SimulatedFrame]:
    start = {**block, **START_FIELDS.get(block["type"], {})} if deltas else block
    if deltas:
        start.pop("citations", None)
    yield _frame({"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        yield _frame({"type": "content_block_delta", "index": index, "delta": delta})
    yield _frame({"type": "content_block_stop", "index": index})


def write_error(refusal: SimulatedRefusal, request: SimulatedRequest) -> dict[str, Any]:
    """Write an error."""
    kind = KINDS.get(refusal.kind, "invalid_request_error")
    error: dict[str, Any] = {"type": kind, "message": refusal.message}
    if refusal.code is not None:
        error["details"] = {"error_code": refusal.code}
    return {"type": "error", "error": error, "request_id": request.identity}


MESSAGES: Final = SimulatedProtocol(
    use_cache=cache_marked_prefixes,
    check=check_request,
    read=read_request,
    render=render,
    stream=stream,
    write_error=write_error,
    write_stream_error=lambda refusal, request: SimulatedFrame(
        write_error(refusal, request), "error"
    ),
    overflow=overflow,
    check_credentials=check_credentials,
    produce_headers=produce_headers,
    map_status=lambda refusal: refusal.status,
)
