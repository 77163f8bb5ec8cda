"""Streams by Interactions: the texts of a step, which readers join, and their annotations."""

from __future__ import annotations

import json
from typing import Any

from vibe_llms.dialects import interactions
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseStartedEvent,
    StreamEvent,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.contents import Citation, RefusalContent, TextualContent
from vibe_llms.wire.sse import SseFramer

PAGE = Citation(url="https://example.org/oslo")


def write_deltas(*events: StreamEvent) -> list[Any]:
    """Return the deltas of the events."""
    writer = interactions.StreamWriter({}, model="m")
    data = b"".join(map(writer.write, (ResponseStartedEvent(), *events)))
    fields = [json.loads(frame.data) for frame in SseFramer(Limits()).feed(data)]
    return [each["delta"] for each in fields if each["event_type"] == "step.delta"]


def test_annotations_have_the_positions_of_the_joined_text() -> None:
    """In bytes, as the vendor counts."""
    texts = ("Réx ", "It rains.", "Yes.")
    placed = Citation(url="https://example.org/oslo", start=3, end=8)
    citations: tuple[tuple[Citation, ...], ...] = ((), (placed,), (PAGE,))
    events: list[StreamEvent] = []
    for index, (text, cited) in enumerate(zip(texts, citations, strict=True)):
        events += [
            ContentStartedEvent(index=index, kind="text"),
            ContentDeltaEvent(index, text),
            *(ContentCitedEvent(index, each) for each in cited),
            ContentFinishedEvent(index=index, item=TextualContent(text, citations=cited)),
        ]

    deltas = write_deltas(*events)

    (first,), (second,) = (each["annotations"] for each in deltas if "annotations" in each)
    joined = "".join(each.get("text", "") for each in deltas).encode()
    assert joined[first["start_index"] : first["end_index"]] == b"rains"
    assert joined[second["start_index"] : second["end_index"]] == b"Yes."


def test_a_text_keeps_its_citations_if_another_content_ends_it() -> None:
    deltas = write_deltas(
        ContentStartedEvent(index=0, kind="text"),
        ContentDeltaEvent(0, "It rains."),
        ContentCitedEvent(0, PAGE),
        ContentStartedEvent(index=1, kind="invocation", invocation_id="c", name="weather"),
        ContentDeltaEvent(1, "{}", "arguments"),
        ContentFinishedEvent(index=0, item=TextualContent("It rains.", citations=(PAGE,))),
    )

    assert [each["url"] for each in deltas[1]["annotations"]] == [PAGE.url]


def test_a_refusal_is_sent_in_pieces() -> None:
    """So that it is not lost if another content ends it."""
    deltas = write_deltas(
        ContentStartedEvent(index=0, kind="refusal"),
        ContentDeltaEvent(0, "I will ", kind="refusal"),
        ContentDeltaEvent(0, "not.", kind="refusal"),
        ContentStartedEvent(index=1, kind="reasoning"),
        ContentDeltaEvent(1, "Hm"),
        ContentFinishedEvent(index=0, item=RefusalContent("I will not.")),
    )

    assert [each["text"] for each in deltas[:2]] == ["I will ", "not."]
