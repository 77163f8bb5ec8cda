"""The lines of a run's log as they are written: to write one, and to read no more of it than is
wanted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, cast

import msgspec

from vibe_llms.events.codec import decode_event, encode_event
from vibe_llms.events.flow import LogEvent
from vibe_llms.runs.log import LoggedEvent, LogLine


class Envelope(msgspec.Struct, forbid_unknown_fields=True):
    """What surrounds an event in its line."""

    sequence: int
    timestamp: datetime
    run_id: str
    event: msgspec.Raw


class _Kind(msgspec.Struct):
    type: str


class _Head(msgspec.Struct):
    sequence: int
    event: _Kind


class _Order(msgspec.Struct):
    subject: str = ""


class _Requested(msgspec.Struct):
    event: _Order


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Envelope)
_HEAD_DECODER: Final = msgspec.json.Decoder(_Head)
_REQUEST_DECODER: Final = msgspec.json.Decoder(_Requested)


def write_line(sequence: int, timestamp: datetime, run_id: str, event: LogEvent) -> bytes:
    """Returns an event as a line of the log, without its end. Raises CodecError."""
    raw = msgspec.Raw(encode_event(event))
    return _ENCODER.encode(Envelope(sequence, timestamp, run_id, raw))


def read_envelope(data: bytes) -> Envelope:
    """Reads what surrounds an event. Raises MsgspecError, UnicodeDecodeError."""
    return _DECODER.decode(data)


def open_envelope(line: Envelope) -> LoggedEvent:
    """Reads the event in its envelope. Raises CodecError."""
    return LoggedEvent(
        sequence=line.sequence,
        timestamp=line.timestamp.astimezone(UTC),
        run_id=line.run_id,
        event=cast(LogEvent, decode_event(bytes(line.event))),
    )


def read_head(data: bytes) -> LogLine:
    """Reads what number an event has, and of what kind it is. Raises MsgspecError."""
    head = _HEAD_DECODER.decode(data)
    return LogLine(head.sequence, head.event.type, data)


def read_order_subject(data: bytes) -> str:
    """Reads on whose behalf somebody asks for a run, of ``run.requested``. Raises MsgspecError."""
    return _REQUEST_DECODER.decode(data).event.subject
