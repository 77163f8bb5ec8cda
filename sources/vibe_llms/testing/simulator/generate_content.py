"""generateContent of Google's Gemini."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from vibe_llms.testing.simulator.cached_contents import count_cached_content
from vibe_llms.testing.simulator.credentials import WRONG
from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.gemini_requests import check_request, read_request, sign_invocation
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
    is_broken,
    read_arguments,
    sends_no_arguments,
    split_text,
)
from vibe_llms.testing.simulator.scripts import (
    Cite,
    Compute,
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
    "end": "STOP",
    "tool_use": "STOP",
    "stop_sequence": "STOP",
    "length": "MAX_TOKENS",
    "context": "MAX_TOKENS",
    "refusal": "SAFETY",
    "content_filter": "SAFETY",
    "pause": "STOP",
}
STATUSES = {
    "authentication": "INVALID_ARGUMENT",
    "permission": "PERMISSION_DENIED",
    "missing": "NOT_FOUND",
    "rate": "RESOURCE_EXHAUSTED",
    "overloaded": "UNAVAILABLE",
    "server": "INTERNAL",
}


def produce_headers(request: SimulatedRequest) -> dict[str, str]:
    """Create the vendor's own headers of an answer."""
    return {"server-timing": "gfet4t7; dur=7", "vary": "Origin, X-Origin, Referer"}


def check_credentials(request: SimulatedRequest) -> None:
    """Refuse a request without a valid key."""
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    key = request.headers.get("x-goog-api-key") or request.query.get("key") or bearer
    if not key:
        message = (
            "Method doesn't allow unregistered callers (callers without established identity). "
            "Please use API Key or other form of API consumer identity to call this API."
        )
        raise SimulatedRefusal(403, "permission", message)
    # Google answers a wrong key with 400, where others have 401.
    if any(word in key for word in WRONG):
        message = "API key not valid. Please pass a valid API key."
        raise SimulatedRefusal(400, "authentication", message, code="API_KEY_INVALID")


def overflow(prompt: SimulatedPrompt, limit: int) -> SimulatedRefusal:
    """Create the refusal of a prompt that is too long."""
    message = (
        f"The input token count ({max(prompt.tokens, limit + 1)}) exceeds the maximum number of "
        f"tokens allowed ({limit})."
    )
    return SimulatedRefusal(400, "context", message)


def render(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    """Write a whole answer."""
    turn = _end_at_broken_call(turn, request)
    parts = [part for group in _produce_parts(turn, prompt, request, whole=True) for part in group]
    candidate = {"content": {"parts": parts, "role": "model"}, **_write_ending(turn)}
    return _write_chunk(candidate, turn, prompt, request, last=True)


def _end_at_broken_call(turn: ScriptedAnswer, request: SimulatedRequest) -> ScriptedAnswer:
    """Return an empty answer in place of one with an invocation that the vendor cannot parse."""
    if not is_broken(turn, request.conditions):
        return turn
    return ScriptedAnswer(parts=(), stop="MALFORMED_FUNCTION_CALL", usage=turn.usage)


def _write_ending(turn: ScriptedAnswer) -> dict[str, Any]:
    ending: dict[str, Any] = {"finishReason": STOPS.get(turn.ending, turn.ending), "index": 0}
    if turn.ending == "refusal":
        ending["safetyRatings"] = [
            {
                "category": "HARM_CATEGORY_DANGEROUS_CONTENT",
                "probability": "HIGH",
                "blocked": True,
            }
        ]
    if turn.ending == "MALFORMED_FUNCTION_CALL":
        ending["finishMessage"] = "Malformed function call: the arguments are not JSON."
    sources = [cite for part in turn.parts if isinstance(part, Say) for cite in part.citations]
    if sources:
        ending["groundingMetadata"] = _write_grounding(turn, sources)
    return ending


def _write_grounding(turn: ScriptedAnswer, sources: list[Cite]) -> dict[str, Any]:
    supports, start = [], 0
    for part in turn.parts:
        if not isinstance(part, Say):
            continue
        end = start + len(part.text.encode())  # Google counts bytes, not characters
        if part.citations:
            indices = [sources.index(cite) for cite in part.citations]
            segment = {"startIndex": start, "endIndex": end, "text": part.text}
            supports.append({"segment": segment, "groundingChunkIndices": indices})
        start = end
    queries = [part.query for part in turn.parts if isinstance(part, Search)]
    return {
        "webSearchQueries": queries,
        "groundingChunks": [{"web": {"uri": s.url, "title": s.title}} for s in sources],
        "groundingSupports": supports,
    }


def _produce_parts(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest, *, whole: bool
) -> Iterator[list[dict[str, Any]]]:
    """Return the parts, grouped by the chunks of a stream."""
    conditions = request.conditions
    has_signed_call = False
    texts = [part for part in turn.parts if isinstance(part, Say)]
    for part, identity in assign_ids(turn, request, lambda: request.mint("", 8).lower()):
        match part:
            case Think(text):
                for piece in [text] if whole else split_text(text, conditions):
                    yield [{"text": piece, "thought": True}]
            case Say(text):
                for piece in [text] if whole else split_text(text, conditions):
                    yield [{"text": piece}]
                thoughts = any(isinstance(other, Think) for other in turn.parts)
                # In a stream, an empty text after the last text has the signature.
                if part is texts[-1] and thoughts and not whole:
                    yield [{"text": "", "thoughtSignature": sign(prompt.model, kind="gemini-text")}]
            case Invoke():
                yield [_invoke(part, identity, has_signed_call, conditions)]
                has_signed_call = True
            case Search():
                yield _search(part, request)
            case _:
                yield _produce_other(part)


def _invoke(
    invoke: Invoke, identity: str, has_signed_call: bool, conditions: Conditions
) -> dict[str, Any]:
    arguments = {} if sends_no_arguments(conditions) else read_arguments(invoke)
    call: dict[str, Any] = {"name": invoke.name, "args": arguments}
    call = drop_arguments(call, "args", conditions)
    if identity or "empty_ids" in conditions:
        call["id"] = identity
    part: dict[str, Any] = {"functionCall": call}
    if not has_signed_call:  # of parallel invocations only the first is signed
        part["thoughtSignature"] = sign_invocation(call)
    return part


def _search(search: Search, request: SimulatedRequest) -> list[dict[str, Any]]:
    """Return the call and its result, if the client wants to see them."""
    config = request.body.get("toolConfig") or {}
    if not config.get("includeServerSideToolInvocations"):
        return []
    head = {"id": request.mint("", 8).lower(), "toolType": "GOOGLE_SEARCH_WEB"}
    pages = [{"title": each.title, "url": each.url} for each in search.results]
    return [
        {"toolCall": {**head, "args": {"queries": [search.query]}}},
        {"toolResponse": {**head, "response": {"results": pages}}},
    ]


def _produce_other(part: Part) -> list[dict[str, Any]]:
    match part:
        case Draw(data):
            inline = {"mimeType": "image/png", "data": base64.b64encode(data).decode()}
            return [{"inlineData": inline}]
        case Speak(data):
            inline = {"mimeType": "audio/wav", "data": base64.b64encode(data).decode()}
            return [{"inlineData": inline}]
        case Compute(code, output, failed=failed):
            result = {"outcome": "OUTCOME_FAILED" if failed else "OUTCOME_OK", "output": output}
            executable = {"language": "PYTHON", "code": code}
            return [{"executableCode": executable}, {"codeExecutionResult": result}]
        case Raw(block):
            return [dict(block)]
        case Refuse() | Search():
            return []  # no part: shown in the finishReason, or in the grounding
    return []


def _write_chunk(
    candidate: dict[str, Any] | None,
    turn: ScriptedAnswer,
    prompt: SimulatedPrompt,
    request: SimulatedRequest,
    *,
    last: bool,
) -> dict[str, Any]:
    conditions = request.conditions
    body: dict[str, Any] = {"candidates": [candidate] if candidate else []}
    has_usage = last or "usage_only_at_end" not in conditions
    if has_usage and "no_usage" not in conditions:
        body["usageMetadata"] = _write_usage(turn, prompt, last=last)
    identity = request.identity.removeprefix("req_")
    return {**body, "modelVersion": prompt.model, "responseId": identity}


def _write_usage(turn: ScriptedAnswer, prompt: SimulatedPrompt, *, last: bool) -> dict[str, Any]:
    tokens = count_usage(turn, prompt)
    usage: dict[str, Any] = {
        "promptTokenCount": tokens.received,
        "totalTokenCount": tokens.received + (tokens.produced if last else 0),
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.received}],
    }
    if tokens.cached:
        usage["cachedContentTokenCount"] = tokens.cached
    if last:
        # Gemini counts thoughts separately from the answer; other vendors include thoughts.
        usage["candidatesTokenCount"] = tokens.produced - tokens.reasoning
    if tokens.reasoning and last:
        usage["thoughtsTokenCount"] = tokens.reasoning
    return usage


def stream(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    """Write the chunks of an answer: each a whole response with new parts."""
    turn = _end_at_broken_call(turn, request)
    if "empty_choices" in request.conditions:
        yield SimulatedFrame(_write_chunk(None, turn, prompt, request, last=False))
    for group in _produce_parts(turn, prompt, request, whole=False):
        if group:
            candidate = {"content": {"parts": group, "role": "model"}, "index": 0}
            yield SimulatedFrame(_write_chunk(candidate, turn, prompt, request, last=False))
    last = {"content": {"parts": [{"text": ""}], "role": "model"}, **_write_ending(turn)}
    yield SimulatedFrame(_write_chunk(last, turn, prompt, request, last=True), ends=True)


def write_error(refusal: SimulatedRefusal, request: SimulatedRequest) -> dict[str, Any]:
    """Write an error."""
    status = STATUSES.get(refusal.kind, "INVALID_ARGUMENT")
    error: dict[str, Any] = {
        "code": GEMINI.map_status(refusal),
        "message": refusal.message,
        "status": status,
    }
    if refusal.code:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": refusal.code}
        error["details"] = [{**info, "domain": "googleapis.com"}]
    if refusal.retry_after is not None:
        delay = f"{refusal.retry_after}s"
        retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
        error["details"] = [retry]
    return {"error": error}


GEMINI: Final = SimulatedProtocol(
    use_cache=count_cached_content,
    check=check_request,
    read=read_request,
    render=render,
    stream=stream,
    write_error=write_error,
    overflow=overflow,
    check_credentials=check_credentials,
    produce_headers=produce_headers,
)
