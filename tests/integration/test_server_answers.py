"""What a client of our server gets to see: answers, in order, framed as HTTP wants it."""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar

import pytest

from support.network.serving import (
    Message,
    Receive,
    Send,
    begin_answer,
    compose_request,
    echo,
    read_body,
    send_body,
    serving,
)


async def test_a_request_reaches_the_application_and_its_answer_the_client() -> None:
    """Method, path, query, headers and body arrive as they were sent."""
    async with serving(echo) as served:
        client = await served.connect()

        answer = await client.ask(
            compose_request("POST", "/a%20b?x=%20", "X-Word: One\r\n", b"hello")
        )

        assert answer.status == 200
        assert answer.headers["content-type"] == "application/json"
        assert "date" in answer.headers
        assert "server" not in answer.headers
        assert json.loads(answer.body) == {
            "method": "POST",
            "path": "/a b",
            "query": "x=%20",
            "headers": [["host", "h"], ["x-word", "One"], ["content-length", "5"]],
            "body": "hello",
        }


async def test_a_connection_carries_one_request_after_the_other() -> None:
    """It stays open until the client says that it is the last."""
    async with serving(echo) as served:
        client = await served.connect()

        first = await client.ask(compose_request(path="/1"))
        last = await client.ask(compose_request(path="/2", headers="Connection: close\r\n"))

        assert "connection" not in first.headers
        assert last.headers["connection"] == "close"
        assert json.loads(last.body)["path"] == "/2"
        assert await client.read_all() == b""


async def test_requests_sent_at_once_are_answered_in_their_order() -> None:
    """Pipelining: also where the first takes longest."""

    async def slow_first(scope: Message, receive: Receive, send: Send) -> None:
        await read_body(receive)
        if scope["path"] == "/0":
            await asyncio.sleep(0.05)
        await begin_answer(send)
        await send_body(send, scope["path"].encode())

    async with serving(slow_first) as served:
        client = await served.connect()

        await client.write(
            b"".join(compose_request("POST", f"/{n}", body=b"x" * n) for n in range(20))
        )

        assert [(await client.read()).body for _ in range(20)] == [b"/%d" % n for n in range(20)]


async def test_requests_of_a_connection_share_neither_context_nor_scope() -> None:
    """Equal heads share what was parsed, and nothing that an application changes."""
    seen: ContextVar[str] = ContextVar("seen", default="")

    async def change(scope: Message, receive: Receive, send: Send) -> None:
        await read_body(receive)
        found = [seen.get(), "own" in scope, "own" in scope["state"], "own" in scope["extensions"]]
        found.append((b"own", b"") in scope["headers"])
        seen.set("own")
        scope["own"] = scope["state"]["own"] = scope["extensions"]["own"] = True
        scope["headers"].append((b"own", b""))
        await begin_answer(send)
        await send_body(send, json.dumps(found).encode())

    async with serving(change) as served:
        client = await served.connect()
        request = compose_request("POST", "/", body=b"x")

        answers = [await client.ask(request) for _ in range(3)]
        await client.write(request * 3)
        answers += [await client.read() for _ in range(3)]

        assert {answer.body for answer in answers} == {b'["", false, false, false, false]'}


async def test_headers_follow_the_body_where_the_application_has_announced_them() -> None:
    """Behind the last chunk; the next request on the connection finds its answer."""

    async def trail(scope: Message, receive: Receive, send: Send) -> None:
        assert "http.response.trailers" in scope["extensions"]
        await send({"type": "http.response.start", "status": 200, "trailers": True})
        await send_body(send, b"one")
        lines = [(b"x-sum", b"[1]"), (b"x-more", b"2")]
        await send({"type": "http.response.trailers", "headers": lines})

    async with serving(trail) as served:
        client = await served.connect()
        for _ in range(2):
            await client.write(compose_request())
            _, headers = await client.read_head()
            assert headers["transfer-encoding"] == "chunked"
            wanted = b"3\r\none\r\n0\r\nx-sum: [1]\r\nx-more: 2\r\n\r\n"
            assert await client.reader.readexactly(len(wanted)) == wanted


@pytest.mark.parametrize(
    "line", [(b"content-length", b"4"), (b"x-a", b"1\r\nx-b: 2"), (b"x a", b"1")]
)
async def test_a_trailer_that_frames_or_forges_cuts_the_answer(
    caplog: pytest.LogCaptureFixture, line: tuple[bytes, bytes]
) -> None:
    async def trail(scope: Message, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "trailers": True})
        await send_body(send, b"one", more=True)
        await send_body(send, b"two")
        await send({"type": "http.response.trailers", "headers": [line]})

    async with serving(trail) as served:
        client = await served.connect()
        await client.write(compose_request())
        await client.read_head()
        assert not (await client.read_all()).endswith(b"\r\n\r\n")
    assert "cannot" in caplog.text or "name" in caplog.text


async def test_an_answer_in_pieces_is_chunked() -> None:
    """Each piece goes out when it is sent; one without a length, and without an end, has none."""
    told = asyncio.Event()

    async def stream(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send)
        await send_body(send, b"one", more=True)
        await told.wait()
        await send_body(send, b"", more=True)
        await send_body(send, b"two", more=True)
        await send_body(send, b"")

    async with serving(stream) as served:
        client = await served.connect()
        await client.write(compose_request())

        _, headers = await client.read_head()
        assert headers["transfer-encoding"] == "chunked"
        assert "content-length" not in headers
        assert await client.read_chunk() == b"one"
        told.set()
        assert await client.read_chunk() == b"two"
        assert await client.read_chunk() == b""


async def test_a_failure_behind_the_beginning_looks_cut() -> None:
    """No last chunk comes: what came is not the whole."""

    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send)
        await send_body(send, b"one", more=True)
        raise ValueError("secret")

    async with serving(fail) as served:
        client = await served.connect()
        await client.write(compose_request())

        _, _ = await client.read_head()
        assert await client.read_all() == b"3\r\none\r\n"


async def test_a_failure_before_the_beginning_is_told_without_its_words() -> None:
    """A 500, and nothing of what went on inside."""

    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        raise ValueError("secret")

    async with serving(fail) as served:
        client = await served.connect()

        answer = await client.ask(compose_request())

        assert answer.status == 500
        assert answer.body == b"Internal Server Error\n"
        assert await client.read_all() == b""
