"""Interactions of Google's Gemini."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from vibe_llms.testing.simulator.backgrounds import keep_in_background
from vibe_llms.testing.simulator.generate_content import (
    check_credentials,
    overflow,
    produce_headers,
    write_error,
)
from vibe_llms.testing.simulator.interaction_requests import (
    check_request,
    list_steps,
    read_request,
)
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
    is_broken,
    read_arguments,
    sends_no_arguments,
    split_arguments,
    split_text,
)
from vibe_llms.testing.simulator.scripts import (
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

STATUSES: Final = {
    "end": "completed",
    "tool_use": "requires_action",
    "stop_sequence": "completed",
    "length": "incomplete",
    "context": "incomplete",
    "content_filter": "failed",
    "refusal": "completed",
    "pause": "requires_continuation",
}
FAILURE: Final = {
    "code": "MALFORMED_FUNCTION_CALL",
    "message": "The model called no valid function.",
}


def produce_steps(turn: ScriptedAnswer, request: SimulatedRequest) -> list[dict[str, Any]]:
    """Return the steps of an answer; consecutive texts and media are one message."""
    steps: list[dict[str, Any]] = []
    for part, identity in assign_ids(turn, request, lambda: request.mint("call_", 16).lower()):
        match part:
            case Say() | Refuse() | Draw() | Speak():
                if not steps or steps[-1]["type"] != "model_output":
                    steps.append({"type": "model_output", "content": []})
                _add_content(steps[-1]["content"], part)
            case Think(text):
                summary = [] if part.redacted else [{"type": "text", "text": text}]
                shown = "" if part.redacted else text
                signature = sign(shown, kind="interactions")
                steps.append({"type": "thought", "summary": summary, "signature": signature})
            case Invoke():
                arguments = {} if sends_no_arguments(request.conditions) else read_arguments(part)
                call = {"type": "function_call", "id": identity or request.mint("call_", 16)}
                steps.append({**call, "name": part.name, "arguments": arguments})
            case Search(query):
                steps += _search(part, query, request)
            case Compute():
                steps += _compute(part, request)
            case Raw(block):
                steps.append(dict(block))
    return steps


def _add_content(contents: list[dict[str, Any]], part: Part) -> None:
    """Add a content; adjacent texts are one text, as a stream cannot tell them apart."""
    match part:
        case Say(text, citations):
            if not contents or contents[-1]["type"] != "text":
                contents.append({"type": "text", "text": ""})
            start = len(contents[-1]["text"].encode())
            contents[-1]["text"] += text
            end = len(contents[-1]["text"].encode())
            for cite in citations:
                place = {"type": "url_citation", "start_index": start, "end_index": end}
                annotation = {**place, "title": cite.title, "url": cite.url}
                contents[-1].setdefault("annotations", []).append(annotation)
        case Refuse(text):
            contents.append({"type": "text", "text": text})
        case Draw(data):
            encoded = base64.b64encode(data).decode()
            contents.append({"type": "image", "mime_type": "image/png", "data": encoded})
        case Speak(data):
            encoded = base64.b64encode(data).decode()
            contents.append({"type": "audio", "mime_type": "audio/wav", "data": encoded})


def _compute(part: Compute, request: SimulatedRequest) -> list[dict[str, Any]]:
    identity = request.mint("code_", 16).lower()
    arguments = {"language": "python", "code": part.code}
    result = {"call_id": identity, "result": part.output, "is_error": part.failed}
    return [
        {"type": "code_execution_call", "id": identity, "arguments": arguments},
        {"type": "code_execution_result", **result},
    ]


def _search(part: Search, query: str, request: SimulatedRequest) -> list[dict[str, Any]]:
    identity = request.mint("search_", 16).lower()
    results = [{"url": each.url, "title": each.title} for each in part.results]
    return [
        {"type": "google_search_call", "id": identity, "arguments": {"queries": [query]}},
        {"type": "google_search_result", "call_id": identity, "result": results},
    ]


def _write_interaction(
    turn: ScriptedAnswer,
    prompt: SimulatedPrompt,
    request: SimulatedRequest,
    *,
    started: bool = False,
) -> dict[str, Any]:
    """Return the fields of an interaction without its steps."""
    failed = is_broken(turn, request.conditions)
    status = "in_progress" if started else STATUSES.get(turn.ending, "completed")
    if failed and not started:
        status = "failed"
    interaction: dict[str, Any] = {
        "id": request.identity.replace("req_", "v1_"),
        "object": "interaction",
        "status": status,
        "model": prompt.model,
    }
    if started:
        if "partial_usage" in request.conditions:
            interaction["usage"] = {"total_input_tokens": 1, "total_output_tokens": 0}
        return interaction
    if failed:
        interaction["errors"] = [FAILURE]
    if "no_usage" not in request.conditions:
        interaction["usage"] = _write_usage(turn, prompt)
    return {**interaction, "created": "2026-11-22T12:00:00Z", "updated": "2026-11-22T12:00:01Z"}


def _write_usage(turn: ScriptedAnswer, prompt: SimulatedPrompt) -> dict[str, Any]:
    tokens = count_usage(turn, prompt)
    answered = tokens.produced - tokens.reasoning  # thoughts are counted separately
    return {
        "total_tokens": tokens.received + tokens.produced,
        "total_input_tokens": tokens.received,
        "input_tokens_by_modality": [{"modality": "text", "tokens": tokens.received}],
        "total_cached_tokens": tokens.cached,
        "total_output_tokens": answered,
        "total_thought_tokens": tokens.reasoning,
        "total_tool_use_tokens": 0,
    }


def _store(
    interaction: dict[str, Any], steps: list[dict[str, Any]], request: SimulatedRequest
) -> None:
    if request.body.get("store") is not False:  # Google stores by default
        complete = {**interaction, "steps": steps}
        items = [*list_steps(request), *steps]
        request.stored[interaction["id"]] = {"response": complete, "items": items}


def render(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> dict[str, Any]:
    """Write a whole answer; of an interaction in the background, only its beginning."""
    steps = [] if is_broken(turn, request.conditions) else produce_steps(turn, request)
    interaction = _write_interaction(turn, prompt, request)
    _store(interaction, steps, request)
    if request.body.get("background") is not True:
        return {**interaction, "steps": steps}
    beginning = _write_interaction(turn, prompt, request, started=True)
    keep_in_background(request, interaction["id"], beginning)
    return {**beginning, "status": "queued"}


def stream(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    """Write the events of an answer; the vendor keeps those of one in the background."""
    if request.body.get("background") is not True:
        return _stream(turn, prompt, request)
    frames = list(_stream(turn, prompt, request))  # the vendor does not wait for its client
    beginning = _write_interaction(turn, prompt, request, started=True)
    keep_in_background(request, beginning["id"], beginning, frames)
    return iter(frames)


def _stream(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[SimulatedFrame]:
    steps = [] if is_broken(turn, request.conditions) else produce_steps(turn, request)
    number = 0

    def frame(kind: str, fields: dict[str, Any], *, ends: bool = False) -> SimulatedFrame:
        nonlocal number
        number += 1
        return SimulatedFrame(
            {**fields, "event_id": f"event_{number}", "event_type": kind}, kind, ends
        )

    start = _write_interaction(turn, prompt, request, started=True)
    yield frame("interaction.created", {"interaction": start})
    status = {"interaction_id": start["id"], "status": "in_progress"}
    yield frame("interaction.status_update", status)
    for index, step in enumerate(steps):
        first, deltas = _split_step(step, request)
        yield frame("step.start", {"index": index, "step": first})
        for delta in deltas:
            yield frame("step.delta", {"index": index, "delta": delta})
        yield frame("step.stop", {"index": index})
    interaction = _write_interaction(turn, prompt, request)
    _store(interaction, steps, request)
    yield frame("interaction.completed", {"interaction": interaction}, ends=True)
    yield SimulatedFrame("[DONE]", "done")


def _split_step(
    step: Mapping[str, Any], request: SimulatedRequest
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return what a step begins with, and its deltas."""
    kind, conditions = step["type"], request.conditions
    match kind:
        case "model_output":
            deltas = [
                delta for content in step["content"] for delta in _split_content(content, request)
            ]
            return {"type": kind}, deltas
        case "thought":
            pieces = [
                {"type": "thought_summary", "content": {"type": "text", "text": piece}}
                for each in step["summary"]
                for piece in split_text(each["text"], conditions)
            ]
            signature = {"type": "thought_signature", "signature": step["signature"]}
            return {"type": kind}, [*pieces, signature]
        case "function_call":
            text = json.dumps(step["arguments"], ensure_ascii=False)
            pieces = [
                {"type": "arguments_delta", "arguments": piece}
                for piece in split_arguments(text, conditions)
            ]
            first = {"type": kind, "id": step["id"], "name": step["name"], "arguments": {}}
            return first, pieces
        case _ if kind.endswith(("_call", "_result")):
            identity = "id" if kind.endswith("_call") else "call_id"
            rest = {name: value for name, value in step.items() if name != identity}
            empty: dict[str, Any] = {"arguments": {}} if kind.endswith("_call") else {"result": []}
            return {"type": kind, identity: step[identity], **empty}, [rest]
    return dict(step), []


def _split_content(
    content: Mapping[str, Any], request: SimulatedRequest
) -> Iterator[dict[str, Any]]:
    if content["type"] != "text":
        yield dict(content)
        return
    for piece in split_text(content["text"], request.conditions):
        yield {"type": "text", "text": piece}
    if content.get("annotations"):
        yield {"type": "text_annotation_delta", "annotations": content["annotations"]}


def write_stream_error(refusal: SimulatedRefusal, request: SimulatedRequest) -> SimulatedFrame:
    """Write an error in the middle of a stream."""
    code = {"rate": "resource_exhausted", "overloaded": "unavailable"}.get(refusal.kind, "internal")
    error = {"code": code, "message": refusal.message}
    return SimulatedFrame({"error": error, "event_type": "error"}, "error")


INTERACTIONS: Final = SimulatedProtocol(
    check=check_request,
    read=read_request,
    render=render,
    stream=stream,
    write_error=write_error,
    write_stream_error=write_stream_error,
    overflow=overflow,
    check_credentials=check_credentials,
    produce_headers=produce_headers,
)
