"""Server-sent events: events of a run as frames for HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, get_args

import msgspec

from vibe_llms.agents.executing import HostedEvent
from vibe_llms.conversations.run_logs.log import LogLine
from vibe_llms.conversations.run_logs.log_lines import read_head
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
"""Names of events on the wire; all others keep their names."""

VISIT_WORD: Final = "visit.event"
"""Event type for events within a visit of a flow, which are in the visit's own log."""

_LOGGED: Final = get_args(LogEvent)
_PARTS: Final = (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
)

DELETED: Final = b"event: run.deleted\ndata: {}\n\n"


def write_frame(line: LogLine) -> bytes:
    """Write a frame with a line of the log."""
    word = WORDS.get(line.word, line.word)
    data = line.data.replace(b"\r", b" ")  # other writers may use it as whitespace
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (line.sequence, word.encode(), data)


def write_frames(lines: bytes) -> bytes:
    """Write frames from lines of the log, each with its end.

    For lines in our own format, only both ends are examined, and lines are not handled one by one:
    that would cost more than all other work between the disk and the wire.

    Raises:
        MsgspecError, UnicodeDecodeError: A line cannot be read, as far as it is examined.
    """
    if not lines:
        return b""
    # A crash may leave zeros in the middle of data that was not synced to disk. Our own lines have
    # no carriage returns: a client would read the text behind one as a field of the frame.
    first = None if b"\0" in lines or b"\r" in lines else _match(lines)
    if first is not None and lines.endswith(_ENDS):
        parts = _split(lines)
        del parts[-4:]  # the end of the last line
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
    """Cache of the text between the number and the line, by kind of event."""

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
"""Ends of a line, and of one that was appended together with others."""
_HEAD: Final = (
    rb'\{"sequence":(\d+),"timestamp":"[^"]*","run_id":"[^"]*","event":\{"type":"([^"]*)"'
)
_match: Final = re.compile(_HEAD).match
_split: Final = re.compile(rb"(\n)(?:(?:(?<=\}\n)|(?<=\}\t\n))(?=%b))?" % _HEAD).split
"""Split at each end of a line; without number and kind unless both lines are in our own format."""


EVENT_STREAM: Final = LineFormat(write_frame, write_frames, b": still here\n\n")
"""Encoding of log lines for those who watch runs over HTTP."""


def is_volatile(event: HostedEvent) -> bool:
    """Tell whether an event is not in the run's log, but useful to its watchers."""
    if not isinstance(event, VisitEvent):
        return isinstance(event, _PARTS)
    while isinstance(event, VisitEvent):
        event = event.event
    return isinstance(event, (*_LOGGED, *_PARTS))


def write_piece(run_id: str, event: HostedEvent) -> bytes:
    """Write a frame without a number, for an event in no log or in that of a visit.

    Raises:
        CodecError: The event contains a value that JSON cannot represent.
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
