"""Frames of server-sent events: what happens in a run, as it is told over HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, get_args

import msgspec

from vibe_llms.agents.executing import HostedEvent
from vibe_llms.conversations.run_logs.lines import read_head
from vibe_llms.conversations.run_logs.log import LogLine
from vibe_llms.events.codec import encode_event
from vibe_llms.events.flow import LogEvent, VisitEvent
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
)
from vibe_llms.runs.subscriptions import LineFormat

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

_LOGGED: Final = get_args(LogEvent)
_PARTS: Final = (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
)

DELETED: Final = b"event: run.deleted\ndata: {}\n\n"


def write_frame(line: LogLine) -> bytes:
    """Writes an event as its line stands in the log."""
    word = WORDS.get(line.word, line.word)
    data = line.data.replace(b"\r", b" ")  # by which others may set apart what they write
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (line.sequence, word.encode(), data)


def write_frames(lines: bytes) -> bytes:
    """Writes many as they stand in the log, each line with its end.

    Of lines as we write them no more is looked at than their two ends, and no line is handled by
    itself: that would cost more than all else on the way from the disk to the wire.

    Raises:
        MsgspecError, UnicodeDecodeError: One of them does not read, as far as that shows.
    """
    if not lines:
        return b""
    # Zeros are what a crash may leave in the middle of what was never waited for; and what we write
    # has no carriage returns, behind which a client would read what follows as fields of ours.
    first = None if b"\0" in lines or b"\r" in lines else _match(lines)
    if first is not None and lines.endswith(_ENDS):
        parts = _split(lines)
        del parts[-4:]  # the last end of a line, with nothing behind it
        try:
            # A line, its end, number and kind of the next, that line, and so on.
            parts[3::4] = map(_get_head, parts[3::4])
            parts[1::4] = [b"\n\nid: "] * (len(parts) // 4)
            parts[:0] = b"id: ", first[1], _get_head(first[2])
            parts.append(b"\n\n")
            return b"".join(parts)
        except LookupError:
            pass
    return b"".join([write_frame(read_head(line)) for line in lines.split(b"\n")[:-1]])


class _Heads(dict[bytes | None, bytes]):
    """What stands between the number and the line of each kind of event."""

    def __missing__(self, kind: bytes | None) -> bytes:
        if kind is None or not _is_plain(kind):
            raise LookupError
        word = WORDS.get(kind.decode(), kind.decode()).encode()
        head = b"\nevent: %b\ndata: " % word
        if len(self) < _KNOWN:
            self[kind] = head
        return head


_KNOWN: Final = 256
_is_plain: Final = re.compile(rb"[a-z_.]{1,64}").fullmatch
_get_head: Final = _Heads().__getitem__
_ENDS: Final = (b"}\n", b"}\t\n")
"""Of a line, and of one that was appended together with others."""
_HEAD: Final = (
    rb'\{"sequence":(\d+),"timestamp":"[^"]*","run_id":"[^"]*","event":\{"type":"([^"]*)"'
)
_match: Final = re.compile(_HEAD).match
_split: Final = re.compile(rb"(\n)(?:(?:(?<=\}\n)|(?<=\}\t\n))(?=%b))?" % _HEAD).split
"""At each end of a line; without number and kind where the lines on both sides are not as ours."""


EVENT_STREAM: Final = LineFormat(write_frame, write_frames, b": still here\n\n")
"""Encoding of log lines for those who watch runs over HTTP."""


def is_volatile(event: HostedEvent) -> bool:
    """Tell whether an event is in no log of the run, and of use to those who watch it."""
    if not isinstance(event, VisitEvent):
        return isinstance(event, _PARTS)
    while isinstance(event, VisitEvent):
        event = event.event
    return isinstance(event, (*_LOGGED, *_PARTS))


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
