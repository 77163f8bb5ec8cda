"""How answers are framed: lengths, chunks, none at all, and what an application gets wrong."""

from __future__ import annotations

import asyncio

import pytest

from support.network.serving import (
    Message,
    Receive,
    Send,
    begin_answer,
    compose_request,
    send_body,
    serving,
)

OLD = b"GET / HTTP/1.0\r\n\r\n"


async def test_an_answer_without_a_length_ends_with_an_old_connection() -> None:
    """HTTP/1.0 knows no chunks; and a cut is no end there, but a reset."""

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send)
        await send_body(send, b"one", more=True)
        await send_body(send, b"two", more=True)
        if scope["path"] == "/cut":
            raise ValueError("cut")
        await send_body(send, b"")

    async with serving(stream) as served:
        answer = await (await served.connect()).ask(OLD)
        assert answer.body == b"onetwo"
        assert answer.headers["connection"] == "close"

        cut = await served.connect()
        await cut.write(OLD.replace(b"/ ", b"/cut ", 1))
        with pytest.raises(ConnectionError):
            await cut.reader.read()


async def test_an_old_client_may_keep_its_connection() -> None:
    """If it says so, and the length is known."""

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send)
        await send_body(send, b"one")

    async with serving(answer) as served:
        client = await served.connect()
        for _ in range(2):
            said = await client.ask(OLD[:-2] + b"Connection: keep-alive\r\n\r\n")
            assert (said.headers["connection"], said.body) == ("keep-alive", b"one")


@pytest.mark.parametrize(
    ("method", "status", "length"),
    [("HEAD", 200, "7"), ("HEAD", 200, None), ("GET", 204, None), ("GET", 304, None)],
)
async def test_some_answers_have_no_body(method: str, status: int, length: str | None) -> None:
    """Whatever the application sends; and the connection goes on."""

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        headers = [] if length is None else [(b"content-length", length.encode())]
        await begin_answer(send, *headers, status=status)
        await send_body(send, b"one", more=True)
        await send_body(send, b"more")

    async with serving(answer) as served:
        client = await served.connect()
        for _ in range(2):
            said = await client.ask(compose_request(method), method=method)
            assert (said.status, said.headers.get("content-length")) == (status, length)


@pytest.mark.parametrize(
    ("headers", "bodies"),
    [
        ([(b"content-length", b"3")], [b"four"]),
        ([(b"content-length", b"3")], [b"on"]),
        ([(b"content-length", b"x")], [b"one"]),
        ([(b"content-length", b"3"), (b"content-length", b"4")], [b"one"]),
        ([(b"x", b"a\r\nevil: 1")], [b"one"]),
        ([(b"x\r\nevil", b"1")], [b"one"]),
        ([(b"x", b"a\0b")], [b"one"]),
        ([(b"", b"a")], [b"one"]),
    ],
)
async def test_what_would_be_framed_wrongly_is_not_sent(
    headers: list[tuple[bytes, bytes]], bodies: list[bytes]
) -> None:
    """The application is told, the client gets a 500, and nothing opens a header of its own."""

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send, *headers)
        for body in bodies:
            await send_body(send, body)

    async with serving(answer) as served:
        client = await served.connect()
        await client.write(compose_request())
        said = await asyncio.wait_for(client.read_all(), 15)

    assert said.startswith(b"HTTP/1.1 500 ")
    assert b"evil" not in said


async def test_a_body_that_is_shorter_than_was_said_looks_cut() -> None:
    """Where its beginning had gone out already."""

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send, (b"content-length", b"10"))
        await send_body(send, b"one", more=True)
        await send_body(send, b"two")

    async with serving(answer) as served:
        client = await served.connect()
        await client.write(compose_request())
        with pytest.raises(asyncio.IncompleteReadError):
            await client.read()


async def test_headers_of_a_connection_are_ours_to_write() -> None:
    """An application says only that it wants the connection closed."""

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(
            send,
            (b"Transfer-Encoding", b"chunked"),
            (b"Keep-Alive", b"timeout=5"),
            (b"Connection", b"Close"),
            (b"X-Kept", b"yes"),
        )
        await send_body(send, b"one")

    async with serving(answer) as served:
        client = await served.connect()
        said = await client.ask(compose_request())
        assert set(said.headers) == {"date", "x-kept", "content-length", "connection"}
        assert said.headers["connection"] == "close"
        assert await client.read_all() == b""


async def test_space_around_a_value_is_not_part_of_it() -> None:
    """Neither before it nor behind it; what is within stays."""
    seen: list[bytes] = []

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        seen.extend(value for name, value in scope["headers"] if name == b"x-name")
        await begin_answer(send)
        await send_body(send, b"")

    async with serving(answer) as served:
        client = await served.connect()
        await client.ask(compose_request(headers="X-Name: \t a  b \t \r\n"))
    assert seen == [b"a  b"]
