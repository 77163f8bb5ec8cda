"""The direct transport against servers on loopback: connections, bodies and bounds."""

from __future__ import annotations

import asyncio
import gc
import gzip
import threading
import warnings
import weakref
import zlib
from collections.abc import AsyncIterator

import pytest

from support.network.wire_servers import Connection, Server, echo, serve, stall_within
from vibe_llms.exceptions import LimitError, RequestError, TransportError
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.direct import DirectTransport
from vibe_llms.wire.exchanges import Timeouts, WireRequest
from vibe_llms.wire.sse import SseFramer

QUICK = Timeouts(connect_seconds=20, first_byte_seconds=20, between_chunks_seconds=20)


@pytest.fixture
async def transport() -> AsyncIterator[DirectTransport]:
    """A transport with the usual limits, closed at the end."""
    transport = DirectTransport(limits=Limits(), timeouts=QUICK, trust_environment=False)
    yield transport
    await transport.close()


def request_of(server: Server, body: bytes = b"{}", **more: object) -> WireRequest:
    """Returns a request to a server, with a secret wherever one may be."""
    headers = {"Authorization": Secret("canary"), "Content-Type": "application/json"}
    url = f"{server.url}/v1/x?key=canary"
    return WireRequest(url=url, headers=headers, body=body, **more)  # type: ignore[arg-type]


def ensure_discreet(error: BaseException) -> None:
    """Makes sure that neither an error nor anything that hangs on it tells a secret."""
    seen: BaseException | None = error
    while seen is not None:
        assert "canary" not in f"{seen!r} {seen} {seen.__dict__}"
        seen = seen.__cause__ or seen.__context__


async def test_a_request_goes_out_as_it_is_written(transport: DirectTransport) -> None:
    """Method, path with its query, headers with their secrets, and the body."""
    async with serve(echo) as server:
        async with await transport.send(request_of(server, b"\x00hello")) as exchange:
            assert exchange.status == 200
            assert exchange.headers["content-length"] == "6"
            assert await exchange.read() == b"\x00hello"
            assert await exchange.receive() == b""
        line, headers, _ = server.connections[0].requests[0]
        assert line == "POST /v1/x?key=canary HTTP/1.1"
        assert headers["authorization"] == "canary"
        assert headers["content-type"] == "application/json"


async def test_connections_are_kept_alive_and_used_again(transport: DirectTransport) -> None:
    """Twenty requests one after another need one connection."""
    async with serve(echo) as server:
        for _ in range(20):
            async with await transport.send(request_of(server)) as exchange:
                assert await exchange.read() == b"{}"
        assert [len(each.requests) for each in server.connections] == [20]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
async def test_a_request_is_never_repeated(transport: DirectTransport, method: str) -> None:
    """Not even a GET on a kept connection that the server closes instead of answering."""

    async def answer_once(connection: Connection) -> None:
        await connection.read_request()
        await connection.answer(b"first")
        await connection.read_request()

    async with serve(answer_once) as server:
        assert await (await transport.send(request_of(server))).read() == b"first"
        with pytest.raises(TransportError, match="before it answered") as caught:
            await transport.send(request_of(server, b"", method=method))
        ensure_discreet(caught.value)
        assert [len(each.requests) for each in server.connections] == [2]


async def test_a_stream_arrives_piece_by_piece(transport: DirectTransport) -> None:
    """Each piece is there before the next was sent."""
    received = asyncio.Queue[bytes]()

    async def stream(connection: Connection) -> None:
        await connection.read_request()
        await connection.begin()
        for number in range(5):
            await connection.send_chunk(b"data: %d\n\n" % number)
            assert await received.get() == b"%d" % number
        await connection.send_chunk(b"")
        await connection.wait_closed()

    async with serve(stream) as server:
        framer = SseFramer(Limits())
        async with await transport.send(request_of(server)) as exchange:
            assert exchange.headers["content-type"] == "text/event-stream"
            while data := await exchange.receive():
                for frame in framer.feed(data):
                    received.put_nowait(frame.data)
        assert received.empty()


@pytest.mark.slow
async def test_five_hundred_streams_at_once(transport: DirectTransport) -> None:
    """All are open at the same time: nothing waits for a connection."""
    everybody = asyncio.Barrier(501)

    async def stream(connection: Connection) -> None:
        await connection.read_request()
        await connection.begin()
        await everybody.wait()
        await connection.send_chunk(b"data: x\n\n")
        await connection.send_chunk(b"")
        await connection.wait_closed()

    async with serve(stream) as server:

        async def read() -> bytes:
            async with await transport.send(request_of(server)) as exchange:
                return await exchange.read()

        tasks = [asyncio.create_task(read()) for _ in range(500)]
        await everybody.wait()
        assert await asyncio.gather(*tasks) == [b"data: x\n\n"] * 500


@pytest.mark.parametrize("place", ["send", "receive"])
@pytest.mark.parametrize("streaming", [True, False])
async def test_cancelling_closes_the_connection(
    transport: DirectTransport, place: str, streaming: bool
) -> None:
    """Wherever the task waits; the server sees it."""
    waits = asyncio.Event()

    async def stall(connection: Connection) -> None:
        await connection.read_request()
        if place == "receive" and streaming:
            await connection.begin()
            await connection.send_chunk(b"data: x\n\n")
        elif place == "receive":
            await connection.answer(b"half", length=8)
        waits.set()
        await connection.wait_closed()

    async def read() -> None:
        async with await transport.send(request_of(server)) as exchange:
            while await exchange.receive():
                pass

    async with serve(stall) as server:
        task = asyncio.create_task(read())
        await waits.wait()
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.connections[0].closed.wait(), 60)


async def test_cancelling_does_not_wait_for_a_server_that_reads_nothing(
    transport: DirectTransport,
) -> None:
    """A body that is stuck half way is given up."""
    released = asyncio.Event()

    async def read_nothing(connection: Connection) -> None:
        await released.wait()
        await connection.wait_closed()

    async with serve(read_nothing) as server:
        task = asyncio.create_task(transport.send(request_of(server, bytes(30_000_000))))
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        released.set()
        await asyncio.wait_for(server.connections[0].closed.wait(), 60)


async def test_leaving_an_answer_closes_its_connection(transport: DirectTransport) -> None:
    """Early, twice, and while another task waits in it, which is told."""

    async with serve(stall_within) as server:
        exchange = await transport.send(request_of(server))
        assert await exchange.receive() == b"x"
        waiting = asyncio.create_task(exchange.receive())
        await asyncio.sleep(0)
        await exchange.close()
        await exchange.close()
        await asyncio.wait_for(server.connections[0].closed.wait(), 60)
        with pytest.raises(TransportError, match="closed"):
            await waiting
        with pytest.raises(TransportError, match="closed"):
            await exchange.receive()


@pytest.mark.parametrize("fault", ["length", "chunk", "chunked", "garbage"])
async def test_a_body_that_is_cut_is_an_error_after_what_had_come(
    transport: DirectTransport, fault: str
) -> None:
    """Too short for its length, cut within a chunk or before the last, or no chunk at all."""

    async def cut(connection: Connection) -> None:
        await connection.read_request()
        if fault == "length":
            await connection.answer(b"arrived", length=100)
            return
        await connection.begin()
        await connection.send_chunk(b"arrived")
        if fault == "chunk":
            await connection.write(b"ff\r\n")
        elif fault == "garbage":
            await asyncio.sleep(0.05)
            await connection.write(b"no number\r\n")

    async with serve(cut) as server:
        exchange = await transport.send(request_of(server))
        await asyncio.sleep(0.1)  # so that the end has been seen before the beginning is read
        assert await exchange.receive() == b"arrived"
        with pytest.raises(TransportError) as caught:
            await exchange.receive()
        assert caught.value.stage == "frame"
        ensure_discreet(caught.value)
        with pytest.raises(TransportError):
            await exchange.receive()


@pytest.mark.slow
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_a_compressed_body_is_bounded_by_what_comes_out_of_it(
    transport: DirectTransport, coding: str
) -> None:
    """A bomb of 200 MB in 200 KB ends at the limit; a harmless one is read."""
    compress = {"gzip": gzip.compress, "deflate": zlib.compress}[coding]
    bomb, harmless = compress(bytes(200_000_000)), compress(b"harmless")

    async def send(connection: Connection) -> None:
        while True:
            _, _, body = await connection.read_request()
            data = bomb if body == b"bomb" else harmless
            await connection.answer(data, headers=f"Content-Encoding: {coding}\r\n")

    limited = DirectTransport(
        limits=Limits(response_bytes=1_000_000), timeouts=QUICK, trust_environment=False
    )
    async with serve(send) as server:
        exchange = await limited.send(request_of(server, b"ok"))
        assert await exchange.read() == b"harmless"
        exchange = await limited.send(request_of(server, b"bomb"))
        with pytest.raises(LimitError, match="response_bytes") as caught:
            await exchange.read()
        assert caught.value.value == 1_000_000
        await asyncio.wait_for(server.connections[-1].closed.wait(), 60)
        await limited.close()


async def test_an_endless_stream_ends_at_the_limit(transport: DirectTransport) -> None:
    """Streamed bytes count as those of a whole body do."""

    async def flood(connection: Connection) -> None:
        await connection.read_request()
        await connection.begin()
        while True:
            await connection.send_chunk(b": ping\n\n" * 1_000)

    limited = DirectTransport(
        limits=Limits(response_bytes=3_000_000), timeouts=QUICK, trust_environment=False
    )
    async with serve(flood) as server:
        exchange = await limited.send(request_of(server))
        with pytest.raises(LimitError, match="response_bytes"):
            await exchange.read(10_000_000)
        await limited.close()


async def test_a_request_beyond_its_limit_is_not_sent(transport: DirectTransport) -> None:
    """No connection is even made."""
    limited = DirectTransport(
        limits=Limits(request_bytes=10), timeouts=QUICK, trust_environment=False
    )
    async with serve(echo) as server:
        with pytest.raises(LimitError, match="request_bytes"):
            await limited.send(request_of(server, b"x" * 11))
        assert server.connections == []


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_redirections_are_not_followed(transport: DirectTransport, status: str) -> None:
    """So that no loop of them does anything but end at once."""

    async def redirect(connection: Connection) -> None:
        await connection.read_request()
        await connection.answer(status=status, headers=f"Location: {server.url}/on?key=canary\r\n")
        await connection.wait_closed()

    async with serve(redirect) as server:
        with pytest.raises(TransportError, match=f"{status[:3]}.*{server.url}/on") as caught:
            await transport.send(request_of(server))
        ensure_discreet(caught.value)
        assert not caught.value.is_retryable
        assert [len(each.requests) for each in server.connections] == [1]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", "too many headers"),
        (b"HTTP/1.1 200 " + b"y" * 100_000 + b"\r\n\r\n", "too many headers"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000 + b"\r\n", "too many"),
        (b"220 smtp.example ESMTP\r\n\r\n", "in HTTP"),
        (b"", "before it answered"),
    ],
)
async def test_headers_that_are_none_are_clear_errors(
    transport: DirectTransport, answer: bytes, words: str
) -> None:
    """Too long, too many, of another protocol, or none at all."""

    async def send(connection: Connection) -> None:
        await connection.read_request()
        await connection.write(answer)

    async with serve(send) as server:
        with pytest.raises(TransportError, match=words) as caught:
            await transport.send(request_of(server))
        ensure_discreet(caught.value)


async def test_nobody_there_is_an_error_that_names_who(transport: DirectTransport) -> None:
    """With what the system says, and no query."""
    async with serve(echo) as server:
        pass
    with pytest.raises(TransportError, match=f"localhost:{server.port} cannot be") as caught:
        await transport.send(request_of(server))
    assert caught.value.is_retryable
    ensure_discreet(caught.value)


async def test_a_name_that_does_not_exist_is_an_error_that_names_it(
    transport: DirectTransport,
) -> None:
    """The top-level domain is reserved for that."""
    with pytest.raises(TransportError, match=r"https://nobody\.invalid cannot be reached"):
        await transport.send(WireRequest(url="https://nobody.invalid/x"))


async def test_a_header_with_the_end_of_a_line_is_refused(transport: DirectTransport) -> None:
    """As a key that was read with its last line feed; the value is not shown."""
    headers = {"Authorization": Secret("Bearer canary\n")}
    with pytest.raises(RequestError, match="Authorization") as caught:
        await transport.send(WireRequest(url="http://localhost:1", headers=headers))
    ensure_discreet(caught.value)


async def test_a_status_that_is_an_error_is_an_answer(transport: DirectTransport) -> None:
    """What it means is decided above; its body can be read."""

    async def refuse(connection: Connection) -> None:
        await connection.read_request()
        await connection.answer(b'{"error": 1}', status="429 Slow", headers="Retry-After: 7\r\n")

    async with serve(refuse) as server:
        exchange = await transport.send(request_of(server))
        assert (exchange.status, exchange.headers["retry-after"]) == (429, "7")
        assert await exchange.read() == b'{"error": 1}'


async def test_each_event_loop_has_connections_of_its_own(transport: DirectTransport) -> None:
    """One transport serves two loops in two threads, one after another and again."""

    async def talk() -> bytes:
        async with await transport.send(request_of(server)) as exchange:
            return await exchange.read()

    async def talk_and_close() -> None:
        bodies.append(await talk())
        await transport.close()

    bodies: list[bytes] = []
    async with serve(echo) as server:
        bodies.append(await talk())
        thread = threading.Thread(target=lambda: asyncio.run(talk_and_close()))
        thread.start()
        await asyncio.to_thread(thread.join)
        bodies.append(await talk())
    assert bodies == [b"{}"] * 3


@pytest.mark.slow
async def test_a_loop_that_has_ended_leaves_no_connection(transport: DirectTransport) -> None:
    """A program that calls asyncio.run again and again keeps no connection of each time."""

    async def fetch(server: Server) -> weakref.ref[asyncio.AbstractEventLoop]:
        async with await transport.send(request_of(server)) as exchange:
            await exchange.read()
        return weakref.ref(asyncio.get_running_loop())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # who does not close is told so
        async with serve(echo) as server:
            ended = [await asyncio.to_thread(asyncio.run, fetch(server)) for _ in range(3)]
            gc.collect()
            assert [loop() is None for loop in ended] == [True, True, False]
        await transport.close()
        gc.collect()
    assert all(loop() is None for loop in ended)


async def test_closing_spares_the_session_made_meanwhile(transport: DirectTransport) -> None:
    """It would never be closed by anybody."""
    async with serve(echo) as server:
        async with await transport.send(request_of(server)) as exchange:
            await exchange.read()
        closing = asyncio.ensure_future(transport.close())
        await asyncio.sleep(0)
        async with await transport.send(request_of(server)) as exchange:
            await exchange.read()
        await closing
        async with await transport.send(request_of(server)) as exchange:
            await exchange.read()
        assert len(server.connections) == 2
        await transport.close()
