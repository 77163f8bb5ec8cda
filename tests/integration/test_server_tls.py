"""TLS and mutual TLS of our server, and files that are replaced while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
import socket
import ssl
from pathlib import Path

import aiohttp
import pytest
import trustme
from cryptography import x509

from support.gateways.authorizers import CertificateAuthorizer
from support.gateways.gateways import produce_application, wait_until
from support.network.serving import (
    Client,
    Message,
    Receive,
    Send,
    Served,
    begin_answer,
    compose_request,
    echo,
    send_body,
    serving,
)
from support.network.wire_servers import Connection
from support.network.wire_servers import serve as serve_upstream
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.server import Server, ServerSettings, listening
from vibe_llms.exceptions import ConfigurationError, TransportError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.testing.contracts.worlds import World
from vibe_llms.testing.simulator import Say, Simulator


def write(folder: Path, authority: trustme.CA, name: str, *, host: str = "127.0.0.1") -> Path:
    """Writes a certificate and its key to one file, as a whole, in place of what was there."""
    issued = authority.issue_cert(host)
    path, draft = folder / name, folder / f"{name}.new"
    issued.private_key_and_cert_chain_pem.write_to_path(draft)
    draft.replace(path)
    return path


def trust(authority: trustme.CA) -> ssl.SSLContext:
    """Makes the context of a client."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_what_goes_over_tls_is_said_to(tmp_path: Path) -> None:
    """The scheme is https, and the version of TLS is told."""
    authority = trustme.CA()
    seen: list[Message] = []

    async def see(scope: Message, receive: Receive, send: Send) -> None:
        seen.append(scope)
        await begin_answer(send)
        await send_body(send, b"x" * 1_000_000)

    async with serving(see, certificate=write(tmp_path, authority, "one.pem")) as served:
        assert served.server.urls[0].startswith("https://")
        client = await served.connect(ssl=trust(authority))
        for _ in range(2):
            assert len((await client.ask(compose_request())).body) == 1_000_000

    assert seen[0]["scheme"] == "https"
    assert seen[0]["extensions"]["tls"]["tls_version"] == 0x0304
    assert seen[0]["extensions"]["tls"]["client_cert_chain"] == []


async def test_clients_need_a_certificate_where_their_authorities_are_named(tmp_path: Path) -> None:
    """One of another authority, or none, does not come in; the subject of the right one is told."""
    authority, stranger = trustme.CA(), trustme.CA()
    authorities = tmp_path / "authorities.pem"
    authority.cert_pem.write_to_path(authorities)
    subjects: list[str] = []

    async def see(scope: Message, receive: Receive, send: Send) -> None:
        subjects.append(scope["extensions"]["tls"]["client_cert_name"])
        await begin_answer(send)
        await send_body(send, b"in")

    certificate = write(tmp_path, authority, "server.pem")
    async with serving(see, certificate=certificate, client_authorities=authorities) as served:
        for issuer, is_in in ((None, False), (stranger, False), (authority, True)):
            context = trust(authority)
            if issuer is not None:
                issuer.issue_cert("me@h", common_name="Me, myself").configure_cert(context)
            answer = b""
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                answer = (await (await served.connect(ssl=context)).ask(compose_request())).body
            assert answer == (b"in" if is_in else b"")

    assert len(subjects) == 1
    assert "CN=Me\\, myself" in subjects[0]


async def test_an_authorizer_may_let_in_by_certificate(tmp_path: Path) -> None:
    """Whose subject it is told; who has another is known to the authorities, and refused here."""
    authority = trustme.CA()
    authorities = tmp_path / "authorities.pem"
    authority.cert_pem.write_to_path(authorities)
    issued = {name: authority.issue_cert(f"{name}@h", common_name=name) for name in ("me", "you")}
    subjects = {name: _read_subject(each) for name, each in issued.items()}
    porter = CertificateAuthorizer(subjects["me"])
    service = produce_service(
        produce_application(tmp_path, "http://127.0.0.1:9"), authorizer=porter
    )
    settings = ServerSettings(
        port=0,
        certificate=write(tmp_path, authority, "server.pem"),
        client_authorities=authorities,
    )
    statuses = {}
    async with Server(service, settings) as server:
        port = int(server.urls[0].rpartition(":")[2])
        for name, shown in issued.items():
            context = trust(authority)
            shown.configure_cert(context)
            client = Client(*await asyncio.open_connection("127.0.0.1", port, ssl=context))
            statuses[name] = (await client.ask(compose_request(path="/api/tags"))).status
            client.leave()

    assert statuses == {"me": 200, "you": 401}
    assert porter.seen == [subjects["me"], subjects["you"]]
    assert porter.seen[0].startswith("CN=me,")


async def test_an_authorizer_sees_the_certificate_of_requests_inside_a_socket(
    tmp_path: Path,
) -> None:
    """Who came in by it asks by it, too: each request of the socket is admitted like any."""
    authority = trustme.CA()
    authorities = tmp_path / "authorities.pem"
    authority.cert_pem.write_to_path(authorities)
    issued = authority.issue_cert("me@h", common_name="me")
    porter = CertificateAuthorizer(_read_subject(issued))
    context = trust(authority)
    issued.configure_cert(context)
    async with Simulator() as simulator:
        simulator.enqueue(Say("The North Sea."))
        service = produce_service(produce_application(tmp_path, simulator.url), authorizer=porter)
        settings = ServerSettings(
            port=0,
            certificate=write(tmp_path, authority, "server.pem"),
            client_authorities=authorities,
        )
        async with (
            Server(service, settings) as server,
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{server.urls[0]}/v1/responses", ssl=context) as socket,
        ):
            event = {"type": "response.create", "model": "anthropic:m", "input": "A sea?"}
            await socket.send_json(event)
            while (told := (await socket.receive_json(timeout=20))["type"]) != "response.completed":
                assert told != "error"

    assert porter.seen == [_read_subject(issued)] * 2


def _read_subject(issued: trustme.LeafCert) -> str:
    """Returns the subject of a certificate, by another way than the server's."""
    certificate = x509.load_pem_x509_certificate(issued.cert_chain_pems[0].bytes())
    return certificate.subject.rfc4514_string()


async def test_replaced_files_hold_for_the_connections_that_come_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Those that are open stay; files that are wrong change nothing and are logged."""
    old, new = trustme.CA(), trustme.CA()
    path = write(tmp_path, old, "server.pem")
    async with serving(echo, certificate=path) as served:
        before = await served.connect(ssl=trust(old))
        assert (await before.ask(compose_request())).status == 200

        write(tmp_path, new, "server.pem")
        served.server.reload()
        assert (await before.ask(compose_request())).status == 200
        assert await _is_welcome(served.port, new)
        assert not await _is_welcome(served.port, old)

        path.write_text("no certificate")
        with caplog.at_level(logging.ERROR):
            served.server.reload()
        assert "server.pem cannot be loaded" in caplog.text
        assert await _is_welcome(served.port, new)


async def test_replaced_files_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has to say so."""
    monkeypatch.setattr("vibe_llms.daemons.server.serving.RELOAD_SECONDS", 0.01)
    old, new = trustme.CA(), trustme.CA()
    path = write(tmp_path, old, "server.pem")
    async with serving(echo, certificate=path) as served:
        assert await _is_welcome(served.port, old)
        write(tmp_path, new, "server.pem")

        async with asyncio.timeout(15):
            while not await _is_welcome(served.port, new):
                pass


async def _is_welcome(port: int, authority: trustme.CA) -> bool:
    try:
        opened = await asyncio.open_connection("127.0.0.1", port, ssl=trust(authority))
    except ssl.SSLError:
        return False
    client = Client(*opened)
    answer = await client.ask(compose_request())
    client.leave()
    return answer.status == 200


@pytest.mark.slow
async def test_what_is_no_tls_is_sent_away(tmp_path: Path) -> None:
    """Plain HTTP, noise, and nobody who says anything; others are served meanwhile."""
    authority = trustme.CA()
    path = write(tmp_path, authority, "server.pem")
    async with serving(echo, certificate=path, head_seconds=1.0) as served:
        for sent in (compose_request(), bytes(range(256)), b"\x16\x03\x01", b""):
            client = await served.connect()
            await client.write(sent)
            answer = await asyncio.wait_for(client.read_all(), 15)
            assert b"HTTP" not in answer
        assert await _is_welcome(served.port, authority)


async def test_tls_that_breaks_at_any_point_is_sent_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of a true client, changed at random: in the handshake, and behind it."""
    authority = trustme.CA()
    path = write(tmp_path, authority, "server.pem")
    dice, trusting = random.Random(7), trust(authority)
    monkeypatch.setattr(listening, "LINGER_SECONDS", 0.1)
    async with serving(echo, certificate=path, head_seconds=1.0) as served:
        broken = await asyncio.gather(
            *(break_tls(served, trusting, random.Random(dice.random())) for _ in range(40))
        )
        assert all(b"HTTP" not in said for said in broken)
        assert await _is_welcome(served.port, authority)
    assert "Traceback" not in caplog.text


async def break_tls(served: Served, trusting: ssl.SSLContext, dice: random.Random) -> bytes:
    """Speaks TLS until one of the messages is changed; returns what the server says then."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    made = trusting.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    client = await served.connect()
    for _ in range(dice.randrange(3)):
        with contextlib.suppress(ssl.SSLWantReadError):
            made.do_handshake()
        await client.write(outgoing.read())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                incoming.write(await client.reader.read(65_536))
    with contextlib.suppress(ssl.SSLWantReadError):
        made.do_handshake()
        made.write(compose_request())
    data = bytearray(outgoing.read() or b"\x17\x03\x03\x00\x20")
    for _ in range(dice.randint(1, 4)):
        data[dice.randrange(len(data))] ^= dice.randint(1, 255)
    await client.write(bytes(data[: dice.randint(1, len(data))]))
    if client.writer.can_write_eof() and dice.random() < 0.3:
        client.writer.write_eof()
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(15):
            return await client.reader.read()
    return b""


async def test_a_client_that_goes_is_noticed_over_tls(tmp_path: Path) -> None:
    """With and without a word of leave."""
    authority = trustme.CA()
    gone: asyncio.Queue[Message] = asyncio.Queue()

    async def wait(scope: Message, receive: Receive, send: Send) -> None:
        await receive()
        await begin_answer(send)
        await send_body(send, b"x", more=True)
        gone.put_nowait(await receive())

    async with serving(wait, certificate=write(tmp_path, authority, "one.pem")) as served:
        for is_polite in (True, False):
            client = await served.connect(ssl=trust(authority))
            await client.write(compose_request())
            await client.read_head()
            if is_polite:
                client.writer.close()
            else:
                client.leave()
            assert (await asyncio.wait_for(gone.get(), 15))["type"] == "http.disconnect"


async def test_who_says_no_good_bye_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the pools of most clients, which read nothing between two requests."""
    monkeypatch.setattr(listening, "LINGER_SECONDS", 0.1)
    authority = trustme.CA()

    def ask(port: int) -> ssl.SSLSocket:
        made = socket.create_connection(("127.0.0.1", port))
        client = trust(authority).wrap_socket(made, server_hostname="127.0.0.1")
        client.sendall(compose_request())
        client.recv(65_536)
        return client

    async with serving(echo, certificate=write(tmp_path, authority, "one.pem")) as served:
        with await asyncio.to_thread(ask, served.port):
            async with asyncio.timeout(15):
                await served.server.drain()
            assert not served.server.connections


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "streaming"), [("openai_conversations:m", True), ("anthropic:m", False)]
)
async def test_a_client_of_the_gateway_that_goes_ends_what_is_upstream_over_tls(
    tmp_path: Path, model: str, streaming: bool
) -> None:
    """TLS on both sides, and an upstream that says no good-bye, as it only waits."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)

    async def begin_and_wait(connection: Connection) -> None:
        await connection.read_request()
        if streaming:
            await connection.begin()
        await connection.wait_closed()

    async with serve_upstream(begin_and_wait, tls=context) as upstream:
        settings = f'certificate_authorities = "{tmp_path / "authority.pem"}"'
        service = produce_service(produce_application(tmp_path, upstream.url, settings=settings))
        path = write(tmp_path, authority, "one.pem")
        async with Server(service, ServerSettings(port=0, certificate=path)) as server:
            port = int(server.urls[0].rpartition(":")[2])
            opened = await asyncio.open_connection("127.0.0.1", port, ssl=trust(authority))
            client = Client(*opened)
            body = {"model": model, "messages": [{"role": "user", "content": "A sea?"}]}
            asked = json.dumps({**body, "stream": streaming}).encode()
            head = "Content-Type: application/json\r\n"
            await client.write(compose_request("POST", "/v1/chat/completions", head, asked))
            await wait_until(lambda: upstream.connections and upstream.connections[0].requests)
            client.leave()
            await asyncio.wait_for(upstream.connections[0].closed.wait(), 15)


async def _follow(world: World, told: list[str]) -> None:
    async with world.model.stream(Request(canisters=[UserCanister("Hello")])) as stream:
        async for event in stream:
            told.append(event.type)


async def test_a_certificate_that_is_not_trusted_is_no_server_that_is_to_be_started(
    tmp_path: Path,
) -> None:
    """Whoever runs the gateway has started it: what is missing is the authority."""
    path = write(tmp_path, trustme.CA(), "one.pem")
    async with (
        serving(echo, certificate=path) as served,
        World(
            module="vibe_llms.providers.gateway",
            name="remote",
            model_name="scripted:echo",
            settings={"base_url": f"https://127.0.0.1:{served.port}"},
            directory=tmp_path / "near",
        ) as world,
    ):
        told: list[str] = []
        with pytest.raises(TransportError, match="cannot be trusted") as caught:
            await _follow(world, told)
    assert told == ["response.failed"]  # no retry of what cannot become better
    assert "set the certificate authorities" in caught.value.remedy
    assert "Start it" not in caught.value.remedy


@pytest.mark.parametrize("which", ["certificate", "key", "client_authorities"])
async def test_files_that_are_wrong_are_named(tmp_path: Path, which: str) -> None:
    """With the setting, and what they must be."""
    good = write(tmp_path, trustme.CA(), "good.pem")
    bad = tmp_path / "bad.pem"
    bad.write_text("nothing")
    files = {"certificate": good, "key": good, "client_authorities": good, which: bad}

    with pytest.raises(ConfigurationError, match=f"server.{which}: .*bad.pem cannot be loaded"):
        async with Server(echo, ServerSettings(port=0, **files)):  # type: ignore[arg-type]
            pass
