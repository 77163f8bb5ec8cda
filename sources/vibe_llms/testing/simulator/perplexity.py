"""Perplexity's additions to Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vibe_llms.testing.simulator.behaviour import SOURCES
from vibe_llms.testing.simulator.protocols import SimulatedFrame
from vibe_llms.testing.simulator.scripts import Cite, Refuse, Say, ScriptedAnswer, Search


def _collect_sources(turn: ScriptedAnswer) -> list[Cite]:
    sources: list[Cite] = []
    for part in turn.parts:
        if isinstance(part, Search):
            sources.extend(part.results)
        if isinstance(part, Say):
            sources.extend(part.citations)
    return list(dict.fromkeys(sources or SOURCES))


def produce_search_fields(turn: ScriptedAnswer) -> dict[str, Any]:
    """Return the citations and results next to the choices."""
    sources = _collect_sources(turn)
    return {
        "citations": [source.url for source in sources],
        "search_results": [
            {
                "title": source.title,
                "url": source.url,
                "date": "2026-01-02",
                "last_updated": "2026-01-03",
                "snippet": source.quote,
                "source": "web",
            }
            for source in sources
        ],
    }


def stream_chunks(
    turn: ScriptedAnswer,
    head: Mapping[str, Any],
    usage: Mapping[str, Any] | None,
    stops: Mapping[str, str],
) -> Iterator[SimulatedFrame]:
    """Write chunks that contain both the new text and the whole text so far."""
    texts = [part.text for part in turn.parts if isinstance(part, (Say, Refuse))]
    pieces = [f"{word} " for word in "".join(texts).split(" ")]
    pieces[-1] = pieces[-1][:-1]  # no space after the last word
    usage_field = {} if usage is None else {"usage": usage}
    so_far = ""
    for position, piece in enumerate(pieces):
        so_far += piece
        is_last = position == len(pieces) - 1
        choice = {
            "index": 0,
            "delta": {"role": "assistant", "content": piece},
            "message": {"role": "assistant", "content": so_far},
            "finish_reason": stops.get(turn.ending, turn.ending) if is_last else None,
        }
        extras = {**produce_search_fields(turn), **usage_field}
        object_kind = "chat.completion.done" if is_last else "chat.completion.chunk"
        frame = {**head, "object": object_kind, "choices": [choice], **extras}
        yield SimulatedFrame(frame, ends=is_last)
    yield SimulatedFrame("[DONE]", ends=True)
