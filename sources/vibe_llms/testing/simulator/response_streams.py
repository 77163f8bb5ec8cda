"""Responses: the events of an item in a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.rendering import interleave, split_arguments, split_text

CALLS = ("function_call", "custom_tool_call")
Event = tuple[str, dict[str, Any]]
START_FIELDS: dict[str, dict[str, Any]] = {
    "message": {"content": [], "status": "in_progress"},
    "reasoning": {"summary": []},
    "function_call": {"arguments": "", "status": "in_progress"},
    "custom_tool_call": {"input": "", "status": "in_progress"},
    "code_interpreter_call": {"status": "in_progress", "code": "", "outputs": None},
    "web_search_call": {"status": "in_progress", "action": {"type": "search"}},
}
"""Fields of an item at its start, by type; deltas fill them later."""


def stream_items(items: list[dict[str, Any]], conditions: Conditions) -> Iterator[Event]:
    """Write the events of all items, without their numbers."""
    lanes: list[list[Event]] = []
    for index, item in enumerate(items):
        events = _stream_item(item, index, conditions)
        if "interleaved_calls" in conditions and item["type"] in CALLS:
            lanes.append(list(events))
        else:
            yield from events
    yield from interleave(lanes)


def _stream_item(item: dict[str, Any], index: int, conditions: Conditions) -> Iterator[Event]:
    start = {**item, **START_FIELDS.get(item["type"], {})}
    if item["type"] == "image_generation_call":
        start = {"id": item["id"], "type": item["type"], "status": "in_progress", "result": None}
    address = {"item_id": item.get("id", ""), "output_index": index}
    yield "response.output_item.added", {"item": start, "output_index": index}
    match item["type"]:
        case "message":
            yield from _stream_message(item, address, conditions)
        case "reasoning":
            yield from _stream_summary(item, address, conditions)
        case "function_call":
            yield from _stream_text(
                "function_call_arguments",
                "arguments",
                item.get("arguments") or "",
                address,
                conditions,
            )
        case "custom_tool_call":
            yield from _stream_text(
                "custom_tool_call_input", "input", item["input"], address, conditions
            )
        case "code_interpreter_call":
            yield "response.code_interpreter_call.in_progress", address
            yield from _stream_text(
                "code_interpreter_call_code", "code", item["code"], address, conditions
            )
            for state in ("interpreting", "completed"):
                yield f"response.code_interpreter_call.{state}", address
        case "web_search_call":
            for state in ("in_progress", "searching", "completed"):
                yield f"response.web_search_call.{state}", address
        case "image_generation_call":
            for state in ("in_progress", "generating", "completed"):
                yield f"response.image_generation_call.{state}", address
    yield "response.output_item.done", {"item": item, "output_index": index}


def _stream_text(
    kind: str, field: str, text: str, address: dict[str, Any], conditions: Conditions
) -> Iterator[Event]:
    for piece in split_arguments(text, conditions):
        yield f"response.{kind}.delta", {"delta": piece, **address}
    yield f"response.{kind}.done", {field: text, **address}


def _stream_summary(
    item: dict[str, Any], address: dict[str, Any], conditions: Conditions
) -> Iterator[Event]:
    for place, part in enumerate(item["summary"]):
        where = {**address, "summary_index": place}
        empty = {"type": "summary_text", "text": ""}
        kind = "response.reasoning_summary"
        yield f"{kind}_part.added", {"part": empty, **where}
        for piece in split_text(part["text"], conditions):
            yield f"{kind}_text.delta", {"delta": piece, **where}
        yield f"{kind}_text.done", {"text": part["text"], **where}
        yield f"{kind}_part.done", {"part": part, **where}


def _stream_message(
    item: dict[str, Any], address: dict[str, Any], conditions: Conditions
) -> Iterator[Event]:
    for place, part in enumerate(item["content"]):
        where = {**address, "content_index": place}
        if part["type"] == "refusal":
            field, kind = "refusal", "response.refusal"
            extra: dict[str, Any] = {}
            empty: dict[str, Any] = {"type": "refusal", "refusal": ""}
        else:
            field, kind = "text", "response.output_text"
            extra = {"logprobs": []}
            empty = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
        yield "response.content_part.added", {"part": empty, **where}
        for piece in split_text(part[field], conditions):
            yield f"{kind}.delta", {"delta": piece, **where, **extra}
        for number, annotation in enumerate(part.get("annotations") or ()):
            added = {"annotation": annotation, "annotation_index": number}
            yield f"{kind}.annotation.added", {**added, **where}
        yield f"{kind}.done", {field: part[field], **where, **extra}
        yield "response.content_part.done", {"part": part, **where}
