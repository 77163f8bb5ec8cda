"""Responses of OpenAI."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from vibe_llms.testing.simulator.backgrounds import keep_in_background
from vibe_llms.testing.simulator.credentials import check_bearer
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
    drop_arguments,
    write_arguments,
)
from vibe_llms.testing.simulator.response_requests import check_request, list_items, read_request
from vibe_llms.testing.simulator.response_streams import stream_items
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

INCOMPLETE = {
    "length": "max_output_tokens",
    "context": "max_output_tokens",
    "content_filter": "content_filter",
}
ECHOED_PARAMETERS: dict[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}, "verbosity": "medium"},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Parameters of the request that a response repeats, with their defaults."""


def produce_headers(request: SimulatedRequest) -> dict[str, str]:
    """Create the vendor's own headers of an answer."""
    return {
        "x-request-id": request.identity,
        "openai-processing-ms": "7",
        "openai-version": "2020-10-01",
    }


def overflow(prompt: SimulatedPrompt, limit: int) -> SimulatedRefusal:
    """Create the refusal of a prompt that is too long."""
    message = (
        "Your input exceeds the context window of this model. Please adjust your input and try "
        "again."
    )
    return SimulatedRefusal(400, "context", message, param="input", code="context_length_exceeded")


def produce_items(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> list[dict[str, Any]]:
    """Return the items of an answer; consecutive texts are one message."""
    items: list[dict[str, Any]] = []
    for part, identity in assign_ids(turn, request, lambda: request.mint("call_", 24)):
        if isinstance(part, (Say, Refuse)):
            if not items or items[-1]["type"] != "message":
                items.append(_start_message(request))
            items[-1]["content"].append(_produce_content(part))
        else:
            items.append(_produce_item(part, identity, prompt, request))
    if turn.ending in INCOMPLETE and items and "status" in items[-1]:
        items[-1]["status"] = "incomplete"
    return items


def _start_message(request: SimulatedRequest) -> dict[str, Any]:
    identity = request.mint("msg_", 48).lower()
    head = {"id": identity, "type": "message", "status": "completed"}
    return {**head, "role": "assistant", "content": []}


def _write_search_action(search: Search, request: SimulatedRequest) -> dict[str, Any]:
    query = search.query
    action: dict[str, Any] = {"type": "search", "queries": [query], "query": query}
    if "web_search_call.action.sources" in (request.body.get("include") or ()):
        action["sources"] = [{"type": "url", "url": result.url} for result in search.results]
    return action


def _write_code_call(part: Compute, identity: str, request: SimulatedRequest) -> dict[str, Any]:
    head = {"id": identity, "type": "code_interpreter_call", "status": "completed"}
    has_outputs = "code_interpreter_call.outputs" in (request.body.get("include") or ())
    outputs = [{"type": "logs", "logs": part.output}] if has_outputs else None
    return {**head, "code": part.code, "container_id": "cntr_simulated", "outputs": outputs}


def _produce_content(part: Say | Refuse) -> dict[str, Any]:
    if isinstance(part, Refuse):
        return {"type": "refusal", "refusal": part.text}
    annotations = [_annotate(cite, len(part.text)) for cite in part.citations]
    return {"type": "output_text", "annotations": annotations, "logprobs": [], "text": part.text}


def _annotate(cite: Cite, end: int) -> dict[str, Any]:
    place = {"type": "url_citation", "start_index": 0, "end_index": end}
    return {**place, "title": cite.title, "url": cite.url}


def _produce_item(
    part: Part, identity: str, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    def mint(prefix: str) -> str:
        return request.mint(prefix, 48).lower()

    match part:
        case Think(text):
            encrypted = sign(text, kind="responses", prefix=prompt.prefix, embeds_text=True)
            summary = [] if part.redacted else [{"type": "summary_text", "text": text}]
            item = {"id": mint("rs_"), "type": "reasoning", "summary": summary}
            if "reasoning.encrypted_content" in (request.body.get("include") or ()):
                item["encrypted_content"] = encrypted
            return item
        case Invoke(custom=True):
            text = write_arguments(part, request.conditions)
            head = {"id": mint("ctc_"), "type": "custom_tool_call", "status": "completed"}
            return {**head, "call_id": identity, "input": text, "name": part.name}
        case Invoke():
            text = write_arguments(part, request.conditions)
            head = {"id": mint("fc_"), "type": "function_call", "status": "completed"}
            call = {**head, "arguments": text, "call_id": identity, "name": part.name}
            return drop_arguments(call, "arguments", request.conditions)
        case Search():
            head = {"id": mint("ws_"), "type": "web_search_call", "status": "completed"}
            return {**head, "action": _write_search_action(part, request)}
        case Compute():
            return _write_code_call(part, mint("ci_"), request)
        case Draw(data):
            return {
                "id": mint("ig_"),
                "type": "image_generation_call",
                "status": "completed",
                "background": "opaque",
                "output_format": "png",
                "quality": "low",
                "size": "1024x1024",
                "revised_prompt": prompt.text,
                "result": base64.b64encode(data).decode(),
            }
        case Raw(block):
            return dict(block)
        case Speak() | _:
            note = _produce_content(Say("(This protocol has no audio in answers.)"))
            return _start_message(request) | {"content": [note]}


def _write_response(
    turn: ScriptedAnswer,
    prompt: SimulatedPrompt,
    request: SimulatedRequest,
    items: list[dict[str, Any]],
    *,
    started: bool = False,
) -> dict[str, Any]:
    """Return the response object, at the start or the end of the response."""
    body = request.body
    reason = None if started else INCOMPLETE.get(turn.ending)
    status = "incomplete" if reason else "completed"
    if started:
        status = "in_progress"
    response: dict[str, Any] = {
        "id": request.identity.replace("req_", "resp_"),
        "object": "response",
        "created_at": request.now,
        "status": status,
        "background": body.get("background") is True,
        "completed_at": None if started or reason else request.now,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": prompt.model,
        "output": [] if started else items,
        "service_tier": "auto" if started else "default",
    }
    for name, default in ECHOED_PARAMETERS.items():
        response[name] = body[name] if body.get(name) is not None else default
    response["usage"] = None if started else _write_usage(turn, prompt)
    if "no_usage" in request.conditions:
        response["usage"] = None
    if not started and body.get("store") is not False:  # OpenAI stores by default
        everything = [*list_items(request), *items]
        request.stored[response["id"]] = {"response": response, "items": everything}
    return response


def _write_usage(turn: ScriptedAnswer, prompt: SimulatedPrompt) -> dict[str, Any]:
    tokens = count_usage(turn, prompt)
    return {
        "input_tokens": tokens.received,
        "input_tokens_details": {
            "cached_tokens": tokens.cached,
            "cache_write_tokens": tokens.written,
        },
        "output_tokens": tokens.produced,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.received + tokens.produced,
    }


def render(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    """Write a whole answer; of a response in the background, only its beginning."""
    items = produce_items(turn, prompt, request)
    response = _write_response(turn, prompt, request, items)
    if not response["background"]:
        return response
    queued = _write_response(turn, prompt, request, items, started=True) | {"status": "queued"}
    keep_in_background(request, response["id"], queued)
    return queued


def stream(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    """Write the events of an answer, numbered; the vendor keeps those of one in the background."""
    if request.body.get("background") is not True:
        return _stream(turn, prompt, request)
    frames = list(_stream(turn, prompt, request))  # the vendor does not wait for its client
    start: Any = frames[0].data
    keep_in_background(request, start["response"]["id"], start["response"], frames)
    return iter(frames)


def _stream(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    items = produce_items(turn, prompt, request)
    number = 0

    def frame(kind: str, fields: dict[str, Any], *, ends: bool = False) -> SimulatedFrame:
        nonlocal number
        number += 1
        return SimulatedFrame({"type": kind, **fields, "sequence_number": number - 1}, kind, ends)

    start = _write_response(turn, prompt, request, items, started=True)
    yield frame("response.created", {"response": start})
    yield frame("response.in_progress", {"response": start})
    for kind, fields in stream_items(items, request.conditions):
        yield frame(kind, fields)
    end = _write_response(turn, prompt, request, items)
    yield frame(f"response.{end['status']}", {"response": end}, ends=True)


def write_error(refusal: SimulatedRefusal, request: SimulatedRequest) -> dict[str, Any]:
    """Write an error."""
    kind = {"rate": "requests", "server": "server_error", "overloaded": "server_error"}
    code = refusal.code or {"rate": "rate_limit_exceeded"}.get(refusal.kind)
    return {
        "error": {
            "message": refusal.message,
            "type": kind.get(refusal.kind, "invalid_request_error"),
            "param": refusal.param,
            "code": code,
        }
    }


def write_stream_error(refusal: SimulatedRefusal, request: SimulatedRequest) -> SimulatedFrame:
    """Write an error in the middle of a stream: an event that has the error's fields itself."""
    code = {"rate": "rate_limit_exceeded"}.get(refusal.kind, "server_error")
    error = {"code": code, "message": refusal.message, "param": None}
    return SimulatedFrame({"type": "error", **error, "sequence_number": 99}, "error")


RESPONSES: Final = SimulatedProtocol(
    use_cache=cache_all_prefixes,
    check=check_request,
    read=read_request,
    render=render,
    stream=stream,
    write_error=write_error,
    write_stream_error=write_stream_error,
    overflow=overflow,
    check_credentials=check_bearer,
    produce_headers=produce_headers,
)
