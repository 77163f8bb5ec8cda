"""Strategies for the events of one response, as the decoder of another protocol may give them.

Contents begin in order and end at once or all together; what has deltas comes in any pieces.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from strategies.messages import json_objects
from vibe_llms.dialects.extras import make_native, write_json
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    FinishedItem,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.messages.canisters import Owner, ResultCanister, StopReason, Usage
from vibe_llms.messages.contents import (
    Citation,
    ImageContent,
    NativeContent,
    ReasoningContent,
    TextualContent,
)

PROTOCOL = "another"
"""Which no dialect of ours has."""

texts = st.text(max_size=8)
pieces = st.lists(texts, max_size=4)
_names = st.sampled_from(["weather", "query"])
_KINDS = (
    *("text", "text", "whole", "reasoning", "summary", "refusal", "invocation", "call", "free"),
    *("native", "image", "hosted", "result"),
)
_NATIVE = make_native(PROTOCOL, {"sealed": "yes"})


@st.composite
def events(draw: st.DrawFn) -> list[StreamEvent]:
    """Draws the events of a response, none of them completed by an assembler."""
    found: list[StreamEvent] = [ResponseStartedEvent(response_id="answer-1", model="the-model")]
    endings: list[StreamEvent] = []
    group = 0
    for index in range(draw(st.integers(0, 5))):
        group += draw(st.booleans())
        began, ending = draw(_contents(index, group))
        found += began
        # What comes without deltas comes where it stands.
        is_whole = not any(isinstance(each, ContentDeltaEvent) for each in began)
        (found if is_whole or draw(st.booleans()) else endings).append(ending)
    found += endings
    if draw(st.booleans()):
        found.append(
            UsageEvent(usage=Usage(input_tokens=draw(st.integers(0, 99)), output_tokens=7))
        )
    reason = draw(st.sampled_from(StopReason))
    if len(found) <= 2:  # nothing was said, which is no answer that was interrupted
        reason = StopReason.ANSWERED
    found.append(ResponseFinishedEvent(stop_reason=reason, native_stop_reason="word"))
    return found


@st.composite
def _contents(
    draw: st.DrawFn, index: int, group: int
) -> tuple[list[StreamEvent], ContentFinishedEvent]:
    kind = draw(st.sampled_from(_KINDS))
    start: dict[str, Any] = {"index": index, "group": group, "kind": kind}
    item: FinishedItem = None
    channel: Any = "text"
    said = draw(pieces)
    match kind:
        case "whole":
            start["kind"], item, said = "text", TextualContent(draw(texts)), []
        case "summary":
            start["kind"], channel = "reasoning", "summary"
            item = ReasoningContent(summary=("".join(said),), signature="seal", native=_NATIVE)
        case "invocation" | "call" | "free" | "hosted":
            form = "text" if kind == "free" else "json"
            owner = Owner.VENDOR if kind == "hosted" else Owner.OURS
            named = {"invocation_id": f"call-{index}", "name": draw(_names)}
            start |= {"kind": "invocation", "form": form, "owner": owner, **named}
            channel = "arguments"
            said = [write_json(draw(json_objects))] if kind == "call" else said
        case "native":
            item, said = NativeContent(kind="novelty", native=_NATIVE, text="?"), []
        case "image":
            item, said = ImageContent(mime_type="image/png", data=b"\x89PNG"), []
        case "result":
            item, said = ResultCanister("Done", invocation_id="call-x", owner=Owner.VENDOR), []
        case _:
            pass
    found: list[StreamEvent] = [ContentStartedEvent(**start)]
    found += [ContentDeltaEvent(index, piece, channel) for piece in said]
    if kind == "text" and draw(st.booleans()):
        found.append(ContentCitedEvent(index, Citation(url="https://example.org/", title="A page")))
    return found, ContentFinishedEvent(index=index, item=item)
