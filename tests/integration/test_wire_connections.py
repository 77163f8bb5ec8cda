"""What the direct transport does with its connections: kept, left, closed, cancelled anywhere."""

from __future__ import annotations

import asyncio
import gc
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import trustme

from support.network.wire_servers import Connection, Server, echo, serve, stall, stall_within
from vibe_llms.exceptions import RequestError, TransportError
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.direct import DirectTransport
from vibe_llms.wire.exchanges import Timeouts, WireRequest
from vibe_llms.wire.http import pools

QUICK = Timeouts(connect_seconds=20, first_byte_seconds=20, between_chunks_seconds=20)
Handler = Callable[[Connection], Awaitable[None]]


@pytest.fixture
async def transport() -> AsyncIterator[DirectTransport]:
    """A transport with the usual limits, closed at the end."""
    transport = DirectTransport(limits=Limits(), timeouts=QUICK, trust_environment=False)
    yield transport
    await transport.close()


async def fetch(transport: DirectTransport, server: Server, **more: object) -> bytes:
    """Sends a request and reads all of its answer."""
    request = WireRequest(url=f"{server.url}/x", **({"body": b"hello"} | more))  # type: ignore[arg-type]
    async with await transport.send(request) as exchange:
        return await exchange.read()


def write(*answers: bytes) -> Handler:
    """Makes a server that answers each request with bytes, then closes."""

    async def handle(connection: Connection) -> None:
        for each in answers:
            await connection.read_request()
            await connection.write(each)

    return handle


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nold", b"old"),
        (b"HTTP/1.1 204 Nothing\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\ncontent-length: 4\n\nbare", b"bare"),
    ],
)
async def test_answers_come_in_many_forms(
    transport: DirectTransport, answer: bytes, body: bytes
) -> None:
    """What comes before the answer is passed by; its body may end with the connection."""
    if answer.startswith(b"HTTP/1.1 100"):
        answer, body = answer + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody", b"body"
    async with serve(write(answer)) as server:
        assert await fetch(transport, server) == body


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokmore",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
        b"okHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
    ],
)
async def test_a_connection_that_may_not_be_kept_is_not(
    transport: DirectTransport, answer: bytes
) -> None:
    """The server says so, or has sent more than its answer: the next who asks never sees it."""
    async with serve(write(answer)) as server:
        assert [await fetch(transport, server) for _ in range(3)] == [b"ok"] * 3
        assert [len(each.requests) for each in server.connections] == [1, 1, 1]


async def test_a_connection_that_the_server_has_closed_is_not_used(
    transport: DirectTransport,
) -> None:
    """Between two requests, which is no error."""
    async with serve(write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as server:
        for number in range(1, 4):
            assert await fetch(transport, server) == b"ok"
            await server.connections[-1].closed.wait()
            await asyncio.sleep(0.01)  # the end has gone from there to here
            assert len(server.connections) == number


async def test_a_connection_that_nobody_uses_is_closed(
    transport: DirectTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some time; the next request makes another."""
    monkeypatch.setattr(pools, "_IDLE_SECONDS", 0.02)
    async with serve(echo) as server:
        assert await fetch(transport, server) == b"hello"
        await server.connections[0].closed.wait()
        assert await fetch(transport, server) == b"hello"
        assert len(server.connections) == 2


async def test_what_comes_unasked_is_never_an_answer(transport: DirectTransport) -> None:
    """It closes the connection that it came on."""
    unasked = asyncio.Event()

    async def push(connection: Connection) -> None:
        await connection.read_request()
        await connection.answer(b"mine")
        await unasked.wait()
        await connection.answer(b"evil")
        await connection.wait_closed()

    async with serve(push) as server:
        assert await fetch(transport, server) == b"mine"
        unasked.set()
        await server.connections[0].closed.wait()
        assert await fetch(transport, server) == b"mine"


async def test_an_answer_may_come_before_the_request_is_sent_whole(
    transport: DirectTransport,
) -> None:
    """It is received, the rest is not sent, and the connection not kept."""

    async def refuse(connection: Connection) -> None:
        await connection.reader.readuntil(b"\r\n\r\n")
        await connection.answer(b"too long", status="413 Too Long")
        await connection.wait_closed()

    async with serve(refuse) as server:
        request = WireRequest(url=server.url, body=bytes(20_000_000))
        async with await transport.send(request) as exchange:
            assert (exchange.status, await exchange.read()) == (413, b"too long")
        await server.connections[0].closed.wait()


async def test_an_answer_may_run_beside_the_request(transport: DirectTransport) -> None:
    """Both are streamed at once: neither waits for the other to end."""

    async def mirror(connection: Connection) -> None:
        await connection.reader.readuntil(b"\r\n\r\n")
        await connection.begin()
        left = 20_000_000
        while left:
            data = await connection.reader.read(65_536)
            left -= len(data)
            await connection.send_chunk(b"%d" % len(data))
        await connection.send_chunk(b"")
        await connection.wait_closed()

    async with serve(mirror) as server:
        request = WireRequest(url=server.url, body=bytes(20_000_000))
        async with await transport.send(request) as exchange:
            assert (await exchange.read()).startswith(b"65536")


async def test_an_answer_to_head_has_no_body(transport: DirectTransport) -> None:
    """Though it says how long it would be."""
    async with serve(write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")) as server:
        assert await fetch(transport, server, method="HEAD", body=b"") == b""


async def test_who_asks_may_stand_in_the_address(transport: DirectTransport) -> None:
    """It goes where such words go; beside another, nothing is sent and neither shown."""
    async with serve(echo) as server:
        url = server.url.replace("://", "://somebody:canary@")
        async with await transport.send(WireRequest(url=url)) as exchange:
            await exchange.read()
        assert server.connections[0].requests[0][1]["authorization"] == "Basic c29tZWJvZHk6Y2FuYXJ5"
        headers = {"Authorization": Secret("canary")}
        with pytest.raises(RequestError) as caught:
            await transport.send(WireRequest(url=url, headers=headers))
        assert "canary" not in f"{caught.value!r}{caught.value.__cause__!r}"


@pytest.mark.parametrize(
    "url", ["http://a b/", "http://localhost/\n", "http://a..b/", "http://é:1"]
)
async def test_an_address_that_cannot_be_written_is_an_error(
    transport: DirectTransport, url: str
) -> None:
    """Of the request where it can never be sent; of the name where nobody has it."""
    with pytest.raises((RequestError, TransportError)) as caught:
        await transport.send(WireRequest(url=url))
    assert caught.value.stage in ("send", "connect")


@pytest.mark.parametrize(
    ("headers", "body", "words"),
    [
        ("Content-Encoding: br\r\n", b"xyz", "compresses its answer with 'br'"),
        ("Content-Encoding: gzip\r\n", b"no gzip at all", "broke off"),
        ("Content-Encoding: gzip\r\n", gzip.compress(b"hello", mtime=0)[:-4], "broke off"),
        ("Content-Encoding: deflate\r\n", b"no deflate", "broke off"),
    ],
)
async def test_a_body_that_cannot_be_unpacked_is_an_error(
    transport: DirectTransport, headers: str, body: bytes, words: str
) -> None:
    """Packed as nobody asked for, damaged, or cut short; and the connection is not kept."""

    async def answer(connection: Connection) -> None:
        await connection.read_request()
        await connection.answer(body, headers=headers)
        await connection.wait_closed()

    async with serve(answer) as server:
        with pytest.raises(TransportError, match=words):
            await fetch(transport, server)
        await server.connections[0].closed.wait()


async def test_closing_closes_the_socket_before_anything_else_runs(
    transport: DirectTransport,
) -> None:
    """After one turn of the event loop there is none: what was cancelled costs no token more."""

    async with serve(stall_within) as server:
        exchange = await transport.send(WireRequest(url=server.url))
        assert exchange._connection is not None
        connection = exchange._connection
        found = connection.transport.get_extra_info("socket")
        await exchange.close()
        await asyncio.sleep(0)
        assert (connection.is_lost, found.fileno()) == (True, -1)


async def test_whoever_is_cancelled_while_receiving_has_left(transport: DirectTransport) -> None:
    """Without closing the answer: a piece may have been lost on the way."""

    async with serve(stall) as server:
        exchange = await transport.send(WireRequest(url=server.url))
        receiving = asyncio.create_task(exchange.receive())
        await asyncio.sleep(0)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        await server.connections[0].closed.wait()
        with pytest.raises(TransportError, match="closed"):
            await exchange.receive()


@pytest.mark.slow
async def test_an_answer_that_is_forgotten_is_left(transport: DirectTransport) -> None:
    """Whoever neither reads nor closes it keeps no connection open."""

    async with serve(stall) as server:
        exchange = await transport.send(WireRequest(url=server.url))
        del exchange
        gc.collect()
        await server.connections[0].closed.wait()


async def test_closing_a_transport_ends_what_is_under_way(transport: DirectTransport) -> None:
    """Whoever waits is told; nothing is left open."""

    async with serve(stall_within) as server:
        exchange = await transport.send(WireRequest(url=server.url))
        assert await exchange.receive() == b"x"
        waiting = asyncio.create_task(exchange.receive())
        await asyncio.sleep(0)
        await transport.close()
        with pytest.raises(TransportError, match="closed"):
            await waiting
        await server.connections[0].closed.wait()


async def test_two_tasks_do_not_wait_for_one_answer(transport: DirectTransport) -> None:
    """The second is told; neither hangs."""

    async with serve(stall) as server:
        exchange = await transport.send(WireRequest(url=server.url))
        first = asyncio.create_task(exchange.receive())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="two tasks"):
            await exchange.receive()
        with pytest.raises(TransportError):
            await first


# Cancelled anywhere


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """An authority that nobody knows."""
    return trustme.CA()


async def tunnel(connection: Connection) -> None:
    """A proxy that makes tunnels."""
    line, _, _ = await connection.read_request()
    host, port = line.split(" ")[1].split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    await connection.write(b"HTTP/1.1 200 Go on\r\n\r\n")

    async def pump(source: asyncio.StreamReader, goal: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            goal.write(data)

    pumps = {pump(connection.reader, writer), pump(reader, connection.writer)}
    tasks = [asyncio.create_task(each) for each in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.transport.abort()
        connection.writer.transport.abort()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["plain", "tls", "proxy"])
async def test_cancelling_anywhere_leaves_nothing_behind(
    authority: trustme.CA, tmp_path: Path, way: str
) -> None:
    """After each turn of the event loop in turn: no connection, no task; and the next succeeds."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))

    async def work(transport: DirectTransport, server: Server) -> bytes:
        return await fetch(transport, server, body=bytes(300_000))

    async with (
        serve(tunnel) as proxy,
        serve(echo, tls=None if way == "plain" else context) as server,
    ):
        transport = DirectTransport(
            limits=Limits(),
            timeouts=QUICK,
            trust_environment=False,
            proxy=proxy.url if way == "proxy" else None,
            certificate_authorities=path,
        )
        turns, ended = 0, False
        while not ended:
            task = asyncio.create_task(work(transport, server))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            try:
                assert await task == bytes(300_000)
                ended = True
            except asyncio.CancelledError:
                for _ in range(3):
                    await asyncio.sleep(0)
                assert [pool._all for pool in transport._pools.values() if pool._all] == []
            turns += 1 if turns < 40 else 7
        assert await work(transport, server) == bytes(300_000)
        assert turns > 10
        await transport.close()
    assert {each.get_name() for each in asyncio.all_tasks() - {asyncio.current_task()}} == set()
