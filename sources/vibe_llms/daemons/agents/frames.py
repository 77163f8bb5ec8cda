"""Frames of server-sent events: what happens in a run, as it is told over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from vibe_llms.agents.performing import HostedEvent
from vibe_llms.events.codec import encode_event
from vibe_llms.events.flow import VisitEvent
from vibe_llms.runs.log import LogLine

WORDS: Final[Mapping[str, str]] = {
    "generation.started": "step.started",
    "generation.finished": "step.completed",
    "generation.failed": "step.failed",
    "invocation.started": "tool.started",
    "invocation.progress": "tool.progress",
    "invocation.finished": "tool.completed",
    "run.ended": "run.completed",
}
"""What events are called on the wire; all others as they are."""

VISIT_WORD: Final = "visit.event"
"""What is told of what happens within a visit of a flow, whose own log has it."""

KEPT: Final = b": still here\n\n"
DELETED: Final = b"event: run.deleted\ndata: {}\n\n"


def write_frame(line: LogLine) -> bytes:
    """Writes an event as its line stands in the log."""
    word = WORDS.get(line.word, line.word)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (line.sequence, word.encode(), line.data)


def write_piece(run_id: str, event: HostedEvent) -> bytes:
    """Writes what stands in no log, or in that of a visit: without a number.

    Raises:
        CodecError: The event holds something that JSON cannot say.
    """
    told: dict[str, object] = {"run_id": run_id}
    visits = []
    while isinstance(event, VisitEvent):  # of a visit of a subflow, too
        visits.append({"node": event.node, "visit": event.visit, "branch": event.branch})
        event = event.event
    word = WORDS.get(event.type, event.type)
    if visits:
        word, told["visits"] = VISIT_WORD, visits
    told["event"] = msgspec.Raw(encode_event(event))
    return b"event: %b\ndata: %b\n\n" % (word.encode(), msgspec.json.encode(told))
