"""Server-sent events: any stream, cut anywhere, gives what the rules say."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import LimitError
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.frames import Frame
from vibe_llms.wire.sse import SseFramer


@attrs.define
class Oracle:
    """The rules of the WHATWG, word for word, for a stream that is there as a whole.

    https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
    """

    frames: list[Frame] = attrs.field(factory=list)

    def interpret(self, stream: bytes) -> Oracle:
        """Decodes, cuts into lines, and follows the steps for each of them."""
        text = stream.decode("latin-1")  # bytes stay bytes; what is text is decoded where it is
        text = text.removeprefix("\xef\xbb\xbf")
        data, event = "", ""
        for line in self.cut(text):
            if line == "":
                if data:
                    self.frames.append(Frame(data[:-1].encode("latin-1"), decode(event)))
                data, event = "", ""
            elif not line.startswith(":"):
                field, colon, value = line.partition(":")
                if colon and value.startswith(" "):
                    value = value[1:]
                if field == "event":
                    event = value
                elif field == "data":
                    data += value + "\n"
        return self

    @staticmethod
    def cut(text: str) -> Iterable[str]:
        """Yields the lines that have an end: CR LF, LF or CR."""
        line = ""
        position = 0
        while position < len(text):
            character = text[position]
            position += 1
            if character in "\r\n":
                if character == "\r" and text[position : position + 1] == "\n":
                    position += 1
                yield line
                line = ""
            else:
                line += character


def decode(text: str) -> str:
    """Returns what the bytes that a text stands for say in UTF-8."""
    return text.encode("latin-1").decode("utf-8", "replace")


def feed(framer: SseFramer, pieces: Iterable[bytes]) -> list[Frame]:
    """Feeds all the pieces and ends the stream."""
    frames = [frame for piece in pieces for frame in framer.feed(piece)]
    return frames + framer.finish()


def cut_at(stream: bytes, places: Iterable[int]) -> list[bytes]:
    """Cuts a stream at places, which need neither order nor sense."""
    marks = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in itertools.pairwise(marks)]


ends = st.sampled_from([b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\n\r"])
values = st.one_of(
    st.text(alphabet="aé😀 :{}\x00", max_size=6).map(str.encode), st.sampled_from([b"12", b"-1"])
)
names = st.sampled_from(
    [b"data", b"event", b"id", b"retry", b"", b"other", b"dat", b" data", b"\xef\xbb\xbfdata"]
)
lines = st.one_of(
    st.builds(
        lambda name, colon, value: name + colon + value,
        names,
        st.sampled_from([b":", b": "]),
        values,
    ),
    st.builds(lambda value: b"data: " + value, values),
    names,
    st.just(b""),
    st.just(b": ping"),
)
streams = st.builds(
    lambda mark, rows, rest: mark + b"".join(line + end for line, end in rows) + rest,
    st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb"]),
    st.lists(st.tuples(lines, ends), max_size=14),
    st.sampled_from([b"", b"data: cut", b"event: x", b"\r"]),
)
simple_streams = st.lists(
    st.sampled_from(
        [
            b"data: {}\n\n",
            b"event: a\ndata: 1\n\n",
            b": p\n\n",
            b"\n",
            b"data: [DONE]\n\n",
            b"id: 7\n",
        ]
    ),
    max_size=12,
).map(b"".join)


@given(st.one_of(streams, simple_streams), st.lists(st.integers(0, 10_000), max_size=12))
def test_any_stream_cut_anywhere_gives_what_the_rules_say(stream: bytes, places: list[int]) -> None:
    """The frames are those of a literal reading of the rules."""
    oracle = Oracle().interpret(stream)
    framer = SseFramer(Limits())
    assert feed(framer, cut_at(stream, places)) == oracle.frames


@given(st.one_of(streams, simple_streams))
def test_a_stream_byte_by_byte_is_the_stream_at_once(stream: bytes) -> None:
    """Every cut at once: the same frames, and the same word on whether one is pending."""
    whole, pieces = SseFramer(Limits()), SseFramer(Limits())
    assert feed(whole, [stream]) == feed(pieces, (bytes([each]) for each in stream))
    assert whole.has_pending == pieces.has_pending


@pytest.mark.parametrize(
    ("stream", "frames"),
    [
        (b"data: [DONE]\n\n", [Frame(b"[DONE]")]),
        (b"data\n\ndata\ndata\n\ndata:", [Frame(b""), Frame(b"\n")]),
        (b"data:test\n\ndata: test\n\n", [Frame(b"test"), Frame(b"test")]),
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Frame(b"YHOO\n+2\n10")]),
        (b"event: a\ndata: x\n\ndata: y\n\n", [Frame(b"x", "a"), Frame(b"y")]),
        (b"event: a\n\ndata: y\n\n", [Frame(b"y")]),
        (b"\xef\xbb\xbfdata: x\r\n\r\n", [Frame(b"x")]),
        (b"data:  two\n\n", [Frame(b" two")]),
        (b"data: \xf0\x9f\x98\x80\n\n", [Frame("😀".encode())]),
        (b"data: \xff\n\n", [Frame(b"\xff")]),
        (b"data: x\n", []),
    ],
)
def test_the_examples_of_the_rules(stream: bytes, frames: list[Frame]) -> None:
    """The examples in the text of the rules, and what vendors send."""
    assert feed(SseFramer(Limits()), [stream]) == frames


def test_a_line_feed_after_a_return_ends_no_second_line() -> None:
    """Though a piece of the stream ends between the two."""
    stream = b"event: a\r\ndata: x\r\ndata: y\r\n\r\n"
    assert feed(SseFramer(Limits()), (bytes([each]) for each in stream)) == [Frame(b"x\ny", "a")]


def test_an_event_that_was_not_ended_is_pending_and_not_returned() -> None:
    """Whoever reads the stream can tell that it was cut."""
    framer = SseFramer(Limits())
    assert not framer.has_pending
    assert framer.feed(b"data: a\n\ndata: b\n") == [Frame(b"a")]
    assert framer.has_pending
    assert framer.finish() == []
    assert framer.feed(b"\n") == [Frame(b"b")]
    assert not framer.has_pending


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_an_event_that_lacks_nothing_but_its_end_is_there_at_the_end(end: bytes, size: int) -> None:
    """Some servers do not end the last one, and data that close a bracket are mostly whole."""
    stream = b'event: a\ndata: {"x": 1}\n\nevent: z\ndata: {"y":\ndata: [2]}' + end
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    framer = SseFramer(Limits())
    assert feed(framer, pieces) == [Frame(b'{"x": 1}', "a"), Frame(b'{"y":\n[2]}', "z")]
    assert not framer.has_pending


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 10_000 + b"\n\n",
        b"data: x\n" * 2_000 + b"\n",
        b"event: " + b"x" * 10_000 + b"\ndata: x\n\n",
        b": " + b"x" * 10_000 + b"\n",
        b"x" * 10_000,
    ],
)
def test_an_event_beyond_the_limit_is_an_error_that_names_it(stream: bytes, size: int) -> None:
    """In whatever pieces it comes, and whether it ends or not."""
    framer = SseFramer(Limits(event_bytes=2_500))
    with pytest.raises(LimitError, match="event_bytes") as caught:
        feed(framer, (stream[at : at + size] for at in range(0, len(stream), size)))
    assert caught.value.limit == "event_bytes"
    assert caught.value.value == 2_500


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece", [b"data: x\n\n", b": ping\n", b":\n\n", b"\n", b"id: 1\n", b"a: b\n"]
)
def test_tiny_events_without_end_do_not_grow_memory(piece: bytes) -> None:
    """Nothing is kept of what was returned, nor of what says nothing."""
    framer = SseFramer(Limits())
    bunch = piece * 1_000
    framer.feed(bunch)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(100):
        framer.feed(bunch)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 20_000
