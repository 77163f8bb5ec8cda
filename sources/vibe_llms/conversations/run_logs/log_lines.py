"""Lines of a run's log: encode them, and decode only the parts that are needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

import msgspec

from vibe_llms.conversations.run_logs.log import LoggedEvent, LogLine
from vibe_llms.events.codec import decode_event, encode_event
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import CodecError
from vibe_llms.foundation.json_errors import UNREADABLE


class Envelope(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Envelope of an event in its line; see :class:`.log.LoggedEvent`."""

    sequence: int
    timestamp: datetime
    run_id: str
    event: msgspec.Raw
    kept: int = 0


class Flaw(NamedTuple):
    """Flaw of a line.

    Attributes:
        line: Its number among the lines read, from 1.
        sequence: Number of its event; the lowest possible one if lines were compacted.
        detail: Description of the flaw.
    """

    line: int
    sequence: int
    detail: str


class _Kind(msgspec.Struct):
    type: str


class _Head(msgspec.Struct):
    sequence: int
    event: _Kind


class _Order(msgspec.Struct):
    subject: str = ""


class _Requested(msgspec.Struct):
    event: _Order


_KEPT: Final = b'"kept":'
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Envelope)
_HEAD_DECODER: Final = msgspec.json.Decoder(_Head)
_REQUEST_DECODER: Final = msgspec.json.Decoder(_Requested)


def write_line(
    sequence: int, timestamp: datetime, run_id: str, event: LogEvent, kept: int = 0
) -> bytes:
    """Encode an event as a line of the log, without the line break. Raises CodecError."""
    raw = msgspec.Raw(encode_event(event))
    return _ENCODER.encode(Envelope(sequence, timestamp, run_id, raw, kept))


def read_envelope(data: bytes) -> Envelope:
    """Read the envelope of an event. Raises MsgspecError, UnicodeDecodeError."""
    return _DECODER.decode(data)


def open_envelope(line: Envelope) -> LoggedEvent:
    """Decode the event in its envelope. Raises CodecError."""
    return LoggedEvent(
        sequence=line.sequence,
        timestamp=line.timestamp.astimezone(UTC),
        run_id=line.run_id,
        event=cast(LogEvent, decode_event(bytes(line.event))),
        kept=line.kept,
    )


def write_logged(logged: LoggedEvent) -> bytes:
    """Encode a logged event as a line again. Raises CodecError."""
    return write_line(
        logged.sequence, logged.timestamp, logged.run_id, logged.event, kept=logged.kept
    )


def find_base(lines: Sequence[bytes]) -> tuple[int, int] | None:
    """Return the place and the number of the last compacted line.

    ``None`` if no lines were compacted.
    """
    for place in range(len(lines) - 1, -1, -1):
        if _KEPT in lines[place]:  # otherwise only damaged lines would be read for it
            with suppress(*UNREADABLE):
                line = read_envelope(lines[place])
                if line.kept:
                    return place, line.sequence
    return None


def read_lines(lines: Sequence[bytes], after: int = 0) -> Iterator[LoggedEvent | Flaw]:
    """Read all lines of a log after a number, and verify that none is missing between them.

    After the compacted part each number is one higher than the one before. Within it, numbers rise,
    and the last line tells how many lines were kept.
    """
    place, base = find_base(lines) or (-1, after)
    former = after
    for index, data in enumerate(lines):
        line, wanted = index + 1, base + index - place if index > place else former + 1
        try:
            logged = open_envelope(read_envelope(data))
        except (*UNREADABLE, CodecError) as error:
            yield Flaw(line, wanted, str(error))
            continue
        number, highest = logged.sequence, base if index <= place else wanted
        if index == place and not after and logged.kept != line:
            yield Flaw(line, wanted, f"it claims that {logged.kept} lines were stored before it")
        elif wanted <= number <= highest:
            yield logged
        else:
            yield Flaw(line, wanted, f"its own number is {number}")
        former = max(former, number)


def read_head(data: bytes) -> LogLine:
    """Read the number and the kind of an event. Raises MsgspecError."""
    head = _HEAD_DECODER.decode(data)
    return LogLine(head.sequence, head.event.type, data)


def read_request_subject(data: bytes) -> str:
    """Read the subject for whom a run is requested, from ``run.requested``. Raises MsgspecError."""
    return _REQUEST_DECODER.decode(data).event.subject
