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
from vibe_llms.exceptions import CodecError, CorruptionError
from vibe_llms.foundation.json_errors import UNREADABLE


class Envelope(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A line with its event still encoded; see :class:`.log.LoggedEvent`.

    Attributes:
        kept: In the last line of the compacted part, the number of lines of this part; else 0.
    """

    sequence: int
    timestamp: datetime
    run_id: str
    event: msgspec.Raw
    kept: int = 0


class Flaw(NamedTuple):
    """An error in a line of a log.

    Attributes:
        line: Its number among the lines read, from 1.
        sequence: The expected number of its event; in the compacted part, where numbers may be
            missing, the lowest possible number.
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


class _RequestFields(msgspec.Struct):
    subject: str = ""


class _RequestLine(msgspec.Struct):
    event: _RequestFields


_KEPT: Final = b'"kept":'
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Envelope)
_HEAD_DECODER: Final = msgspec.json.Decoder(_Head)
_REQUEST_DECODER: Final = msgspec.json.Decoder(_RequestLine)


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


def open_lines(path: str, lines: bytes) -> Iterator[LoggedEvent]:
    """Decode events from lines with their line breaks.

    Args:
        path: Place of the log, for errors.

    Raises:
        CorruptionError: A line cannot be read.
    """
    for line in lines.split(b"\n")[:-1]:
        try:
            yield open_envelope(read_envelope(line))
        except UNREADABLE as error:
            raise CorruptionError(path=path, detail=f"Cannot read a line: {error}.") from error


def write_logged(logged: LoggedEvent) -> bytes:
    """Encode a logged event as a line again. Raises CodecError."""
    return write_line(
        logged.sequence, logged.timestamp, logged.run_id, logged.event, kept=logged.kept
    )


def find_base(lines: Sequence[bytes]) -> tuple[int, int] | None:
    """Return the index and the number of the last line of the compacted part.

    ``None`` if the log was not compacted.
    """
    for base_index in range(len(lines) - 1, -1, -1):
        # Checked first, as decoding each line would be slow.
        if _KEPT in lines[base_index]:
            with suppress(*UNREADABLE):
                line = read_envelope(lines[base_index])
                if line.kept:
                    return base_index, line.sequence
    return None


def read_lines(lines: Sequence[bytes], after: int = 0) -> Iterator[LoggedEvent | Flaw]:
    """Yield the events of a log's lines, and a flaw for each damaged or wrongly numbered line.

    In the compacted part, at the beginning, the numbers increase but may have gaps; ``kept`` of its
    last line is its number of lines. After it, each number is one higher than the previous one.

    Args:
        lines: All lines after one event, or the whole log.
        after: The number of that event; 0 for the whole log.
    """
    base_index, base = find_base(lines) or (-1, after)
    previous = after
    for index, data in enumerate(lines):
        line = index + 1
        is_compacted = index <= base_index
        expected = previous + 1 if is_compacted else base + index - base_index
        highest = base if is_compacted else expected
        try:
            logged = open_envelope(read_envelope(data))
        except (*UNREADABLE, CodecError) as error:
            yield Flaw(line, expected, str(error))
            continue
        number = logged.sequence
        if index == base_index and not after and logged.kept != line:
            yield Flaw(line, expected, f"it claims that {logged.kept} lines were stored before it")
        elif expected <= number <= highest:
            yield logged
        else:
            yield Flaw(line, expected, f"its own number is {number}")
        previous = max(previous, number)


def read_head(data: bytes) -> LogLine:
    """Read the number and the kind of an event. Raises MsgspecError."""
    head = _HEAD_DECODER.decode(data)
    return LogLine(head.sequence, head.event.type, data)


def read_request_subject(data: bytes) -> str:
    """Read the subject for whom a run is requested, from ``run.requested``. Raises MsgspecError."""
    return _REQUEST_DECODER.decode(data).event.subject
