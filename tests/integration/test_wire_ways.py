"""The ways to the other side: how long they may take, through proxies, and by TLS."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import pytest
import trustme

from support.network.wire_servers import Connection, Server, echo, serve
from vibe_llms.exceptions import (
    ConfigurationError,
    Stage,
    TransportError,
    TransportTimeoutError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire import failures
from vibe_llms.wire.direct import DirectTransport
from vibe_llms.wire.exchanges import Timeouts, WireRequest
from vibe_llms.wire.http import faults, pools

PATIENT = Timeouts(connect_seconds=20, first_byte_seconds=20, between_chunks_seconds=20)
CREDENTIALS = "somebody:canary%20word"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of these tests names no proxy but those they name."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def fetch(transport: DirectTransport, server: Server, timeouts: Timeouts = PATIENT) -> bytes:
    """Sends a request and reads all of its answer."""
    request = WireRequest(url=f"{server.url}/x?key=canary", body=b"hello", timeouts=timeouts)
    try:
        async with asyncio.timeout(60), await transport.send(request) as exchange:
            assert exchange.status == 200
            return await exchange.read()
    finally:
        await transport.close()


def produce(**settings: object) -> DirectTransport:
    """Produces a transport that knows nothing of the environment unless told so."""
    settings = {"trust_environment": False} | settings
    return DirectTransport(limits=Limits(), **settings)  # type: ignore[arg-type]


# How long it may take


async def stall_before(connection: Connection) -> None:
    """Answers nothing at all."""
    await connection.read_request()
    await connection.wait_closed()


async def stall_within(connection: Connection) -> None:
    """Answers the beginning of a stream."""
    await connection.read_request()
    await connection.begin()
    await connection.send_chunk(b"data: x\n\n")
    await connection.wait_closed()


async def drip_headers(connection: Connection) -> None:
    """Answers so slowly that something always comes, and never the end of the headers."""
    await connection.read_request()
    await connection.write(b"HTTP/1.1 200 OK\r\nX: ")
    while True:
        await connection.write(b"y")
        await asyncio.sleep(0.02)


async def drip_body(connection: Connection) -> None:
    """Sends a comment now and then, for ever."""
    await connection.read_request()
    await connection.begin()
    while True:
        await connection.send_chunk(b":\n")
        await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("handler", "phase", "others"),
    [
        (stall_before, "first-byte", {}),
        (drip_headers, "first-byte", {}),
        (stall_within, "between-chunks", {"first_byte_seconds": 20}),
        (drip_body, "total", {"between_chunks_seconds": 20}),
        (stall_within, "total", {"between_chunks_seconds": 20}),
        (stall_before, "total", {"first_byte_seconds": 20}),
    ],
)
async def test_each_timeout_is_an_error_of_its_own(handler, phase, others) -> None:  # type: ignore[no-untyped-def]
    """It names the phase, the seconds and the setting, and the connection is closed."""
    setting = f"{phase.replace('-', '_')}_seconds"
    timeouts = attrs.evolve(PATIENT, **{setting: 0.3} | others)
    async with serve(handler) as server:
        with pytest.raises(TransportTimeoutError) as caught:
            await fetch(produce(), server, timeouts)
        assert caught.value.phase == phase
        assert caught.value.seconds == 0.3
        assert "0.3 seconds" in str(caught.value)
        assert setting in str(caught.value)
        assert "canary" not in repr(caught.value)
        assert isinstance(caught.value, TimeoutError)
        await asyncio.wait_for(server.connections[0].closed.wait(), 60)


async def test_what_had_come_before_a_stall_is_received() -> None:
    """Though nobody asked for it until the stall was noticed."""
    async with serve(stall_within) as server:
        transport = produce()
        timeouts = attrs.evolve(PATIENT, between_chunks_seconds=0.1)
        exchange = await transport.send(WireRequest(url=server.url, timeouts=timeouts))
        await asyncio.sleep(0.3)
        assert await exchange.receive() == b"data: x\n\n"
        with pytest.raises(TransportTimeoutError, match="between_chunks_seconds"):
            await exchange.receive()
        await transport.close()


async def test_a_stall_is_noticed_on_a_connection_that_was_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Though what watched it meanwhile looks too early."""
    monkeypatch.setattr(pools, "_IDLE_SECONDS", 0.1)

    async def answer_once(connection: Connection) -> None:
        await connection.read_request()
        await connection.answer(b"x")
        await stall_within(connection)

    async with serve(answer_once) as server:
        transport = produce()
        timeouts = attrs.evolve(PATIENT, between_chunks_seconds=0.3)
        request = WireRequest(url=server.url, timeouts=timeouts)
        async with await transport.send(request) as exchange:
            await exchange.read()
        async with asyncio.timeout(60), await transport.send(request) as exchange:
            with pytest.raises(TransportTimeoutError, match="between_chunks_seconds"):
                await exchange.read()
        assert len(server.connections) == 1
        await transport.close()


@pytest.mark.slow
async def test_a_slow_start_is_no_stall() -> None:
    """The first byte may take longer than what comes after it."""

    async def start_slowly(connection: Connection) -> None:
        await connection.read_request()
        await asyncio.sleep(0.6)
        await connection.answer(b"x")

    async with serve(start_slowly) as server:
        timeouts = attrs.evolve(PATIENT, between_chunks_seconds=0.2)
        assert await fetch(produce(), server, timeouts) == b"x"


async def test_a_slow_reader_is_no_stall() -> None:
    """Who does not read for a while, of an answer that is all there, has not been kept waiting."""
    async with serve(echo) as server:
        transport = produce()
        timeouts = attrs.evolve(PATIENT, between_chunks_seconds=0.1)
        body = bytes(3_000_000)
        request = WireRequest(url=server.url, body=body, timeouts=timeouts)
        exchange = await transport.send(request)
        beginning = await exchange.receive()
        await asyncio.sleep(0.4)
        assert beginning + await exchange.read() == body
        await transport.close()


async def test_a_connection_that_does_not_come_about_times_out() -> None:
    """TLS with somebody who says nothing."""
    async with serve(Connection.wait_closed) as server:
        server.url = f"https://localhost:{server.port}"
        timeouts = attrs.evolve(PATIENT, connect_seconds=0.2)
        with pytest.raises(TransportTimeoutError, match="connect_seconds") as caught:
            await fetch(produce(), server, timeouts)
        assert caught.value.phase == "connect"


# Through proxies


@attrs.define
class Proxy:
    """A proxy, for tunnels and for whole addresses."""

    seen: list[tuple[str, str | None]] = attrs.field(factory=list)
    wants: str | None = None

    async def handle(self, connection: Connection) -> None:
        """Serves one connection."""
        line, headers, body = await connection.read_request()
        self.seen.append((line, headers.get("proxy-authorization")))
        if headers.get("proxy-authorization") != self.wants:
            await connection.answer(b"canary", status="407 Who are you")
            return
        method, target, _ = line.split(" ")
        if method == "CONNECT":
            host, port = target.split(":")
        else:
            parts = urlsplit(target)
            host, port = str(parts.hostname), str(parts.port)
        reader, writer = await asyncio.open_connection(host, int(port))
        if method == "CONNECT":
            await connection.write(b"HTTP/1.1 200 Go on\r\n\r\n")
        else:
            head = f"{method} {parts.path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
        await asyncio.gather(
            self.pump(connection.reader, writer), self.pump(reader, connection.writer)
        )

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries bytes to their end."""
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """An authority that nobody knows."""
    return trustme.CA()


@pytest.fixture
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    """The certificate of localhost, by that authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


@pytest.fixture
def authority_file(authority: trustme.CA, tmp_path: Path) -> Path:
    """The certificate of the authority."""
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
async def proxy() -> AsyncIterator[tuple[Proxy, Server]]:
    """A proxy under way."""
    proxy = Proxy()
    async with serve(proxy.handle) as server:
        yield proxy, server


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("known", [False, True])
async def test_a_proxy_carries_everything(
    proxy: tuple[Proxy, Server],
    server_tls: ssl.SSLContext,
    authority_file: Path,
    secure: bool,
    known: bool,
) -> None:
    """HTTP by its whole address, HTTPS through a tunnel; with who we are where it wants it."""
    word = base64.b64encode(b"somebody:canary word").decode()
    proxy[0].wants = f"Basic {word}" if known else None
    url = f"http://{CREDENTIALS}@localhost:{proxy[1].port}" if known else proxy[1].url
    async with serve(echo, tls=server_tls if secure else None) as server:
        transport = produce(proxy=url, certificate_authorities=authority_file)
        assert await fetch(transport, server) == b"hello"
        line, _ = proxy[0].seen[0]
    if secure:
        assert line == f"CONNECT localhost:{server.port} HTTP/1.1"
    else:
        assert line == f"POST {server.url}/x?key=canary HTTP/1.1"


async def test_a_proxy_that_refuses_is_an_error_without_who_we_are(
    proxy: tuple[Proxy, Server], server_tls: ssl.SSLContext
) -> None:
    """Neither the password nor what it answered is shown."""
    proxy[0].wants = "Basic other"
    async with serve(echo, tls=server_tls) as server:
        transport = produce(proxy=f"http://{CREDENTIALS}@localhost:{proxy[1].port}")
        with pytest.raises(TransportError, match=r"proxy refused .*status 407") as caught:
            await fetch(transport, server)
        assert "canary" not in f"{caught.value!r}{caught.value.__cause__!r}"


async def test_a_proxy_that_is_not_there_is_an_error_that_says_so() -> None:
    """And not that the other side is gone."""
    async with serve(echo) as gone:
        pass
    async with serve(echo) as server:
        with pytest.raises(TransportError, match="The proxy on the way"):
            await fetch(produce(proxy=f"http://{CREDENTIALS}@localhost:{gone.port}"), server)


@pytest.mark.parametrize("secure", [False, True])
async def test_a_proxy_may_be_spoken_to_by_tls(
    server_tls: ssl.SSLContext, authority_file: Path, secure: bool
) -> None:
    """Also where TLS goes through its tunnel, which is TLS within TLS."""
    proxy = Proxy()
    async with (
        serve(proxy.handle, tls=server_tls) as gate,
        serve(echo, tls=server_tls if secure else None) as server,
    ):
        transport = produce(proxy=gate.url, certificate_authorities=authority_file)
        assert await fetch(transport, server) == b"hello"
        assert proxy.seen[0][0].startswith("CONNECT" if secure else "POST http://")


@pytest.mark.parametrize("answer", [b"", b"220 smtp.example\r\n", b"HTTP/1.1 200 Go on\r\nX: "])
async def test_a_proxy_that_is_none_is_an_error_that_says_so(
    server_tls: ssl.SSLContext, answer: bytes
) -> None:
    """It hangs up, speaks another protocol, or breaks off."""

    async def pretend(connection: Connection) -> None:
        await connection.read_request()
        await connection.write(answer)

    async with serve(pretend) as gate, serve(echo, tls=server_tls) as server:
        with pytest.raises(TransportError, match="The proxy on the way"):
            await fetch(produce(proxy=gate.url), server)


async def test_a_proxy_whose_certificate_does_not_hold_is_the_one_to_blame(
    server_tls: ssl.SSLContext,
) -> None:
    """And not who is behind it."""
    async with serve(Connection.wait_closed, tls=server_tls) as gate, serve(echo) as server:
        with pytest.raises(TransportError, match=r"The proxy on the way .*certificate"):
            await fetch(produce(proxy=gate.url), server)


async def test_a_proxy_that_says_nothing_times_out(server_tls: ssl.SSLContext) -> None:
    """Its tunnel is part of connecting."""
    async with serve(stall_before) as gate, serve(echo, tls=server_tls) as server:
        timeouts = attrs.evolve(PATIENT, connect_seconds=0.2)
        with pytest.raises(TransportTimeoutError, match="connect_seconds"):
            await fetch(produce(proxy=gate.url), server, timeouts)
        await asyncio.wait_for(gate.connections[0].closed.wait(), 60)


async def test_a_proxy_puts_nothing_into_what_comes_by_tls(
    server_tls: ssl.SSLContext, authority_file: Path
) -> None:
    """What it sends behind its answer is no part of the other side's."""

    async def add(connection: Connection) -> None:
        await connection.read_request()
        await connection.write(
            b"HTTP/1.1 200 Go on\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
        )
        await connection.wait_closed()

    async with serve(add) as gate, serve(echo, tls=server_tls) as server:
        transport = produce(proxy=gate.url, certificate_authorities=authority_file)
        with pytest.raises(TransportError):
            await fetch(transport, server, attrs.evolve(PATIENT, connect_seconds=0.3))


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_the_environment_names_a_proxy_and_exceptions(
    proxy: tuple[Proxy, Server], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is asked where it is trusted; NO_PROXY holds."""
    monkeypatch.setenv(name, f"localhost:{proxy[1].port}")
    async with serve(echo) as server:
        await fetch(produce(), server)
        assert len(proxy[0].seen) == 0
        await fetch(produce(trust_environment=True), server)
        assert len(proxy[0].seen) == 1
        monkeypatch.setenv("NO_PROXY", "example.com,localhost")
        await fetch(produce(trust_environment=True), server)
        assert len(proxy[0].seen) == 1


async def test_a_proxy_of_a_kind_we_do_not_speak_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At once where it is given; where the environment names it, when it is needed."""
    for proxy in ("socks5://somebody:canary@localhost:1", "localhost:1", "canary@localhost"):
        with pytest.raises(ConfigurationError, match="The proxy") as caught:
            produce(proxy=proxy)
        assert "canary" not in str(caught.value)
    monkeypatch.setenv("ALL_PROXY", "socks5://localhost:1")
    async with serve(echo) as server:
        with pytest.raises(ConfigurationError, match="ALL_PROXY"):
            await fetch(produce(trust_environment=True), server)


# By TLS


def _refuse_tls(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    return error


async def test_an_authority_of_our_own_is_trusted_when_it_is_set(
    server_tls: ssl.SSLContext, authority_file: Path
) -> None:
    """Without it, the error says what to set."""
    async with serve(echo, tls=server_tls) as server:
        with pytest.raises(
            TransportError, match=r"certificate of .* cannot be trusted: "
        ) as caught:
            await fetch(produce(), server)
        assert "certificate authorities" in caught.value.remedy
        assert not caught.value.is_retryable  # by asking again, nobody becomes trusted
        assert await fetch(produce(certificate_authorities=authority_file), server) == b"hello"


async def test_a_certificate_for_another_name_is_refused(
    authority: trustme.CA, authority_file: Path
) -> None:
    """Though its authority is trusted."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("elsewhere.example").configure_cert(context)
    async with serve(echo, tls=context) as server:
        with pytest.raises(TransportError, match="not valid for 'localhost'"):
            await fetch(produce(certificate_authorities=authority_file), server)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
async def test_a_client_certificate_proves_who_we_are(
    authority: trustme.CA,
    server_tls: ssl.SSLContext,
    authority_file: Path,
    tmp_path: Path,
    apart: bool,
) -> None:
    """Its key in the same file or in one of its own; without it, the server refuses."""
    server_tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(server_tls)
    ours = authority.issue_cert("somebody@example.com")
    certificate, key = tmp_path / "client.pem", tmp_path / "client.key"
    if apart:
        ours.cert_chain_pems[0].write_to_path(str(certificate))
        ours.private_key_pem.write_to_path(str(key))
    else:
        ours.private_key_and_cert_chain_pem.write_to_path(str(certificate))
    async with serve(echo, tls=server_tls) as server:
        with pytest.raises(TransportError):
            await fetch(produce(certificate_authorities=authority_file), server)
        transport = produce(
            certificate_authorities=authority_file,
            client_certificate=certificate,
            client_key=key if apart else None,
        )
        assert await fetch(transport, server) == b"hello"


@pytest.mark.parametrize(
    ("fault", "is_retryable"),
    [
        (_refuse_tls("TLSV13_ALERT_CERTIFICATE_REQUIRED"), False),
        (_refuse_tls("SSLV3_ALERT_CERTIFICATE_EXPIRED"), False),
        (_refuse_tls("TLSV1_ALERT_UNKNOWN_CA"), False),
        (_refuse_tls("SSLV3_ALERT_HANDSHAKE_FAILURE"), False),
        (_refuse_tls("TLSV1_ALERT_INTERNAL_ERROR"), True),
        (_refuse_tls("UNEXPECTED_EOF_WHILE_READING"), True),
        (faults.ProxyRefusal(407), False),
        (faults.ProxyRefusal(503), True),
        (faults.Unreachable(), True),
    ],
    ids=repr,
)
async def test_what_no_waiting_changes_is_not_asked_again(
    fault: Exception, is_retryable: bool
) -> None:
    """Such as the server's word that it trusts no certificate of ours; a broken line may mend."""
    watch = failures.ExchangeFacts(address="https://a", timeouts=Timeouts(), started=0)
    broken = ConnectionError()
    broken.__cause__ = fault
    for each in (fault, broken):
        assert failures.translate(each, watch, Stage.SEND).is_retryable is is_retryable


async def test_speaking_tls_to_who_does_not_is_an_error_that_says_so() -> None:
    """The wrong scheme in a base URL."""

    async def speak_plainly(connection: Connection) -> None:
        await connection.reader.read(10)
        await connection.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with serve(speak_plainly) as server:
        server.url = server.url.replace("http:", "https:")
        with pytest.raises(TransportError, match="TLS handshake"):
            await fetch(produce(), server)


def test_certificates_that_do_not_load_are_mistakes_in_the_configuration(tmp_path: Path) -> None:
    """A file that is missing, that is none, and a key without its certificate."""
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("canary")
    for settings in (
        {"certificate_authorities": tmp_path / "missing.pem"},
        {"certificate_authorities": nonsense},
        {"client_certificate": nonsense},
        {"client_certificate": tmp_path / "missing.pem"},
        {"client_key": nonsense},
    ):
        with pytest.raises(ConfigurationError, match=r"certificate") as caught:
            produce(**settings)
        assert "canary" not in str(caught.value)


async def test_the_context_of_tls_is_made_once(
    monkeypatch: pytest.MonkeyPatch, server_tls: ssl.SSLContext, authority_file: Path
) -> None:
    """And not for each request, nor each connection."""
    made = []
    create = ssl.create_default_context
    monkeypatch.setattr(
        ssl, "create_default_context", lambda *a, **k: made.append(1) or create(*a, **k)
    )
    async with serve(echo, tls=server_tls) as server:
        transport = produce(certificate_authorities=authority_file)
        for _ in range(3):
            assert await fetch(transport, server) == b"hello"
    assert made == [1]
