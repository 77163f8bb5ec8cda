"""Frames of whole pieces of a log: the same as those of its lines one by one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.conversations.run_logs.log_lines import read_head, write_line
from vibe_llms.daemons.agents import frames as module
from vibe_llms.daemons.agents.frames import write_frame, write_frames
from vibe_llms.events.codec import EVENT_CLASSES
from vibe_llms.events.engine import InvocationProgressEvent, RunEndedEvent
from vibe_llms.events.runs import StopRequestedEvent

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ['","event":{"type":"run.ended"', '\\"', "\\", '"event":', "\n\n", "\0"]
)
EVENTS = st.one_of(
    st.builds(StopRequestedEvent, reason=TEXTS),
    st.builds(RunEndedEvent, run_id=TEXTS, reason=st.just("answered")),
    st.builds(
        InvocationProgressEvent, key=TEXTS, invocation_id=st.just("i"), name=TEXTS, text=TEXTS
    ),
)
MOMENTS = st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC))
LINES = st.builds(
    write_line, st.integers(1, 10**12), MOMENTS, TEXTS, EVENTS, st.sampled_from([0, 0, 7])
)


@given(lines=st.lists(LINES, max_size=6), tabs=st.booleans())
def test_a_piece_is_written_as_its_lines_are(lines: list[bytes], tabs: bool) -> None:
    end = b"\t\n" if tabs else b"\n"  # as lines that were appended together have it
    piece = b"".join(line + end for line in lines)
    expected = [write_frame(read_head(line)) for line in piece.split(b"\n")[:-1]]
    assert write_frames(piece) == b"".join(expected)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**12) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), ("\t,", ":\r"), (",\r", ":")])


@st.composite
def spellings(draw: st.DrawFn) -> bytes:
    """An event of any kind, as we, an earlier version or somebody else would write its line."""
    word = draw(st.sampled_from([*EVENT_CLASSES]) | TEXTS)
    event = {"type": word} | draw(st.dictionaries(TEXTS, VALUES, max_size=2))
    moment = draw(MOMENTS).isoformat()
    fields = {
        "sequence": draw(st.integers(1, 10**12)),
        "timestamp": draw(st.sampled_from([moment, moment.replace("+00:00", "Z"), "then"])),
        "run_id": draw(TEXTS),
        "event": event,
        **draw(st.sampled_from([{}, {"kept": 7}, {"later": [{"type": "x"}]}])),
    }
    if draw(st.booleans()):
        fields = dict(draw(st.permutations([*fields.items()])))
    written = json.dumps(fields, ensure_ascii=draw(st.booleans()), separators=draw(SEPARATORS))
    before, behind = draw(st.sampled_from(["", " "])), draw(st.sampled_from(["", "\t", " ", "\r"]))
    return f"{before}{written}{behind}\n".encode()


@given(lines=st.lists(spellings(), max_size=4), ours=st.lists(LINES, max_size=3), data=st.data())
def test_whoever_wrote_a_line_its_frame_is_the_same(
    lines: list[bytes], ours: list[bytes], data: st.DataObject
) -> None:
    lines = data.draw(st.permutations([*lines, *(line + b"\n" for line in ours)]))
    expected = [write_frame(read_head(line[:-1])) for line in lines]
    assert write_frames(b"".join(lines)) == b"".join(expected)


LINE = write_line(
    1, datetime(2000, 1, 1, tzinfo=UTC), "r", StopRequestedEvent(reason='{"type":"x"}')
)
KIND = b"run.stop_requested"


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("kind", ["new.kind", "", "a-b", "A", '"', "\\", "\t", "é", "x" * 65])
def test_a_kind_that_nobody_knows_is_told_as_it_is(kind: str, place: int) -> None:
    lines = [LINE] * 3
    lines[place] = LINE.replace(KIND, json.dumps(kind)[1:-1].encode(), 1)
    expected = [write_frame(read_head(line)) for line in lines]
    assert write_frames(b"".join(line + b"\n" for line in lines)) == b"".join(expected)


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize(
    "odd",
    [
        LINE[:-2] + b'"',
        LINE[:-30] + b"\0" * 29 + b"}",
        LINE[:40] + b'"}',
        LINE.replace(b'"sequence":1', b'"sequence":"1"'),
        LINE[1:],
        b"",
    ],
)
def test_what_is_damaged_is_told_wherever_it_stands(odd: bytes, place: int) -> None:
    lines = [LINE] * 3
    lines[place] = odd
    with pytest.raises(msgspec.MsgspecError):
        write_frames(b"".join(line + b"\n" for line in lines))


def test_no_line_of_ours_is_read_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of none of the kinds that there are: what millions have is done for all of a piece."""
    lines = [LINE.replace(KIND, each.encode(), 1) for each in EVENT_CLASSES]
    lines += [each + b"\t" for each in lines]  # a piece may end amid what was appended together
    expected = [write_frame(read_head(line)) for line in lines]
    monkeypatch.delattr(module, "read_head")
    for _ in range(2):  # of kinds that are known by then, too
        assert write_frames(b"\n".join(lines) + b"\n") == b"".join(expected)


@given(lines=st.lists(LINES, min_size=1, max_size=3), data=st.data())
def test_what_is_not_as_we_write_it_is_read_or_told(
    lines: list[bytes], data: st.DataObject
) -> None:
    """Other programs may write JSON otherwise; what is none is not passed on."""
    index = data.draw(st.integers(0, len(lines) - 1))
    zeros = lines[index][:-4] + b"\0" * 4
    blank = data.draw(st.sampled_from([b" ", b"\r"]))
    other = msgspec.json.format(lines[index], indent=1).replace(b"\n", blank)
    lines[index] = b" " + other
    piece = b"".join(line + b"\n" for line in lines)
    assert write_frames(piece).count(b"\n\nid: ") == len(lines) - 1
    assert b"\r" not in write_frames(piece)
    damaged = data.draw(st.sampled_from([zeros, b"", b"{}", b"\0" * 9, b"xx"]))
    lines[index] = damaged
    with pytest.raises(msgspec.MsgspecError):
        write_frames(b"".join(line + b"\n" for line in lines))


@given(lines=st.lists(LINES, min_size=1, max_size=3), data=st.data())
def test_what_is_cut_or_breaks_lines_is_told_though_it_begins_well(
    lines: list[bytes], data: st.DataObject
) -> None:
    """A client would take what stands behind a carriage return for a field of the stream's."""
    index = data.draw(st.integers(0, len(lines) - 1))
    line = lines[index]
    broken = line.replace(b'","event":', b'\rid: 9","event":')
    longer = line.replace(b"}", b',"x":"y\rid: 9"}')
    lines[index] = data.draw(st.sampled_from([line[:-2] + b'"', line + b"x", broken, longer]))
    with pytest.raises(msgspec.MsgspecError):
        write_frames(b"".join(line + b"\n" for line in lines))
