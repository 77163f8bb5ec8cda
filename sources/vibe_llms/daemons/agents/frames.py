"""Frames of server-sent events: what happens in a run, as it is told over HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from vibe_llms.agents.performing import HostedEvent
from vibe_llms.events.codec import encode_event
from vibe_llms.events.flow import VisitEvent
from vibe_llms.runs.lines import read_head
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
    data = line.data.replace(b"\r", b" ")  # by which others may set apart what they write
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (line.sequence, word.encode(), data)


def write_frames(lines: bytes) -> bytes:
    """Writes many as they stand in the log, each line with its end.

    Of lines as we write them no more is looked at than their two ends: to parse them all would
    cost twice as much as to send them.

    Raises:
        MsgspecError, UnicodeDecodeError: One of them does not read, as far as that shows.
    """
    if not lines:
        return b""
    each = lines.split(b"\n")
    each.pop()
    frames = [
        _HEADS[found[2]].join((found[1], line))
        for line in each
        if line.endswith(_ENDS) and (found := _match(line))
    ]
    # Zeros are what a crash may leave in the middle of what was never waited for; and what we write
    # has no carriage returns, behind which a client would read what follows as fields of ours.
    if len(frames) == len(each) and b"\0" not in lines and b"\r" not in lines:
        return b"id: " + b"\n\nid: ".join(frames) + b"\n\n"
    return b"".join([write_frame(read_head(line)) for line in each])


class _Heads(dict[bytes, bytes]):
    """What stands between the number and the line of each kind of event."""

    def __missing__(self, kind: bytes) -> bytes:
        word = WORDS.get(kind.decode(), kind.decode()).encode()
        head = self[kind] = b"\nevent: %b\ndata: " % word
        return head


_HEADS: Final = _Heads()
_ENDS: Final = (b"}", b"}\t")
"""Of a line, and of one that was appended together with others."""
_match: Final = re.compile(
    rb'\{"sequence":(\d+),"timestamp":"[^"]{20,32}","run_id":"[^"]*","event":\{"type":"([^"\\]{1,64})"'
).match


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
