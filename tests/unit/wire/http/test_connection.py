"""Cutting answers out of what comes on a connection, however it comes, and whatever it is."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.wire.http import faults
from vibe_llms.wire.http.connection import HttpConnection
from vibe_llms.wire.http.pools import Pool
from vibe_llms.wire.http.response_parser import HEAD_BYTES


class Wire(asyncio.Transport):
    """Notes what a connection does with what carries it."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.deeds: list[str] = []
        self.is_gone = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        self.deeds.append("pause")

    def resume_reading(self) -> None:
        self.deeds.append("resume")

    def is_closing(self) -> bool:
        return self.is_gone

    def abort(self) -> None:
        self.is_gone = True


@attrs.frozen
class Answer:
    """What a connection made of bytes."""

    status: int
    headers: dict[str, str]
    body: bytes
    fault: type[Exception] | None
    is_free: bool


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop that need not run."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def begin(loop: asyncio.AbstractEventLoop, *, is_bodiless: bool = False) -> HttpConnection:
    """Returns a connection that has asked."""
    connection = HttpConnection(loop, "http://x")
    connection.connection_made(Wire())
    connection.send(b"GET / HTTP/1.1\r\n\r\n", is_bodiless=is_bodiless)
    return connection


def receive(connection: HttpConnection, data: bytes) -> None:
    """Lets bytes come, as an event loop does."""
    size = len(connection.get_buffer(-1))
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        connection.get_buffer(-1)[: len(piece)] = piece
        connection.buffer_updated(len(piece))


def feed(
    loop: asyncio.AbstractEventLoop, pieces: Sequence[bytes], *, is_bodiless: bool = False
) -> Answer:
    """Feeds a connection, closes it from the other side, and returns what it made of that."""
    connection = begin(loop, is_bodiless=is_bodiless)
    body = b""
    for piece in pieces:
        if piece and not connection.transport.is_closing():
            receive(connection, piece)
            body += connection.read_buffered()
    is_free = connection.is_free
    connection.connection_lost(None)
    fault = None if connection.fault is None else type(connection.fault)
    return Answer(connection.answer.status, connection.answer.headers, body, fault, is_free)


def test_what_came_on_one_connection_stays_when_another_is_read(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """All of a thread are read into the same place."""
    head = b"HTTP/1.1 200 OK\r\nX-Name: %b\r\nContent-Length: 8\r\n\r\n%b"
    first, second = begin(loop), begin(loop)
    receive(first, head % (b"one", b"1111"))
    receive(second, head % (b"two", b"2222"))
    receive(first, b"3333")

    assert (first.read_buffered(), first.answer.headers["x-name"]) == (b"11113333", "one")
    assert (second.read_buffered(), second.answer.headers["x-name"]) == (b"2222", "two")
    assert first.get_buffer(-1) is second.get_buffer(-1)


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """Cuts bytes at places, which are taken modulo their length."""
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(ends)]


def chunk(*pieces: bytes, trailer: bytes = b"") -> bytes:
    """Frames pieces as chunks."""
    framed = b"".join(b"%x;a=b\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece)
    return framed + b"0\r\n" + trailer + b"\r\n"


BODIES = st.binary(max_size=300)
EARLY = st.sampled_from(
    [b"", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early\r\nLink: <x>\r\n\r\n" * 3]
)
HEADERS = st.sampled_from([b"", b"X-A: 1\r\n", b"x-a: 1\r\nX-A:  2 \r\n", b"Server: \xc3\xa9\r\n"])


@st.composite
def answers(draw: st.DrawFn) -> tuple[bytes, bytes, bool]:
    """Legal answers, their bodies, and whether the connection is kept after them."""
    body, early, headers = draw(BODIES), draw(EARLY), draw(HEADERS)
    framing = draw(st.sampled_from(["length", "chunked", "close", "closing", "old", "none"]))
    line = b"HTTP/1.0 200 OK\r\n" if framing == "old" else b"HTTP/1.1 200 OK\r\n"
    length = b"Content-Length: %d\r\n" % len(body)
    if framing == "none":
        return early + b"HTTP/1.1 204 Nothing\r\n" + headers + b"\r\n", b"", True
    if framing == "chunked":
        middle = draw(st.integers(0, len(body)))
        trailer = draw(st.sampled_from([b"", b"X-Late: 1\r\n"]))
        rest = chunk(body[:middle], body[middle:], trailer=trailer)
        return early + line + headers + b"Transfer-Encoding: chunked\r\n\r\n" + rest, body, True
    if framing == "close":
        return early + line + headers + b"\r\n" + body, body, False
    more = b"Connection: close\r\n" if framing == "closing" else b""
    return early + line + headers + length + more + b"\r\n" + body, body, framing == "length"


@examples(300)
@given(answers(), st.lists(st.integers(0, 2_000), max_size=12))
def test_an_answer_is_the_same_however_it_is_cut(
    loop: asyncio.AbstractEventLoop, answer: tuple[bytes, bytes, bool], places: list[int]
) -> None:
    """In one piece, in some, and byte by byte."""
    data, body, is_kept = answer

    whole = feed(loop, [data])
    some = feed(loop, cut(data, places))
    single = feed(loop, cut(data, range(len(data))))

    assert whole == some == single
    assert (whole.body, whole.fault, whole.is_free) == (body, None, is_kept)
    assert "x-late" not in whole.headers
    assert "link" not in whole.headers


@examples(300)
@given(answers(), st.data())
def test_an_answer_that_is_cut_short_is_never_taken_for_whole(
    loop: asyncio.AbstractEventLoop, answer: tuple[bytes, bytes, bool], data: st.DataObject
) -> None:
    """Unless the end of the connection is the end of the body: then nobody could know."""
    sent, body, _ = answer
    end = data.draw(st.integers(0, len(sent) - 1))

    got = feed(loop, [sent[:end]])

    assert body.startswith(got.body)
    ends_with_connection = "content-length" not in got.headers and got.status == 200
    is_chunked = "transfer-encoding" in got.headers
    if got.fault is None:
        assert got.body == body or (ends_with_connection and not is_chunked)
    else:
        assert not got.is_free


@examples(400)
@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=6))
def test_no_bytes_make_a_connection_raise(
    loop: asyncio.AbstractEventLoop, data: bytes, places: list[int]
) -> None:
    """And it is the same what they are made into, however they are cut."""
    assert feed(loop, [data]).fault == feed(loop, cut(data, places)).fault


@examples(400)
@given(answers(), st.lists(st.tuples(st.integers(0, 2_000), st.binary(max_size=3)), max_size=4))
def test_no_damage_makes_a_connection_raise(
    loop: asyncio.AbstractEventLoop,
    answer: tuple[bytes, bytes, bool],
    damages: list[tuple[int, bytes]],
) -> None:
    """Whatever is put in, or taken out, of an answer that was right."""
    data = answer[0]
    for place, added in damages:
        at = place % (len(data) + 1)
        data = data[:at] + added + data[at + (not added) :]

    assert feed(loop, [data]).body == feed(loop, cut(data, range(len(data)))).body


@pytest.mark.parametrize(
    "more", [b"HTTP/1.1 200 OK\r\nX-A: other\r\nContent-Length: 5\r\n\r\nother", b"\r\n", b"x"]
)
@pytest.mark.parametrize("is_apart", [False, True])
def test_what_follows_an_answer_belongs_to_nobody(
    loop: asyncio.AbstractEventLoop, more: bytes, is_apart: bool
) -> None:
    """It is neither part of the answer nor of the next, and the connection is not used again."""
    first = b"HTTP/1.1 200 OK\r\nX-A: first\r\nContent-Length: 5\r\n\r\nfirst"

    got = feed(loop, [first, more] if is_apart else [first + more])

    assert (got.body, got.headers["x-a"], got.fault) == (b"first", "first", None)
    assert got.is_free is (more == b"\r\n" and not is_apart)  # which means nothing to anybody


def test_what_comes_without_a_request_closes_the_connection(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """As an answer that a server gives before it is asked, for the next who asks."""
    connection = begin(loop)
    receive(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    connection.keep_idle(60)

    receive(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")

    assert connection.is_closing
    connection.connection_lost(None)


def test_a_connection_that_is_about_to_go_is_not_given_out(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Though nobody has been told yet that it is gone."""
    pool = Pool(loop)
    kept = []
    for _ in range(2):
        connection = pool.produce("http://x")
        connection.connection_made(Wire())
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
        receive(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        pool.release(connection)
        kept.append(connection)
    kept[1].transport.abort()

    assert pool.take_idle("http://x") is kept[0]
    assert pool.take_idle("http://x") is None
    for connection in kept:
        connection.connection_lost(None)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"220 smtp.example ESMTP\r\n", faults.NotHttp),
        (b"\x16\x03\x01\x02", faults.NotHttp),
        (b"HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", faults.NotHttp),
        (b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n", faults.NotHttp),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", faults.NotHttp),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            faults.NotHttp,
        ),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * HEAD_BYTES, faults.HeadTooLong),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 33_000 + b"\r\n\r\n", faults.HeadTooLong),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, faults.HeadTooLong),
        (b"HTTP/1.1 100 Go on\r\n\r\n" * 20_000, faults.HeadTooLong),
        (b"HTTP/1.1 200 OK\r\n", ConnectionError),
        (b"", ConnectionError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", faults.BodyBroken),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 2 * HEAD_BYTES,
            faults.BodyBroken,
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
            + b"".join(b"X%d: y\r\n" % number for number in range(20_000)),
            faults.BodyBroken,
        ),
    ],
)
def test_each_fault_is_of_its_kind(
    loop: asyncio.AbstractEventLoop, data: bytes, fault: type[Exception]
) -> None:
    """Whether it comes at once or in pieces; and nothing without an end is kept."""
    pieces = [data[at : at + 1_000] for at in range(0, len(data), 1_000)]

    assert feed(loop, [data]).fault is fault
    assert feed(loop, pieces).fault is fault


def test_a_fault_is_of_its_kind_within_an_exception_handler(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """As where a program starts its event loop while it handles an error."""
    data = b"HTTP/1.1 200 OK\r\nX: " + b"y" * 33_000 + b"\r\n\r\n"
    try:
        raise KeyError
    except KeyError:
        assert feed(loop, [data]).fault is faults.HeadTooLong


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "begun", [b"HTTP/1.1 200 OK\r\nX: ", CHUNKED + b"1;", CHUNKED + b"0\r\nX: "]
)
def test_what_has_no_end_and_is_no_body_is_not_listened_to_for_ever(
    loop: asyncio.AbstractEventLoop, begun: bytes
) -> None:
    """A header, what describes a chunk, and what follows the last one."""
    connection = begin(loop)
    receive(connection, begun)
    for _ in range(HEAD_BYTES // 1_000 + 1):
        receive(connection, b"x" * 1_000)

    assert connection.fault is not None
    assert connection.is_closing


def test_an_answer_without_a_body_is_over_with_its_head(loop: asyncio.AbstractEventLoop) -> None:
    """As that to HEAD, which tells a length all the same."""
    got = feed(loop, [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"], is_bodiless=True)

    assert (got.status, got.body, got.fault, got.is_free) == (200, b"", None, False)


def test_a_server_is_held_back_while_nobody_takes_what_came(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """And goes on as soon as somebody does."""
    connection = begin(loop)
    wire = connection.transport
    assert isinstance(wire, Wire)
    receive(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n")
    for _ in range(3):
        receive(connection, bytes(65_536))

    held = list(wire.deeds)
    taken = connection.read_buffered()
    for _ in range(3):
        receive(connection, bytes(65_536))

    assert held == ["pause"]
    assert len(taken) == 3 * 65_536
    assert wire.deeds == ["pause", "resume", "pause"]


def test_a_long_body_waits_for_a_server_that_takes_nothing(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """Its next piece is written when what was written is taken; then the connection is free."""
    connection = HttpConnection(loop, "http://x")
    wire = Wire()
    connection.connection_made(wire)
    body = bytes(600_000)

    connection.pause_writing()
    connection.send(b"head", body)
    assert wire.written == [b"head"]
    for _ in range(3):
        connection.resume_writing()
        connection.pause_writing()

    assert b"".join(wire.written) == b"head" + body
    receive(connection, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert connection.is_free


def test_an_answer_before_the_request_was_sent_whole_leaves_the_connection_unusable(
    loop: asyncio.AbstractEventLoop,
) -> None:
    """What is left of the body would be taken for the next request."""
    connection = HttpConnection(loop, "http://x")
    connection.connection_made(Wire())
    connection.pause_writing()
    connection.send(b"head", bytes(600_000))

    receive(connection, b"HTTP/1.1 413 Too long\r\nContent-Length: 2\r\n\r\nno")

    assert (connection.answer.status, connection.read_buffered()) == (413, b"no")
    assert connection.answer.is_complete
    assert not connection.is_free
