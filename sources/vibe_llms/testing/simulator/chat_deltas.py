"""Chat Completions: the deltas of each part of an answer."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

from vibe_llms.testing.simulator.faces import SimulatedRequest
from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.rendering import (
    leave_nothing,
    says_nothing,
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
    Search,
    Speak,
    Think,
)
from vibe_llms.testing.simulator.signatures import sign

REASONING_FIELDS = ("reasoning", "reasoning_content")


def produce_deltas(
    part: Part, identity: str, index: int, setting: SimulatedRequest, *, whole: bool = False
) -> Iterator[dict[str, Any]]:
    """Return the deltas of one part; of a whole message, one for each field."""
    conditions = setting.conditions
    match part:
        case Think(text):
            yield from _think(text, setting, whole)
        case Say(text, citations):
            for piece in [text] if whole else split_text(text, conditions):
                yield {"content": piece}
            if citations and "perplexity" not in conditions:
                yield {"annotations": [_annotate(cite, len(text)) for cite in citations]}
        case Refuse(text):
            for piece in [text] if whole else split_text(text, conditions):
                # Mistral has no refusals: they are texts.
                yield {"refusal": piece} if "mistral" not in conditions else {"content": piece}
        case Invoke():
            yield from _invoke(part, identity, index, setting, whole)
        case Speak(data, transcript):
            audio = {"id": setting.identity.replace("req_", "audio_"), "transcript": transcript}
            yield {
                "audio": {
                    **audio,
                    "data": base64.b64encode(data).decode(),
                    "expires_at": setting.now + 3600,
                }
            }
        case Draw(data):
            url = "data:image/png;base64," + base64.b64encode(data).decode()
            yield {"images": [{"type": "image_url", "image_url": {"url": url}, "index": 0}]}
        case Raw(block):
            yield dict(block)
        case Search():
            pass  # visible only in annotations, citations and search_results


def _think(text: str, setting: SimulatedRequest, whole: bool) -> Iterator[dict[str, Any]]:
    conditions = setting.conditions
    pieces = [text] if whole else list(split_text(text, conditions))
    for piece in pieces:
        if "mistral" in conditions:
            thinking = [{"type": "text", "text": piece}]
            yield {"content": [{"type": "thinking", "thinking": thinking}]}
        else:
            delta: dict[str, Any] = {name: piece for name in REASONING_FIELDS if name in conditions}
            if "reasoning_details" in conditions:
                delta["reasoning_details"] = [_detail(piece, text if whole else None)]
            if delta:
                yield delta
    # In a stream the signature comes last, without a text.
    if "reasoning_details" in conditions and not whole:
        signed = {**_detail("", text)}
        del signed["text"]
        yield {"reasoning_details": [signed]}


def _detail(piece: str, signed: str | None) -> dict[str, Any]:
    detail = {
        "type": "reasoning.text",
        "text": piece,
        "format": "anthropic-claude-v1",
        "index": 0,
    }
    if signed is not None:
        detail["signature"] = sign(signed, kind="chat")
    return detail


def _annotate(cite: Cite, end: int) -> dict[str, Any]:
    citation = {"start_index": 0, "end_index": end, "title": cite.title, "url": cite.url}
    return {"type": "url_citation", "url_citation": citation}


def _invoke(
    invoke: Invoke, identity: str, index: int, setting: SimulatedRequest, whole: bool
) -> Iterator[dict[str, Any]]:
    conditions = setting.conditions
    flavour, field = ("custom", "input") if invoke.custom else ("function", "arguments")
    text = write_arguments(invoke, conditions)
    at_once = whole or "whole_arguments" in conditions or "mistral" in conditions
    names = [invoke.name]
    if "split_names" in conditions and not whole:
        names = [invoke.name[:2], invoke.name[2:]]
    given: dict[str, Any] = {} if "empty_ids" not in conditions else {"id": ""}
    given |= {"id": identity} if identity else {}
    fields = [{field: "", "name": name} for name in names]
    fields[-1][field] = text if at_once else ""
    if not at_once:
        fields += [{field: piece} for piece in split_arguments(text, conditions)]
    for place, inner in enumerate(fields):
        if says_nothing(conditions):
            inner = leave_nothing(inner, field, conditions)
        if "repeated_names" in conditions:
            inner["name"] = invoke.name
        head = {"type": flavour, **given} if not place else {}
        again = given if "repeated_ids" in conditions else {}
        call: dict[str, Any] = {**_address(index, place, conditions), **head, **again}
        if "empty_siblings" in conditions and not place:
            call |= {"custom": {"input": "", "name": ""}, "function": {"arguments": "", "name": ""}}
        yield {"tool_calls": [{**call, flavour: inner}]}


def _address(index: int, place: int, conditions: Conditions) -> dict[str, Any]:
    """Return the index of a delta: of its invocation, unless a fault sets another."""
    if "missing_index" in conditions:
        return {}
    if "null_index" in conditions:
        return {"index": None}
    if "zero_index" in conditions:
        return {"index": 0}
    return {"index": 1000 * index + place if "counting_index" in conditions else index}
