"""Messages: the blocks of an answer, each with its deltas in a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from vibe_llms.testing.simulator.asks import Ask
from vibe_llms.testing.simulator.faces import SimulatedRequest
from vibe_llms.testing.simulator.rendering import (
    assign_ids,
    leave_nothing,
    read_arguments,
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
    ScriptedAnswer,
    Search,
    Speak,
    Think,
)
from vibe_llms.testing.simulator.signatures import sign

Deltas = list[dict[str, Any]]


def produce_blocks(
    turn: ScriptedAnswer, ask: Ask, setting: SimulatedRequest
) -> Iterator[tuple[Part, dict[str, Any], Deltas]]:
    """Return the whole blocks of an answer, each with its part and its deltas."""
    for part, identity in assign_ids(turn, setting, lambda: setting.mint("toolu_01", 22)):
        for block, deltas in _produce_blocks(part, identity, ask, setting):
            yield part, block, deltas


def _produce_blocks(
    part: Part, identity: str, ask: Ask, setting: SimulatedRequest
) -> Iterator[tuple[dict[str, Any], Deltas]]:
    conditions = setting.conditions
    match part:
        case Think(text, redacted=redacted):
            if redacted or "redacted_thinking" in conditions:
                signed = sign(text, kind="redacted", prefix=ask.prefix, embeds_text=True)
                yield {"type": "redacted_thinking", "data": signed}, []
                return
            signature = sign(text, kind="messages", prefix=ask.prefix)
            block = {"type": "thinking", "thinking": text, "signature": signature}
            deltas: Deltas = [
                {"type": "thinking_delta", "thinking": piece}
                for piece in split_text(text, conditions)
            ]
            yield block, [*deltas, {"type": "signature_delta", "signature": signature}]
        case Say(text, citations):
            yield _say(text, citations, setting)
        case Refuse(text):
            yield {"type": "text", "text": text}, [{"type": "text_delta", "text": text}]
        case Invoke():
            yield _invoke(part, identity, setting)
        case Search():
            yield from _search(part, setting)
        case Raw(block):
            yield dict(block), []
        case Draw() | Speak():
            note = {"type": "text", "text": "(This vendor answers text alone.)"}
            yield note, [{"type": "text_delta", "text": note["text"]}]


def _say(
    text: str, citations: tuple[Cite, ...], setting: SimulatedRequest
) -> tuple[dict[str, Any], Deltas]:
    written = [_cite(cite) for cite in citations]
    deltas: Deltas = [{"type": "citations_delta", "citation": citation} for citation in written]
    if "many_events" in setting.conditions:
        pieces: Any = text
    else:
        pieces = split_text(text, setting.conditions)
    deltas += [{"type": "text_delta", "text": piece} for piece in pieces]
    block: dict[str, Any] = {"type": "text", "text": text}
    if written:
        block["citations"] = written
    return block, deltas


def _cite(cite: Cite) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "cited_text": cite.quote,
        "url": cite.url,
        "title": cite.title,
        "encrypted_index": sign(cite.url, kind="citation", embeds_text=True),
    }


def _invoke(
    invoke: Invoke, identity: str, setting: SimulatedRequest
) -> tuple[dict[str, Any], Deltas]:
    text = write_arguments(invoke, setting.conditions)
    arguments = read_arguments(invoke)
    broken = not isinstance(arguments, dict) or "broken_arguments" in setting.conditions
    if says_nothing(setting.conditions):
        arguments = "" if "empty_arguments" in setting.conditions else None
        broken = False
    block = {
        "type": "tool_use",
        "id": identity,
        "name": invoke.name,
        "input": text if broken else arguments,
    }
    block = leave_nothing(block, "input", setting.conditions)
    pieces = split_arguments(text, setting.conditions) if text not in ("", "{}") else []
    # Anthropic's first piece is always empty.
    return block, [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces]]


def _search(search: Search, setting: SimulatedRequest) -> Iterator[tuple[dict[str, Any], Deltas]]:
    identity = setting.mint("srvtoolu_01", 22)
    query = json.dumps({"query": search.query}, ensure_ascii=False)
    yield (
        {
            "type": "server_tool_use",
            "id": identity,
            "name": "web_search",
            "input": {"query": search.query},
        },
        [
            {"type": "input_json_delta", "partial_json": piece}
            for piece in split_arguments(query, setting.conditions)
        ],
    )
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
