"""WebSockets of our server, as the client of ``websockets`` and bytes of our own see them."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from support.network.serving import Message, Receive, Send, compose_request, serving
from vibe_llms.daemons.server.asgi_types import DISCONNECT_EXTENSION

HANDSHAKE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


async def echo(scope: Message, receive: Receive, send: Send) -> None:
    """Says each message again."""
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


def reach(port: int, path: str = "/") -> connect:
    """Connects, by the client of the library."""
    return connect(f"ws://127.0.0.1:{port}{path}", proxy=None, max_size=None)


async def test_messages_of_both_kinds_go_both_ways() -> None:
    """Short ones and long ones, in their order."""
    messages: list[str | bytes] = ["", "häh", b"\x00\xff", "x" * 300_000, b"y" * 1_000_000]
    async with serving(echo) as served, reach(served.port) as client:
        for message in messages:
            await client.send(message)
        assert [await client.recv() for _ in messages] == messages
        await client.send(["in ", "several ", "frames"])
        assert await client.recv() == "in several frames"


async def test_the_scope_says_what_was_asked() -> None:
    """Path, query, headers, subprotocols; and the client is told which was chosen."""
    seen: list[Message] = []

    async def see(scope: Message, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await receive()
        accept = {"subprotocol": "b", "headers": [(b"x-one", b"1")]}
        await send({"type": "websocket.accept", **accept})
        await send({"type": "websocket.close", "code": 4001, "reason": "enough"})

    async with serving(see) as served:
        url = f"ws://127.0.0.1:{served.port}/a?b=c"
        async with connect(url, subprotocols=["a", "b"], proxy=None) as client:  # type: ignore[list-item]
            assert client.response is not None
            assert client.response.headers["x-one"] == "1"
            assert client.subprotocol == "b"
            with pytest.raises(ConnectionClosed) as caught:
                await client.recv()

    assert caught.value.rcvd is not None
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (4001, "enough")
    (scope,) = seen
    assert (scope["type"], scope["scheme"], scope["path"]) == ("websocket", "ws", "/a")
    assert (scope["query_string"], scope["subprotocols"]) == (b"b=c", ["a", "b"])


async def test_an_application_may_refuse_in_its_own_words() -> None:
    """Or say nothing but that it does; or fail."""

    async def refuse(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        if scope["path"] == "/fail":
            raise ValueError("secret")
        if scope["path"] == "/close":
            await send({"type": "websocket.close"})
            return
        headers = [(b"x-why", b"because")]
        start = "websocket.http.response.start"
        await send({"type": start, "status": 401, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"no"})

    async with serving(refuse) as served:
        for path, status, body in (
            ("/", 401, b"no"),
            ("/close", 403, b"Forbidden\n"),
            ("/fail", 500, b"Internal Server Error\n"),
        ):
            with pytest.raises(InvalidStatus) as caught:
                await reach(served.port, path)
            response = caught.value.response
            assert (response.status_code, response.body) == (status, body)


@pytest.mark.parametrize("way", ["close", "abort"])
async def test_a_client_that_goes_is_noticed(way: str) -> None:
    """By whoever receives, and by whoever left a function for that."""
    told: asyncio.Queue[str] = asyncio.Queue()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        scope["extensions"][DISCONNECT_EXTENSION](lambda: told.put_nowait("called"))
        await receive()
        await send({"type": "websocket.accept"})
        told.put_nowait((await receive())["type"])

    async with serving(wait) as served:
        client: ClientConnection = await reach(served.port)
        if way == "close":
            await client.close()
        else:
            client.transport.abort()
        async with asyncio.timeout(15):
            assert {await told.get(), await told.get()} == {"called", "websocket.disconnect"}


async def test_a_failure_closes_and_says_nothing_of_it() -> None:
    """1011, with no reason."""

    async def fail(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        raise ValueError("secret")

    async with serving(fail) as served, reach(served.port) as client:
        with pytest.raises(ConnectionClosed) as caught:
            await client.recv()

    assert caught.value.rcvd is not None
    assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1011, "")


async def test_messages_have_a_bound() -> None:
    """1009; the connection goes, and others are served."""
    async with serving(echo, message_bytes=1_000) as served:
        async with reach(served.port) as client:
            with contextlib.suppress(ConnectionClosed):
                await client.send("x" * 1_001)
            with pytest.raises(ConnectionClosed) as caught:
                await client.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009
        async with reach(served.port) as client:
            await client.send("x" * 1_000)
            assert len(await client.recv()) == 1_000


async def test_what_an_application_does_not_take_is_not_read() -> None:
    """The client is held back."""
    go = asyncio.Event()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await go.wait()
        size = 0
        while (message := await receive())["type"] == "websocket.receive":
            size += len(message["bytes"])
            if size == 30_000_000:
                await send({"type": "websocket.send", "text": "all"})

    async with serving(wait) as served, reach(served.port) as client:

        async def pour() -> None:
            for _ in range(300):
                await client.send(bytes(100_000))

        pouring = asyncio.create_task(pour())
        await asyncio.sleep(0.3)
        assert not pouring.done()
        go.set()
        assert await client.recv() == "all"
        await pouring


@pytest.mark.slow
async def test_a_client_that_does_not_answer_is_left() -> None:
    """It is asked first; one that answers stays."""
    async with serving(echo, idle_seconds=0.5) as served:
        silent = await served.connect()
        await silent.write(compose_request(headers=HANDSHAKE))
        async with reach(served.port) as alive:
            answer = await asyncio.wait_for(silent.read_all(), 15)
            await alive.send("still here")
            assert await alive.recv() == "still here"

    assert answer.startswith(b"HTTP/1.1 101 ")
    assert answer.endswith(b"\x89\x00")  # a ping


async def test_a_server_that_ends_says_so() -> None:
    """To those whom nothing is owed."""
    async with serving(echo) as served, reach(served.port) as client:
        await client.send("one")
        await client.recv()
        draining = asyncio.create_task(served.server.drain())
        with pytest.raises(ConnectionClosed) as caught:
            await client.recv()
        await asyncio.wait_for(draining, 15)

    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 1012


@pytest.mark.parametrize(
    "headers",
    [
        HANDSHAKE.replace("13", "12"),
        HANDSHAKE.replace("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n", ""),
        HANDSHAKE.replace("dGhl", "!!!!"),
    ],
)
async def test_a_wrong_handshake_is_refused(headers: str) -> None:
    """In our words: the library's say what it is."""
    async with serving(echo) as served:
        client = await served.connect()
        await client.write(compose_request(headers=headers))
        answer = await asyncio.wait_for(client.read_all(), 15)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(b"Bad Request\n")


@pytest.mark.parametrize("frame", [b"\xff\xff\xff", b"\x81\x05hello", b"\x81\x83abcd\x9e\x9d\x9c"])
async def test_frames_that_are_none_close_the_connection(frame: bytes) -> None:
    """Unmasked ones, those of no kind, and text that is none."""
    async with serving(echo) as served:
        client = await served.connect()
        await client.write(compose_request(headers=HANDSHAKE) + frame)
        answer = await asyncio.wait_for(client.read_all(), 15)

    assert answer.startswith(b"HTTP/1.1 101 ")
    assert b"\x88" in answer.partition(b"\r\n\r\n")[2]
