"""Converse and ConverseStream of Amazon Bedrock."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.testing.simulator.amazon_signatures import check_amazon_credentials
from vibe_llms.testing.simulator.bedrock_requests import check_request, read_request
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
    drop_arguments,
    interleave,
    read_arguments,
    sends_no_arguments,
    split_arguments,
    split_text,
    write_arguments,
)
from vibe_llms.testing.simulator.scripts import (
    Cite,
    Draw,
    Invoke,
    Part,
    Raw,
    Refuse,
    Say,
    ScriptedAnswer,
    Search,
    Speak,
    Think,
)
from vibe_llms.testing.simulator.signatures import sign

STOPS = {
    "end": "end_turn",
    "length": "max_tokens",
    "context": "model_context_window_exceeded",
    "refusal": "content_filtered",
    "content_filter": "guardrail_intervened",
    "pause": "end_turn",
}
TYPES = {
    "authentication": "UnrecognizedClientException",
    "permission": "AccessDeniedException",
    "missing": "ResourceNotFoundException",
    "rate": "ThrottlingException",
    "overloaded": "ServiceUnavailableException",
    "server": "InternalServerException",
}
Deltas = list[dict[str, Any]]
Start = Mapping[str, Any] | None
"""The start of a block in a stream; most blocks have none."""


def produce_headers(request: SimulatedRequest) -> dict[str, str]:
    """Create the vendor's own headers of an answer; Cohere's embeddings have their usage there."""
    headers = {"x-amzn-requestid": request.identity, "x-amzn-bedrock-invocation-latency": "7"}
    texts = request.body.get("texts") if isinstance(request.body, dict) else None
    if isinstance(texts, list):
        tokens = sum(len(str(text).split()) for text in texts)
        headers["x-amzn-bedrock-input-token-count"] = str(tokens)
    return headers


def overflow(prompt: SimulatedPrompt, limit: int) -> SimulatedRefusal:
    """Create the refusal of a prompt that is too long."""
    message = (
        "The model returned the following errors: prompt is too long: "
        f"{max(prompt.tokens, limit + 1)} tokens > {limit} maximum"
    )
    return SimulatedRefusal(400, "context", message)


def render(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    """Write a whole answer."""
    content = [block for _, block, _, _ in _produce_blocks(turn, prompt, request)]
    answer = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": STOPS.get(turn.ending, turn.ending),
        **_write_metadata(turn, prompt, request),
    }
    if turn.ending == "content_filter":
        answer["trace"] = {"guardrail": {"modelOutput": ["Blocked."]}}
    return answer


def _write_metadata(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    tokens = count_usage(turn, prompt)
    usage: dict[str, Any] = {
        "inputTokens": tokens.received - tokens.cached - tokens.written,
        "outputTokens": tokens.produced,
        "totalTokens": tokens.received + tokens.produced,
        "cacheReadInputTokens": tokens.cached,
        "cacheWriteInputTokens": tokens.written,
    }
    if tokens.written:
        usage["cacheDetails"] = [{"ttl": "5m", "inputTokens": tokens.written}]
    metadata = {"usage": usage, "metrics": {"latencyMs": 7}}
    if "no_usage" in request.conditions:
        del metadata["usage"]
    return metadata


def _produce_blocks(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[tuple[Part, dict[str, Any], Start, Deltas]]:
    """Yield the blocks of an answer, each with its part, its start and its deltas in a stream."""
    for part, identity in assign_ids(turn, request, lambda: request.mint("tooluse_", 22)):
        for block, start, deltas in _produce_part(part, identity, prompt, request):
            yield part, block, start, deltas


def _produce_part(
    part: Part, identity: str, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[tuple[dict[str, Any], Start, Deltas]]:
    conditions = request.conditions
    block: dict[str, Any]
    deltas: Deltas
    match part:
        case Think(text, redacted=redacted):
            if redacted or "redacted_thinking" in conditions:
                data = sign(text, kind="bedrock-redacted", prefix=prompt.prefix, embeds_text=True)
                block = {"reasoningContent": {"redactedContent": data}}
                yield block, None, [block]
                return
            signature = sign(text, kind="bedrock", prefix=prompt.prefix)
            reasoning = {"text": text, "signature": signature}
            pieces = [{"text": piece} for piece in split_text(text, conditions)]
            deltas = [{"reasoningContent": each} for each in [*pieces, {"signature": signature}]]
            yield {"reasoningContent": {"reasoningText": reasoning}}, None, deltas
        case Say(text, citations):
            deltas = [{"text": piece} for piece in split_text(text, conditions)]
            if not citations:
                yield {"text": text}, None, deltas
                return
            fields = [_write_citation(cite) for cite in citations]
            block = {"citationsContent": {"content": [{"text": text}], "citations": fields}}
            yield block, None, [*deltas, *({"citation": each} for each in fields)]
        case Refuse(text):
            yield {"text": text}, None, [{"text": text}]
        case Invoke():
            yield _invoke(part, identity, request)
        case Search():
            yield from _search(part, request)
        case Draw(data):
            source = {"bytes": base64.b64encode(data).decode("ascii")}
            image = {"format": "png", "source": source}
            yield {"image": image}, {"image": {"format": "png"}}, [{"image": {"source": source}}]
        case Raw(raw):
            yield dict(raw), dict(raw), []
        case Speak():
            note = "(This vendor does not answer with audio.)"
            yield {"text": note}, None, [{"text": note}]


def _write_citation(cite: Cite) -> dict[str, Any]:
    return {
        "title": cite.title,
        "sourceContent": [{"text": cite.quote}],
        "location": {"web": {"url": cite.url, "domain": "source.example"}},
    }


def _invoke(
    invoke: Invoke, identity: str, request: SimulatedRequest
) -> tuple[dict[str, Any], Start, Deltas]:
    conditions = request.conditions
    text = write_arguments(invoke, conditions)
    arguments = read_arguments(invoke)
    if not isinstance(arguments, dict) or "broken_arguments" in conditions:
        arguments = text
    if sends_no_arguments(conditions):
        arguments = "" if "empty_arguments" in conditions else None
    call = {"toolUseId": identity, "name": invoke.name}
    whole = drop_arguments({**call, "input": arguments}, "input", conditions)
    pieces = split_arguments(text, conditions) if text not in ("", "{}") else [""]
    deltas = [{"toolUse": {"input": piece}} for piece in pieces]
    return {"toolUse": whole}, {"toolUse": call}, deltas


def _search(
    search: Search, request: SimulatedRequest
) -> Iterator[tuple[dict[str, Any], Start, Deltas]]:
    """Yield a search that the service executes, and its results."""
    identity = request.mint("tooluse_", 22)
    call = {"toolUseId": identity, "name": "nova_grounding", "type": "server_tool_use"}
    arguments = write_arguments(Invoke("search", {"query": search.query}), request.conditions)
    pieces = [
        {"toolUse": {"input": piece}} for piece in split_arguments(arguments, request.conditions)
    ]
    yield {"toolUse": {**call, "input": {"query": search.query}}}, {"toolUse": call}, pieces
    content = [{"text": f"{result.title} {result.url}"} for result in search.results]
    start = {"toolUseId": identity, "type": "nova_grounding_result", "status": "success"}
    whole = {"toolResult": {**start, "content": content}}
    yield whole, {"toolResult": start}, [{"toolResult": [part]} for part in content]


def stream(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    """Write the events of an answer."""
    yield _frame("messageStart", {"role": "assistant"})
    lanes: list[list[SimulatedFrame]] = []
    for index, (part, _, start, deltas) in enumerate(_produce_blocks(turn, prompt, request)):
        frames = list(_stream_block(index, start, deltas))
        if isinstance(part, Invoke) and "interleaved_calls" in request.conditions:
            lanes.append(frames)
        else:
            yield from frames
    yield from interleave(lanes)
    reason = STOPS.get(turn.ending, turn.ending)
    # Without this event, the answer is incomplete, although metadata follow.
    yield SimulatedFrame({"stopReason": reason, "p": "abc"}, "messageStop", ends=True)
    metadata = _write_metadata(turn, prompt, request)
    if turn.ending == "content_filter":
        metadata["trace"] = {"guardrail": {"modelOutput": ["Blocked."]}}
    yield _frame("metadata", metadata)


def _stream_block(index: int, start: Start, deltas: Deltas) -> Iterator[SimulatedFrame]:
    place = {"contentBlockIndex": index}
    if start is not None:
        yield _frame("contentBlockStart", {**place, "start": start})
    for delta in deltas:
        yield _frame("contentBlockDelta", {**place, "delta": delta})
    yield _frame("contentBlockStop", place)


def _frame(event: str, data: Mapping[str, Any]) -> SimulatedFrame:
    # Each event has letters that hide its length.
    return SimulatedFrame({**data, "p": "abcdefghijklmnopqrstuvwxyz"[: len(str(data)) % 26]}, event)


def write_error(refusal: SimulatedRefusal, request: SimulatedRequest) -> dict[str, Any]:
    """Write an error; its type is in a header."""
    return {"message": refusal.message}


def _find_type(refusal: SimulatedRefusal) -> str:
    return refusal.code or TYPES.get(refusal.kind, "ValidationException")


def write_stream_error(refusal: SimulatedRefusal, request: SimulatedRequest) -> SimulatedFrame:
    """Write an error in the middle of a stream."""
    kind = _find_type(refusal)
    return SimulatedFrame(write_error(refusal, request), kind[:1].lower() + kind[1:])


BEDROCK: Final = SimulatedProtocol(
    check=check_request,
    read=read_request,
    render=render,
    stream=stream,
    write_error=write_error,
    write_stream_error=write_stream_error,
    overflow=overflow,
    check_credentials=check_amazon_credentials,
    produce_headers=produce_headers,
    produce_error_headers=lambda refusal: {
        "x-amzn-errortype": f"{_find_type(refusal)}:http://internal.amazon.com/coral/"
    },
    framing="amazon",
)
