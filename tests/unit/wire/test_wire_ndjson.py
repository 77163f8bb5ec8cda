"""Lines of JSON: any stream, cut anywhere, gives its lines."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import LimitError
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.frames import Frame
from vibe_llms.wire.ndjson import NdjsonFramer

streams = st.lists(
    st.sampled_from([b'{"a": 1}', b"\n", b"\r\n", b" ", "é😀".encode(), b"\r", b"[]\n"]),
    max_size=16,
).map(b"".join)


@given(streams, st.lists(st.integers(0, 200), max_size=8))
def test_any_stream_cut_anywhere_gives_its_lines(stream: bytes, places: list[int]) -> None:
    """Lines without the blanks around them, and no empty ones."""
    marks = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    framer = NdjsonFramer(Limits())
    frames = []
    for start, end in itertools.pairwise(marks):
        frames += framer.feed(stream[start:end])
    pending = framer.has_pending
    last = framer.finish()
    assert pending == bool(last)
    assert not framer.has_pending
    assert frames + last == [Frame(line.strip()) for line in stream.split(b"\n") if line.strip()]


@pytest.mark.parametrize("size", [1, 9, 100_000])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_a_line_beyond_the_limit_is_an_error_that_names_it(size: int, end: bytes) -> None:
    """In whatever pieces it comes, and whether it ends or not."""
    framer = NdjsonFramer(Limits(event_bytes=50))
    stream = b"{}\n" + b"x" * 51 + end
    pieces = (stream[at : at + size] for at in range(0, len(stream), size))
    with pytest.raises(LimitError, match="event_bytes"):
        list(map(framer.feed, pieces))
