"""Messages: the blocks of an answer, each with its deltas in a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vibe_llms.testing.simulator.prompts import SimulatedPrompt
from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.rendering import (
    assign_ids,
    drop_arguments,
    read_arguments,
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
    ScriptedAnswer,
    Search,
    Speak,
    Think,
)
from vibe_llms.testing.simulator.signatures import sign

Deltas = list[dict[str, Any]]


def produce_blocks(
    turn: ScriptedAnswer, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[tuple[Part, dict[str, Any], Deltas]]:
    """Yield the blocks of an answer, each with its part and its deltas in a stream."""
    for part, identity in assign_ids(turn, request, lambda: request.mint("toolu_01", 22)):
        for block, deltas in _produce_blocks(part, identity, prompt, request):
            yield part, block, deltas


def _produce_blocks(
    part: Part, identity: str, prompt: SimulatedPrompt, request: SimulatedRequest
) -> Iterator[tuple[dict[str, Any], Deltas]]:
    conditions = request.conditions
    match part:
        case Think(text, redacted=redacted):
            if redacted or "redacted_thinking" in conditions:
                signed = sign(text, kind="redacted", prefix=prompt.prefix, embeds_text=True)
                yield {"type": "redacted_thinking", "data": signed}, []
                return
            signature = sign(text, kind="messages", prefix=prompt.prefix)
            block = {"type": "thinking", "thinking": text, "signature": signature}
            deltas: Deltas = [
                {"type": "thinking_delta", "thinking": piece}
                for piece in split_text(text, conditions)
            ]
            yield block, [*deltas, {"type": "signature_delta", "signature": signature}]
        case Say(text, citations):
            yield _say(text, citations, request)
        case Refuse(text):
            yield {"type": "text", "text": text}, [{"type": "text_delta", "text": text}]
        case Invoke():
            yield _invoke(part, identity, request)
        case Search():
            yield from _search(part, request)
        case Compute():
            yield from _compute(part, request)
        case Raw(block):
            yield dict(block), []
        case Draw() | Speak():
            note = {"type": "text", "text": "(This vendor answers with text only.)"}
            yield note, [{"type": "text_delta", "text": note["text"]}]


def _say(
    text: str, citations: tuple[Cite, ...], request: SimulatedRequest
) -> tuple[dict[str, Any], Deltas]:
    citation_fields = [_write_citation(cite) for cite in citations]
    deltas: Deltas = [
        {"type": "citations_delta", "citation": citation} for citation in citation_fields
    ]
    if "many_events" in request.conditions:
        pieces: Any = text
    else:
        pieces = split_text(text, request.conditions)
    deltas += [{"type": "text_delta", "text": piece} for piece in pieces]
    block: dict[str, Any] = {"type": "text", "text": text}
    if citation_fields:
        block["citations"] = citation_fields
    return block, deltas


def _write_citation(cite: Cite) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "cited_text": cite.quote,
        "url": cite.url,
        "title": cite.title,
        "encrypted_index": sign(cite.url, kind="citation", embeds_text=True),
    }


def _invoke(
    invoke: Invoke, identity: str, request: SimulatedRequest
) -> tuple[dict[str, Any], Deltas]:
    text = write_arguments(invoke, request.conditions)
    arguments = read_arguments(invoke)
    is_text = not isinstance(arguments, dict) or "broken_arguments" in request.conditions
    if sends_no_arguments(request.conditions):
        arguments = "" if "empty_arguments" in request.conditions else None
        is_text = False
    block = {
        "type": "tool_use",
        "id": identity,
        "name": invoke.name,
        "input": text if is_text else arguments,
    }
    block = drop_arguments(block, "input", request.conditions)
    pieces = split_arguments(text, request.conditions) if text not in ("", "{}") else []
    # Anthropic's first piece is always empty.
    return block, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces]]


def _search(search: Search, request: SimulatedRequest) -> Iterator[tuple[dict[str, Any], Deltas]]:
    identity = request.mint("srvtoolu_01", 22)
    yield _call_own_tool(identity, "web_search", {"query": search.query}, request)
    results = [
        {
            "type": "web_search_result",
            "title": result.title,
            "url": result.url,
            "encrypted_content": sign(result.quote, kind="search", embeds_text=True),
            "page_age": None,
        }
        for result in search.results
    ]
    yield {"type": "web_search_tool_result", "tool_use_id": identity, "content": results}, []


def _compute(part: Compute, request: SimulatedRequest) -> Iterator[tuple[dict[str, Any], Deltas]]:
    identity = request.mint("srvtoolu_01", 22)
    yield _call_own_tool(identity, "bash_code_execution", {"command": part.code}, request)
    outputs = {"stdout": "", "stderr": part.output} if part.failed else {"stdout": part.output}
    result = {
        "type": "bash_code_execution_result",
        "stderr": "",
        **outputs,
        "return_code": int(part.failed),
        "content": [],
    }
    kind = "bash_code_execution_tool_result"
    yield {"type": kind, "tool_use_id": identity, "content": result}, []


def _call_own_tool(
    identity: str, name: str, arguments: dict[str, Any], request: SimulatedRequest
) -> tuple[dict[str, Any], Deltas]:
    """Return the call of a tool that the vendor executes, and its deltas."""
    text = json.dumps(arguments, ensure_ascii=False)
    deltas: Deltas = [
        {"type": "input_json_delta", "partial_json": piece}
        for piece in split_arguments(text, request.conditions)
    ]
    return {"type": "server_tool_use", "id": identity, "name": name, "input": arguments}, deltas
