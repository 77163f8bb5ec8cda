"""What a client may take of our server, in bytes and in time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

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
from vibe_llms.daemons.server.exchange import BUFFER_BYTES


async def test_a_long_head_is_refused() -> None:
    """431, whether it comes at once, in pieces or never to its end."""
    async with serving(echo, header_bytes=2_048) as served:
        for pieces in (1, 50):
            client = await served.connect()
            request = compose_request(headers=f"X: {'x' * 3_000}\r\n")
            with contextlib.suppress(ConnectionError):
                for at in range(0, len(request), len(request) // pieces):
                    await client.write(request[at : at + len(request) // pieces])
                    await asyncio.sleep(0)
            assert (await client.read()).status == 431
            assert await client.read_all() == b""
        client = await served.connect()
        await client.write(b"GET / HTTP/1.1\r\nX: " + b"x" * 3_000)
        assert (await client.read()).status == 431


async def test_endless_descriptions_of_chunks_are_refused() -> None:
    """What is no body has a bound, too."""
    async with serving(echo, header_bytes=2_048) as served:
        client = await served.connect()
        await client.write(
            compose_request("POST", headers="Transfer-Encoding: chunked\r\n") + b"3;x="
        )
        for _ in range(30):
            with contextlib.suppress(ConnectionError):
                await client.write(b"x" * 100)
            await asyncio.sleep(0.001)

        assert (await client.read()).status == 400


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HT", 408),
        (compose_request("POST", headers="Content-Length: 5\r\n") + b"hel", 408),
        (b"", None),
        (compose_request(), 200),
    ],
    ids=["head", "body", "nothing", "rest"],
)
async def test_who_dawdles_is_sent_away(sent: bytes, status: int | None) -> None:
    """In the head and in the body with a word, before and after a request without one."""
    head = 20 if status == 200 else 0.2  # it may take a moment until a whole one is sent
    async with serving(echo, head_seconds=head, body_seconds=0.2, idle_seconds=0.2) as served:
        client = await served.connect()
        await client.write(sent)

        answer = await asyncio.wait_for(client.read_all(), 15)

        assert answer.startswith(b"HTTP/1.1 %d " % status if status else b"")
        assert answer.count(b"HTTP/1.1") == (1 if status else 0)


async def test_bytes_one_by_one_win_no_time() -> None:
    """The time of a head is that of the whole head."""
    async with serving(echo, head_seconds=0.3) as served:
        client = await served.connect()

        async def drip() -> None:
            with contextlib.suppress(ConnectionError):
                for byte in compose_request(headers="X: y\r\n" * 100):
                    await client.write(bytes([byte]))
                    await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        answer = await asyncio.wait_for(client.read_all(), 15)
        dripping.cancel()

        assert answer.startswith(b"HTTP/1.1 408 ")


async def test_an_answer_that_takes_too_long_is_refused_or_cut() -> None:
    """And the application is ended."""
    ended = []

    async def dawdle(scope: Message, receive: Receive, send: Send) -> None:
        if scope["path"] == "/begun":
            await begin_answer(send)
            await send_body(send, b"one", more=True)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(scope["path"])

    async with serving(dawdle, total_seconds=0.2) as served:
        for path, found in (("/", b"HTTP/1.1 503 "), ("/begun", b"\r\n3\r\none\r\n")):
            client = await served.connect()
            await client.write(compose_request(path=path))
            answer = await asyncio.wait_for(client.read_all(), 15)
            assert found in answer
            assert b"0\r\n\r\n" not in answer
        assert ended == ["/", "/begun"]


async def test_who_does_not_take_an_answer_is_cut_off() -> None:
    """The application is held back meanwhile, and is told in the end."""
    sent = 0
    over = asyncio.Event()

    async def flood(scope: Message, receive: Receive, send: Send) -> None:
        nonlocal sent
        await begin_answer(send)
        try:
            while True:
                await send_body(send, b"x" * 65_536, more=True)
                sent += 1
        except ConnectionError:
            over.set()

    async with serving(flood, idle_seconds=0.3) as served:
        client = await served.connect(limit=1_024)
        await client.write(compose_request())

        await asyncio.wait_for(over.wait(), 15)

        assert sent < 400  # what the system's buffers hold


@pytest.mark.slow
async def test_a_body_that_nobody_takes_is_not_read() -> None:
    """The client is held back until the application takes it, and loses no time by that."""
    go = asyncio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        body = await read_body(receive)
        await begin_answer(send)
        await send_body(send, b"%d" % len(body))

    size = 30_000_000
    async with serving(wait, body_seconds=1.0) as served:
        client = await served.connect()
        client.writer.write(compose_request("POST", headers=f"Content-Length: {size}\r\n"))
        client.writer.write(bytes(size))
        await asyncio.sleep(1.5)  # longer than a body may take
        (connection,) = served.server.connections
        assert connection.buffered < 1_000_000
        go.set()

        assert (await client.read()).body == b"%d" % size


async def test_connections_above_the_bound_are_told() -> None:
    """503 where all are being answered; and as soon as one goes, another is served."""
    release = asyncio.Event()

    async def hold(scope: Message, receive: Receive, send: Send) -> None:
        if scope["path"] == "/held":
            await release.wait()
        await echo(scope, receive, send)

    async with serving(hold, connections=2) as served:
        first, second = [await served.connect() for _ in range(2)]
        for each in (first, second):
            await each.write(compose_request("GET", "/held"))
        await served.wait_until(
            lambda: all(each.waiting_since is None for each in served.server.connections)
        )

        third = await served.connect()
        answer = await third.ask(compose_request())
        assert (answer.status, answer.headers["connection"]) == (503, "close")
        assert await third.read_all() == b""
        third.leave()
        first.leave()
        await served.wait_until(lambda: len(served.server.connections) < 2)

        assert (await (await served.connect()).ask(compose_request())).status == 200
        release.set()
        assert (await second.read()).status == 200


@pytest.mark.parametrize("begun", [b"", b"GET / HT"])
async def test_who_asks_nothing_makes_room_for_who_comes(begun: bytes) -> None:
    """Whoever keeps connections and says nothing, or never comes to an end, keeps nobody out."""
    async with serving(echo, connections=2) as served:
        first, second = [await served.connect() for _ in range(2)]
        assert (await first.ask(compose_request())).status == 200
        assert (await second.ask(compose_request())).status == 200
        await first.write(begun)
        await served.wait_until(
            lambda: not begun or not all(each.is_between for each in served.server.connections)
        )

        third = await served.connect()
        assert (await third.ask(compose_request())).status == 200
        assert await first.read_all() == b""
        assert (await second.ask(compose_request())).status == 200


async def test_a_client_that_expects_is_invited() -> None:
    """The body comes when the application wants it; another expectation is refused."""
    async with serving(echo) as served:
        client = await served.connect()
        await client.write(
            compose_request("POST", headers="Expect: 100-continue\r\nContent-Length: 2\r\n")
        )
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert b'"hi"' in (await client.ask(b"hi")).body

        assert (await client.ask(compose_request(headers="Expect: miracles\r\n"))).status == 417


async def test_who_is_answered_before_the_body_has_come_is_still_heard_out() -> None:
    """The answer reaches the client though it goes on sending; then the connection is closed."""

    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send, status=413)
        await send_body(send, b"too much")

    async with serving(refuse) as served:
        client = await served.connect()
        await client.write(compose_request("POST", headers="Content-Length: 9000000\r\n"))
        answer = await client.read()
        with contextlib.suppress(ConnectionError):
            for _ in range(90):
                await client.write(bytes(100_000))

        assert (answer.status, answer.body) == (413, b"too much")
        assert answer.headers["connection"] == "close"


@pytest.mark.slow
async def test_a_client_that_waits_to_be_invited_loses_no_time() -> None:
    """Its body is not late while the application does not want it yet."""

    async def dawdle(scope: Message, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0.8)
        body = await read_body(receive)
        await begin_answer(send)
        await send_body(send, body)

    async with serving(dawdle, body_seconds=0.3) as served:
        client = await served.connect()
        await client.write(
            compose_request("POST", headers="Expect: 100-continue\r\nContent-Length: 2\r\n")
        )
        invited = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), 15)
        assert invited == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.write(b"ok")
        assert (await client.read()).body == b"ok"

        await client.write(
            compose_request("POST", headers="Expect: 100-continue\r\nContent-Length: 2\r\n")
        )
        late = await asyncio.wait_for(client.read_all(), 15)
        assert b"HTTP/1.1 408 " in late  # invited, it has to come


@pytest.mark.slow
async def test_a_body_behind_another_that_nobody_takes_loses_no_time() -> None:
    """Nothing is read meanwhile, whichever body it is of."""
    go = asyncio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        await go.wait()
        body = await read_body(receive)
        await begin_answer(send)
        await send_body(send, b"%d" % len(body))

    async with serving(wait, body_seconds=0.3) as served:
        client = await served.connect()
        first = compose_request("POST", body=bytes(BUFFER_BYTES + 1))
        await client.write(first + compose_request("POST", headers="Content-Length: 4\r\n") + b"ab")
        await asyncio.sleep(0.8)
        go.set()
        assert (await asyncio.wait_for(client.read(), 15)).body == b"%d" % (BUFFER_BYTES + 1)
        await client.write(b"cd")
        assert (await asyncio.wait_for(client.read(), 15)).body == b"4"


async def test_an_application_may_answer_before_its_task_is_known() -> None:
    """As tasks do that begin at once (Python 3.12); the connection lasts, and nothing is kept."""
    loop = asyncio.get_running_loop()
    begun = []

    def begin_at_once(loop: asyncio.AbstractEventLoop, coroutine: Any) -> Any:
        """Runs what does not wait at once, as ``asyncio.eager_task_factory`` does."""
        if coroutine.__qualname__ != "Exchange.run":
            return asyncio.Task(coroutine, loop=loop)
        begun.append(coroutine)
        with contextlib.suppress(StopIteration):
            coroutine.send(None)
        return asyncio.Task(asyncio.sleep(0), loop=loop)

    async def answer(scope: Message, receive: Receive, send: Send) -> None:
        await begin_answer(send)
        await send_body(send, b"x")

    loop.set_task_factory(begin_at_once)
    try:
        async with serving(answer) as served:
            client = await served.connect()
            for _ in range(3):
                told = await client.ask(compose_request())
                assert told.body == b"x"
                assert "connection" not in told.headers
            assert served.server._service is not None
            await served.wait_until(lambda: not served.server._service.tasks)
    finally:
        loop.set_task_factory(None)


async def test_a_client_that_does_not_wait_to_be_invited_has_no_time_for_that() -> None:
    """A body that begins uninvited has to come, like any."""
    async with serving(echo, body_seconds=0.3) as served:
        client = await served.connect()
        headers = "Expect: 100-continue\r\nContent-Length: 2\r\n"
        await client.write(compose_request("POST", headers=headers) + b"o")
        late = await asyncio.wait_for(client.read_all(), 15)

        assert late.startswith(b"HTTP/1.1 408 ")
