"""WebSockets of the direct transport: TLS, proxies, refusals, limits and closes."""

from __future__ import annotations

import asyncio
import base64
import ssl
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import trustme
from websockets.asyncio.server import ServerConnection, serve

from vibe_llms.exceptions import LimitError, TransportError, TransportTimeoutError
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.direct import DirectTransport
from vibe_llms.wire.exchanges import Timeouts, WireRequest
from vibe_llms.wire.sockets import Socket, SocketRefusal

QUICK = Timeouts(connect_seconds=20)


def produce(**settings: Any) -> DirectTransport:
    """Makes a transport that uses no proxy of the environment."""
    limits = settings.pop("limits", Limits())
    return DirectTransport(**{"limits": limits, "trust_environment": False, **settings})


async def connect(address: str, **settings: Any) -> Socket:
    """Opens a WebSocket with a secret header."""
    request = WireRequest(
        url=f"{address}/x", headers={"key": Secret("canary")}, timeouts=QUICK, method="GET"
    )
    return await produce(**settings).open_socket(request)


async def echo(connection: ServerConnection) -> None:
    """Answers each message with itself, and with the key."""
    async for message in connection:
        await connection.send(message)
        if message == "close":
            await connection.close(4000, "enough")
        elif message == "too big":
            await connection.close(1009, "too big")
        elif message == "break":
            connection.transport.abort()
        elif message == "key":
            assert connection.request is not None
            await connection.send(connection.request.headers["key"])


def address_of(server: Any, scheme: str = "http") -> str:
    """Returns the address of a server."""
    return f"{scheme}://localhost:{server.sockets[0].getsockname()[1]}"


async def test_messages_go_both_ways_with_the_headers() -> None:
    async with serve(echo, "localhost", 0) as server, await connect(address_of(server)) as socket:
        for message in ("text", b"\0\1", "key"):
            await socket.send(message)
            assert await socket.receive() == message
        assert await socket.receive() == "canary"


@pytest.mark.parametrize(("word", "frame"), [("close", (4000, "enough")), ("break", None)])
async def test_a_close_has_its_code(word: str, frame: tuple[int, str] | None) -> None:
    async with serve(echo, "localhost", 0) as server:
        socket = await connect(address_of(server))
        await socket.send(word)
        while await socket.receive() is not None:
            pass
        assert socket.close_frame == frame
        with pytest.raises(TransportError, match="4000: enough" if frame else "broke off"):
            await socket.send("x")
        await socket.close()
        await socket.close()


async def test_a_message_has_a_limit() -> None:
    async with (
        serve(echo, "localhost", 0) as server,
        await connect(address_of(server), limits=Limits(event_bytes=1_000)) as socket,
    ):
        await socket.send("x" * 1_001)
        assert await socket.receive() is None
        with pytest.raises(LimitError, match="event_bytes = 1,000") as caught:
            await socket.send("x")
        assert (caught.value.limit, caught.value.value) == ("event_bytes", 1_000)
        assert caught.value.remedy


async def test_a_limit_of_the_server_is_not_ours() -> None:
    async with serve(echo, "localhost", 0) as server, await connect(address_of(server)) as socket:
        await socket.send("too big")
        while await socket.receive() is not None:
            pass
        error = socket.refuse()
    assert isinstance(error, TransportError)
    assert "1009: too big" in str(error)


@pytest.mark.parametrize("status", [302, 308])
async def test_redirects_are_not_followed(status: int) -> None:
    asked: list[Any] = []

    def note(connection: ServerConnection, request: Any) -> Any:
        asked.append(request.headers)
        return connection.respond(HTTPStatus.FORBIDDEN, "")

    async with serve(echo, "localhost", 0, process_request=note) as target:
        location = f"{address_of(target, 'ws')}/y?key=canary"

        def redirect(connection: ServerConnection, request: Any) -> Any:
            answer = connection.respond(HTTPStatus(status), "")
            answer.headers["Location"] = location
            return answer

        async with serve(echo, "localhost", 0, process_request=redirect) as server:
            request = WireRequest(
                url=f"{address_of(server)}/x",
                headers={"xi-api-key": Secret("canary"), "api-key": Secret("canary")},
                timeouts=QUICK,
                method="GET",
            )
            with pytest.raises(TransportError, match=f"{status}: a redirect to") as caught:
                await produce().open_socket(request)
    assert asked == []
    assert caught.value.should_retry is False
    assert "canary" not in repr(caught.value) + repr(caught.value.__cause__)


async def test_an_http_answer_is_a_refusal() -> None:
    def refuse(connection: ServerConnection, request: Any) -> Any:
        return connection.respond(HTTPStatus.FORBIDDEN, '{"error": "no"}')

    async with serve(echo, "localhost", 0, process_request=refuse) as server:
        with pytest.raises(SocketRefusal) as caught:
            await connect(address_of(server))
    assert (caught.value.status, caught.value.body) == (403, b'{"error": "no"}')
    assert caught.value.headers["content-type"].startswith("text/plain")


async def test_other_servers_are_errors_without_the_headers() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp.example\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "localhost", 0) as server:
        address = address_of(server)
        with pytest.raises(TransportError, match="did not answer in HTTP") as caught:
            await connect(address)
    assert "canary" not in repr(caught.value) + repr(caught.value.__cause__)
    with pytest.raises(TransportError, match="cannot be reached"):
        await connect(address)


async def test_a_silent_server_is_a_timeout() -> None:
    is_left = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        is_left.set()

    async with asyncio.timeout(60), await asyncio.start_server(wait, "localhost", 0) as server:
        request = WireRequest(url=address_of(server), timeouts=Timeouts(connect_seconds=0.05))
        with pytest.raises(TransportTimeoutError, match="connect"):
            await produce().open_socket(request)
        await is_left.wait()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """An authority that no system trusts."""
    return trustme.CA()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """The certificate of localhost."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def authority_file(authority: trustme.CA, tmp_path: Path) -> Path:
    """The certificate of the authority."""
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


async def test_a_certificate_is_checked(server_tls: ssl.SSLContext, authority_file: Path) -> None:
    async with serve(echo, "localhost", 0, ssl=server_tls) as server:
        address = address_of(server, "https")
        with pytest.raises(TransportError, match="cannot be trusted") as caught:
            await connect(address)
        assert not caught.value.is_retryable
        async with await connect(address, certificate_authorities=authority_file) as socket:
            await socket.send("hello")
            assert await socket.receive() == "hello"


class Proxy:
    """A proxy that makes tunnels for one user.

    Attributes:
        lines: First lines of the requests.
    """

    def __init__(self, user: str) -> None:
        self._wanted = b"Basic " + base64.b64encode(user.encode())
        self.lines: list[bytes] = []

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line = head.partition(b"\r\n")[0]
        self.lines.append(line)
        if self._wanted not in head:
            writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        host, _, port = line.split()[1].decode().partition(":")
        there_reader, there_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(self._pump(reader, there_writer), self._pump(there_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()


@pytest.mark.parametrize("is_secure", [False, True])
async def test_a_proxy_makes_a_tunnel(
    is_secure: bool, server_tls: ssl.SSLContext, authority_file: Path
) -> None:
    proxy = Proxy("user:pass word")
    tls = server_tls if is_secure else None
    async with (
        await asyncio.start_server(proxy.handle, "localhost", 0) as gate,
        serve(echo, "localhost", 0, ssl=tls) as server,
    ):
        port = gate.sockets[0].getsockname()[1]
        address = address_of(server, "https" if is_secure else "http")
        url = f"http://user:pass%20word@localhost:{port}"
        socket = await connect(address, proxy=url, certificate_authorities=authority_file)
        async with socket:
            await socket.send("hello")
            assert await socket.receive() == "hello"
        with pytest.raises(TransportError, match=r"proxy refused .*status 407") as caught:
            await connect(address, proxy=f"http://user:canary@localhost:{port}")
    assert "canary" not in repr(caught.value) + repr(caught.value.__cause__)
    assert proxy.lines[0] == f"CONNECT {address.partition('//')[2]} HTTP/1.1".encode()
