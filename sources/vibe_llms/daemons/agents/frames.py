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

WIRE_NAMES: Final[Mapping[str, str]] = {
    "generation.started": "step.started",
    "generation.finished": "step.completed",
    "generation.failed": "step.failed",
    "invocation.started": "tool.started",
    "invocation.progress": "tool.progress",
    "invocation.finished": "tool.completed",
    "run.ended": "run.completed",
}
"""Names that clients receive for some events of the log; all other events keep their names."""

VISIT_EVENT: Final = "visit.event"
"""Event type for events within a visit of a flow, which are in the visit's own log."""

_LOG_EVENTS: Final = get_args(LogEvent)
_PART_EVENTS: Final = (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
)

DELETED: Final = b"event: run.deleted\ndata: {}\n\n"


def write_frame(line: LogLine) -> bytes:
    """Write a frame with a line of the log."""
    name = WIRE_NAMES.get(line.word, line.word)
    data = line.data.replace(b"\r", b" ")  # other writers may use it as whitespace
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (line.sequence, name.encode(), data)


def write_frames(lines: bytes) -> bytes:
    """Write frames from lines of the log, each with its end.

    A fast path for lines in the log's usual format examines only their ends. To handle lines one by
    one would cost more than all other work between the disk and the client.

    Raises:
        MsgspecError, UnicodeDecodeError: A line cannot be read, as far as it is examined.
    """
    if not lines:
        return b""
    # A crash may leave zeros in the middle of data that was not synced to disk. Lines of the log
    # have no carriage returns: a client would read the text after a carriage return as a field of
    # the frame.
    first = None if b"\0" in lines or b"\r" in lines else _match(lines)
    if first is not None and lines.endswith(_LINE_ENDS):
        parts = _split(lines)
        del parts[-4:]  # the end of the last line
        try:
            # Parts: data of a line, its end, number and type of the next line, its data, and so on.
            parts[3::4] = map(_get_head, parts[3::4])
            parts[1::4] = [b"\n\nid: "] * (len(parts) // 4)
            parts[:0] = b"id: ", first[1], _get_head(first[2])
            parts.append(b"\n\n")
            return b"".join(parts)
        except LookupError:
            pass
    return b"".join([write_frame(read_head(line)) for line in lines.split(b"\n")[:-1]])


class _Heads(dict[bytes | None, bytes]):
    """Cache of the text between a frame's number and its data, by type of event."""

    def __missing__(self, kind: bytes | None) -> bytes:
        if kind is None or not _is_plain(kind):
            raise LookupError
        name = WIRE_NAMES.get(kind.decode(), kind.decode())
        head = b"\nevent: %b\ndata: " % name.encode()
        if len(self) < _CACHED_KINDS:
            self[kind] = head
        return head


_CACHED_KINDS: Final = 256
_is_plain: Final = re.compile(rb"[a-z_.]{1,64}").fullmatch
_get_head: Final = _Heads().__getitem__
_LINE_ENDS: Final = (b"}\n", b"}\t\n")
"""Ends of a line, and of a line that was appended together with other lines."""
_HEAD: Final = (
    rb'\{"sequence":(\d+),"timestamp":"[^"]*","run_id":"[^"]*","event":\{"type":"([^"]*)"'
)
_match: Final = re.compile(_HEAD).match
_split: Final = re.compile(rb"(\n)(?:(?:(?<=\}\n)|(?<=\}\t\n))(?=%b))?" % _HEAD).split
"""Split at each end of a line; number and type are ``None`` unless both lines have our format."""


EVENT_STREAM: Final = LineFormat(write_frame, write_frames, b": still here\n\n")
"""Encoding of log lines for those who watch runs over HTTP."""


def is_volatile(event: HostedEvent) -> bool:
    """Return whether an event is not in the run's log, but useful to its watchers."""
    if not isinstance(event, VisitEvent):
        return isinstance(event, _PART_EVENTS)
    while isinstance(event, VisitEvent):
        event = event.event
    return isinstance(event, (*_LOG_EVENTS, *_PART_EVENTS))


def write_piece(run_id: str, event: HostedEvent) -> bytes:
    """Write a frame without a number, for an event in no log or in that of a visit.

    Raises:
        CodecError: The event contains a value that JSON cannot represent.
    """
    fields: dict[str, object] = {"run_id": run_id}
    visits = []
    while isinstance(event, VisitEvent):  # of a visit of a subflow, too
        visits.append({"node": event.node, "visit": event.visit, "branch": event.branch})
        event = event.event
    name = WIRE_NAMES.get(event.type, event.type)
    if visits:
        name, fields["visits"] = VISIT_EVENT, visits
    fields["event"] = msgspec.Raw(encode_event(event))
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(fields))
