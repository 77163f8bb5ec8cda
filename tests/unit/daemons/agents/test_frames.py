"""Frames of whole pieces of a log: the same as those of its lines one by one."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.agents.frames import write_frame, write_frames
from vibe_llms.events.engine import InvocationProgressEvent, RunEndedEvent
from vibe_llms.events.runs import StopRequestedEvent
from vibe_llms.runs.lines import read_head, write_line

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
