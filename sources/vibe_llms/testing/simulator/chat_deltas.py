"""Chat Completions: the deltas of each part of an answer."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.rendering import (
    drop_arguments,
    sends_no_arguments,
    split_arguments,
    split_text,
    write_arguments,
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
    Search,
    Speak,
    Think,
)
from vibe_llms.testing.simulator.signatures import sign

REASONING_FIELDS = ("reasoning", "reasoning_content")


def produce_deltas(
    part: Part, identity: str, index: int, request: SimulatedRequest, *, whole: bool = False
) -> Iterator[dict[str, Any]]:
    """Yield the deltas of one part; with `whole`, in one piece, as a message has them."""
    conditions = request.conditions
    match part:
        case Think(text):
            yield from _think(text, request, whole)
        case Say(text, citations):
            for piece in [text] if whole else split_text(text, conditions):
                yield {"content": piece}
            if citations and "perplexity" not in conditions:
                yield {"annotations": [_annotate(cite, len(text)) for cite in citations]}
        case Refuse(text):
            for piece in [text] if whole else split_text(text, conditions):
                # Mistral has no field for refusals and sends them as text.
                yield {"refusal": piece} if "mistral" not in conditions else {"content": piece}
        case Invoke():
            yield from _invoke(part, identity, index, request, whole)
        case Speak(data, transcript):
            audio = {"id": request.identity.replace("req_", "audio_"), "transcript": transcript}
            yield {
                "audio": {
                    **audio,
                    "data": base64.b64encode(data).decode(),
                    "expires_at": request.now + 3600,
                }
            }
        case Draw(data):
            url = "data:image/png;base64," + base64.b64encode(data).decode()
            yield {"images": [{"type": "image_url", "image_url": {"url": url}, "index": 0}]}
        case Raw(block):
            yield dict(block)
        case Search() | Compute():
            pass  # visible only in annotations, citations and search_results


def _think(text: str, request: SimulatedRequest, whole: bool) -> Iterator[dict[str, Any]]:
    conditions = request.conditions
    pieces = [text] if whole else list(split_text(text, conditions))
    for piece in pieces:
        if "mistral" in conditions:
            thinking = [{"type": "text", "text": piece}]
            yield {"content": [{"type": "thinking", "thinking": thinking}]}
        else:
            delta: dict[str, Any] = {name: piece for name in REASONING_FIELDS if name in conditions}
            if "reasoning_details" in conditions:
                delta["reasoning_details"] = [_write_detail(piece, text if whole else None)]
            if delta:
                yield delta
    # In a stream the signature comes last, without a text.
    if "reasoning_details" in conditions and not whole:
        detail = _write_detail("", text)
        del detail["text"]
        yield {"reasoning_details": [detail]}


def _write_detail(piece: str, signed_text: str | None) -> dict[str, Any]:
    detail = {
        "type": "reasoning.text",
        "text": piece,
        "format": "anthropic-claude-v1",
        "index": 0,
    }
    if signed_text is not None:
        detail["signature"] = sign(signed_text, kind="chat")
    return detail


def _annotate(cite: Cite, end: int) -> dict[str, Any]:
    citation = {"start_index": 0, "end_index": end, "title": cite.title, "url": cite.url}
    return {"type": "url_citation", "url_citation": citation}


def _invoke(
    invoke: Invoke, identity: str, index: int, request: SimulatedRequest, whole: bool
) -> Iterator[dict[str, Any]]:
    conditions = request.conditions
    kind, field = ("custom", "input") if invoke.custom else ("function", "arguments")
    text = write_arguments(invoke, conditions)
    at_once = whole or "whole_arguments" in conditions or "mistral" in conditions
    names = [invoke.name]
    if "split_names" in conditions and not whole:
        names = [invoke.name[:2], invoke.name[2:]]
    id_field: dict[str, Any] = {}
    if identity or "empty_ids" in conditions:
        id_field = {"id": identity}
    fields = [{field: "", "name": name} for name in names]
    fields[-1][field] = text if at_once else ""
    if not at_once:
        fields += [{field: piece} for piece in split_arguments(text, conditions)]
    if sends_no_arguments(conditions):
        fields = [drop_arguments(inner, field, conditions) for inner in fields]
    for place, inner in enumerate(fields):
        if "repeated_names" in conditions:
            inner["name"] = invoke.name
        head = {"type": kind, **id_field} if not place else {}
        repeated_id = id_field if "repeated_ids" in conditions else {}
        call: dict[str, Any] = {**_write_index(index, place, conditions), **head, **repeated_id}
        if "empty_siblings" in conditions and not place:
            call |= {"custom": {"input": "", "name": ""}, "function": {"arguments": "", "name": ""}}
        yield {"tool_calls": [{**call, kind: inner}]}


def _write_index(index: int, place: int, conditions: Conditions) -> dict[str, Any]:
    """Return the index of a delta: of its invocation, unless a fault sets another."""
    if "missing_index" in conditions:
        return {}
    if "null_index" in conditions:
        return {"index": None}
    if "zero_index" in conditions:
        return {"index": 0}
    return {"index": 1000 * index + place if "counting_index" in conditions else index}
