"""The transport within the process, the bounds of bodies, and answers of the wrong kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest

from vibe_llms.exceptions import (
    LimitError,
    RequestError,
    Stage,
    TransportError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.memory import MemoryAnswer, MemoryTransport
from vibe_llms.wire.selection import refuse_answer

REQUEST = WireRequest(url="https://vendor.example/v1?key=canary", body=b"12345")


def produce_transport(
    chunks: Iterable[bytes] | AsyncIterator[bytes] = (),
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    limits: Limits | None = None,
) -> MemoryTransport:
    """Produces a transport that always gives the same answer."""

    async def answer(request: WireRequest) -> MemoryAnswer:
        return MemoryAnswer(status=status, headers=headers or {}, chunks=chunks)

    return MemoryTransport(answer, limits=limits)


async def test_an_answer_arrives_in_the_pieces_given() -> None:
    """Status, headers by their lower names, each piece, and the end as often as one asks."""
    transport = produce_transport([b"a", b"", b"b"], status=418, headers={"Content-Type": "x/y"})
    async with await transport.send(REQUEST) as exchange:
        assert exchange.status == 418
        assert exchange.headers == {"content-type": "x/y"}
        assert [await exchange.receive() for _ in range(4)] == [b"a", b"b", b"", b""]
    await transport.close()


async def test_the_whole_body_is_read_within_the_limit_of_the_read() -> None:
    """One byte more than allowed is an error."""
    assert await (await produce_transport([b"ab", b"c"]).send(REQUEST)).read(3) == b"abc"
    exchange = await produce_transport([b"ab", b"c"]).send(REQUEST)
    with pytest.raises(LimitError):
        await exchange.read(2)


async def test_leaving_an_answer_ends_what_makes_it() -> None:
    """The generator behind the answer is closed at once."""
    closed = []

    async def generate() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"more"
        finally:
            closed.append(True)

    async with await produce_transport(generate()).send(REQUEST) as exchange:
        await exchange.receive()
        assert not closed
    assert closed
    assert await exchange.receive() == b""


async def test_bodies_beyond_their_limits_are_errors_that_name_them() -> None:
    """The request is refused before anybody sees it; the answer as soon as it is too long."""
    with pytest.raises(LimitError, match="request_bytes = 4 "):
        await produce_transport(limits=Limits(request_bytes=4)).send(REQUEST)
    transport = produce_transport([b"abc"] * 9, limits=Limits(response_bytes=8))
    exchange = await transport.send(REQUEST)
    assert await exchange.receive() + await exchange.receive() == b"abcabc"
    with pytest.raises(LimitError, match="response_bytes = 8 "):
        await exchange.receive()


@pytest.mark.parametrize(
    "url", ["ftp://x/y", "file:///etc/passwd", "nonsense", "http://", "https://[::1", "//host/x"]
)
async def test_what_is_no_http_address_is_refused(url: str) -> None:
    """And is not repeated in the error: it may hold a key."""
    with pytest.raises(RequestError) as caught:
        await produce_transport().send(WireRequest(url=f"{url}?key=canary"))
    assert "canary" not in str(caught.value)


async def test_a_redirection_is_an_error_that_says_where_to_without_the_query() -> None:
    """It is not followed, and what may be a secret is not repeated."""
    headers = {"Location": "https://user:canary@elsewhere.example:8443/login?next=canary#canary"}
    with pytest.raises(TransportError) as caught:
        await produce_transport(status=302, headers=headers).send(REQUEST)
    assert "https://elsewhere.example:8443/login" in str(caught.value)
    assert "canary" not in repr(caught.value)


async def test_a_handler_that_breaks_is_a_broken_connection() -> None:
    """Before the answer and in the middle of it; errors of ours pass."""

    async def generate() -> AsyncIterator[bytes]:
        yield b"a"
        raise ZeroDivisionError

    exchange = await produce_transport(generate()).send(REQUEST)
    assert await exchange.receive() == b"a"
    with pytest.raises(TransportError) as caught:
        await exchange.receive()
    assert caught.value.stage is Stage.FRAME

    async def refuse(request: WireRequest) -> MemoryAnswer:
        raise LimitError(limit="x")

    with pytest.raises(LimitError):
        await MemoryTransport(refuse).send(REQUEST)


async def test_an_answer_of_another_kind_is_an_error_that_shows_how_it_begins() -> None:
    """As the login page of a proxy, under status 200."""
    page = [b"<html>\n<h1>Log", b" in</h1>\x1b[2J" + b"x" * 400]
    exchange = await produce_transport(page, headers={"content-type": "text/html"}).send(REQUEST)
    beginning = await exchange.receive()
    error = await refuse_answer(exchange, ("a/b", "c/d"), beginning)
    assert "text/html, not a/b or c/d, and begins" in str(error)
    assert error.stage is Stage.FRAME
    assert "<html> <h1>Log in</h1>" in str(error)
    assert "\x1b" not in str(error)
    assert len(str(error)) < 500
    assert await exchange.receive() == b""  # it was closed


async def test_nothing_is_shown_of_an_answer_that_is_no_text() -> None:
    """Bytes of pictures tell nobody anything."""
    headers = {"content-type": "image/png"}
    exchange = await produce_transport([b"\x89PNG"], headers=headers).send(REQUEST)
    error = await refuse_answer(exchange, ("text/event-stream",))
    assert "PNG" not in str(error)


def test_a_request_shows_no_secret() -> None:
    """Its repr may stand in a log."""
    request = WireRequest(
        url="https://u:canary@x/y?key=canary",
        headers={"Authorization": Secret("canary")},
        body=b"canary",
    )
    assert "canary" not in repr(request)
    assert "https://x/y" in repr(request)
