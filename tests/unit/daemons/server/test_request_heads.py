"""A head that comes again is read as the first time, and whatever differs is parsed."""

from __future__ import annotations

import pytest

from vibe_llms.daemons.server.request_heads import Head
from vibe_llms.daemons.server.requests import RequestReader

HEAD = (
    b"POST /v1/x?a=1 HTTP/1.1\r\nHost: a\r\nX-Note: content-length: 3\r\n"
    b"Content-Length: %d\r\nAccept: */*\r\n\r\n"
)
FIRST = HEAD % 2 + b"ab"


class Sink:
    """Receiver that keeps what it received."""

    def __init__(self) -> None:
        self.requests: list[tuple[Head, bytes]] = []
        self.whole = 0
        self._head: Head | None = None
        self._body = b""

    def receive(self, head: Head, body: bytes) -> None:
        self.whole += 1
        self.requests.append((head, body))

    def begin(self, head: Head) -> None:
        self._head, self._body = head, b""

    def add_body(self, body: bytes) -> None:
        self._body += body

    def finish(self) -> None:
        assert self._head is not None
        self.requests.append((self._head, self._body))


def read(*pieces: bytes) -> tuple[Sink, list[int | bytes]]:
    sink = Sink()
    reader = RequestReader(sink, 10_000)
    return sink, [reader.feed(piece) for piece in pieces]


def describe(sink: Sink) -> list[tuple[object, ...]]:
    return [
        (head.method, head.target, head.version, head.headers, head.fields, head.keeps_alive, body)
        for head, body in sink.requests
    ]


SECOND = {
    "equal": FIRST,
    "another length": HEAD % 11 + b"hello world",
    "no body": HEAD % 0,
    "zeros": HEAD.replace(b"%d", b"005") + b"hello",
    "too short": HEAD % 4 + b"abc",
    "too long": HEAD % 2 + b"abc",
    "two at once": FIRST + FIRST,
    "a half of the next": FIRST + FIRST[:20],
    "another header": FIRST.replace(b"Accept", b"X-Accept"),
    "another path": FIRST.replace(b"/v1/x", b"/v1/y"),
    "another value": FIRST.replace(b"length: 3", b"length: 2"),
    "a repeated length": FIRST.replace(b"Accept: */*", b"Content-Length: 3"),
    "chunks": FIRST.replace(b"Accept: */*", b"Transfer-Encoding: chunked"),
    "a sign": HEAD.replace(b"%d", b"+2") + b"ab",
    "a space": HEAD.replace(b"%d", b" 2") + b"ab",
    "no digits": HEAD.replace(b"%d", b"") + b"ab",
    "letters": HEAD.replace(b"%d", b"2a") + b"ab",
    "many digits": HEAD.replace(b"%d", b"0" * 200 + b"2") + b"ab",
    "half a head": FIRST[:60],
    "nothing of it": b"\r\n",
    "the last one": FIRST.replace(b"Accept: */*", b"Connection: close"),
}


@pytest.mark.parametrize("name", SECOND)
def test_a_second_request_is_read_as_by_the_parser(name: str) -> None:
    """The parser reads it where the first request came in two pieces, and so is not known."""
    second = SECOND[name]
    known, known_outcome = read(FIRST, second, FIRST)
    parsed, parsed_outcome = read(FIRST[:30], FIRST[30:], second[:1], second[1:], FIRST)

    assert describe(known) == describe(parsed)
    assert known_outcome[-1] == parsed_outcome[-1]


def test_only_whole_requests_with_a_known_head_are_not_parsed() -> None:
    sink, _ = read(FIRST, FIRST, HEAD % 3 + b"abc", FIRST[:50], FIRST[50:], FIRST)

    assert [body for _, body in sink.requests] == [b"ab", b"ab", b"abc", b"ab", b"ab"]
    assert sink.whole == 2
    assert sink.requests[1][0] is sink.requests[0][0]
    assert sink.requests[2][0].fields["content-length"] == "3"
    assert (b"content-length", b"3") in sink.requests[2][0].headers


@pytest.mark.parametrize(
    "first",
    [
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:2\r\n\r\nab",
        b"POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: a\r\nX: %s\r\nContent-Length: 2\r\n\r\nab" % (b"x" * 5_000),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ],
)
def test_unusual_heads_are_parsed_each_time(first: bytes) -> None:
    sink, _ = read(first, first)

    assert sink.whole == 0
