"""TLS that is none, stops half-way, or is broken afterwards: it ends in time, and alone.

Each case runs in the event loop of Python and in the one that ``vibe serve`` prefers.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
import uvloop

from support.network.serving import Client, Served, compose_request, echo, serving

PATIENCE = {"head_seconds": 0.3, "idle_seconds": 0.5}
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class Speaker:
    """A client of TLS that is at hand record by record."""

    def __init__(self, client: Client, context: ssl.SSLContext) -> None:
        self.client = client
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="127.0.0.1")

    def greet(self) -> bytes:
        """Returns the first record of a handshake."""
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._outgoing.read()

    async def shake(self) -> None:
        """Goes through the whole handshake."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self.client.write(self._outgoing.read())
                data = await self.client.reader.read(65_536)
                if not data:
                    raise ConnectionError("no handshake") from None
                self._incoming.write(data)
            else:
                await self.client.write(self._outgoing.read())
                return

    def seal(self, data: bytes) -> bytes:
        """Returns what is said, as it goes over the wire."""
        self._tls.write(data)
        return self._outgoing.read()


def record(kind: int, body: bytes, version: int = 0x0303) -> bytes:
    """Writes a record of TLS."""
    return bytes([kind]) + version.to_bytes(2, "big") + len(body).to_bytes(2, "big") + body


def spoil(data: bytes) -> bytes:
    """Turns over the last bit of the last byte."""
    return data[:-1] + bytes([data[-1] ^ 1])


BEFORE: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda hello: b"",
    "plain HTTP": lambda hello: compose_request(),
    "noise": lambda hello: bytes(range(256)),
    "zeros": lambda hello: bytes(70_000),
    "one byte": lambda hello: hello[:1],
    "half a greeting": lambda hello: hello[: len(hello) // 2],
    "a greeting and no more": lambda hello: hello,
    "a greeting twice": lambda hello: hello * 2,
    "a greeting and noise": lambda hello: hello + bytes(range(256)),
    "a greeting and plain HTTP": lambda hello: hello + compose_request(),
    "a spoiled greeting": lambda hello: hello[:40] + bytes(len(hello) - 40),
    "a record too long": lambda hello: b"\x16\x03\x01\xff\xff" + bytes(65_535),
    "an empty record": lambda hello: record(22, b"") * 100,
    "a greeting of SSL 2": lambda hello: bytes.fromhex("802e0100020015000000100100800200800000"),
    "an old version": lambda hello: hello[:9] + b"\x03\x00" + hello[11:43] + bytes(400),
    "an alert": lambda hello: record(21, b"\x02\x28"),
    "data at once": lambda hello: record(23, bytes(300)),
    "a change of ciphers at once": lambda hello: record(20, b"\x01") * 50,
}
"""What is said where a handshake should be."""

AFTER: dict[str, Callable[[Speaker], bytes]] = {
    "a spoiled record": lambda speaker: spoil(speaker.seal(compose_request())),
    "a greeting again": lambda speaker: record(22, b"\x01\x00\x00\x04\x03\x03\x00\x00"),
    "a wish for another handshake": lambda speaker: record(22, bytes(4)),
    "plain HTTP": lambda speaker: compose_request(),
    "noise": lambda speaker: bytes(range(256)),
    "half a record": lambda speaker: speaker.seal(compose_request())[:20],
    "half a request": lambda speaker: speaker.seal(compose_request()[:10]),
    "a record said again": lambda speaker: 2 * speaker.seal(b"GET / HT"),
    "a change of ciphers": lambda speaker: record(20, b"\x01") * 50,
}
"""What is said behind a whole handshake."""


async def send(client: Client, data: bytes, *, leaves: bool) -> bytes:
    """Says something, and returns what comes back until the end; nothing may hang."""
    with suppress(ConnectionError):
        await client.write(data)
        if leaves and client.writer.can_write_eof():
            client.writer.write_eof()
    return await asyncio.wait_for(client.read_all(), 15)


async def befriend(served: Served, context: ssl.SSLContext) -> None:
    """Makes sure that another is served.

    On a busy machine a request may come later than the server is patient, so that another is sent.
    """
    for attempt in range(5):
        friend = await served.connect(ssl=context)
        try:
            assert (await friend.ask(compose_request())).status == 200
        except (asyncio.IncompleteReadError, ConnectionError):
            if attempt == 4:
                raise
        else:
            friend.leave()
            return


async def ensure_served(served: Served, context: ssl.SSLContext) -> None:
    """Makes sure that another is served, and that nothing is left of whoever was not."""
    await befriend(served, context)
    service, listener = served.server._service, served.server._listener
    assert service is not None
    assert listener is not None
    await served.wait_until(lambda: not (service.connections or service.handshaking))
    await served.wait_until(lambda: not listener._admitting)


def prepare(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Returns a certificate, and the context of a client that trusts it."""
    authority = trustme.CA()
    path = folder / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(path)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return path, context


def ensure_calm(logged: pytest.LogCaptureFixture) -> None:
    """Makes sure that nobody was told more than a line."""
    assert [each for each in logged.records if each.exc_info or "\n" in each.getMessage()] == []


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broken_handshake_ends_in_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, loop: str, version: ssl.TLSVersion
) -> None:
    """Whether the client stays or goes; others are served meanwhile, and nothing is kept."""
    certificate, context = prepare(tmp_path)
    context.maximum_version = version

    async def perform() -> None:
        async with serving(echo, certificate=certificate, **PATIENCE) as served:

            async def suffer(say: Callable[[bytes], bytes], *, leaves: bool) -> None:
                client = await served.connect()
                data = say(Speaker(client, context).greet())
                assert b"HTTP/1.1" not in await send(client, data, leaves=leaves)

            await asyncio.gather(
                *(
                    suffer(say, leaves=leaves)
                    for say in BEFORE.values()
                    for leaves in (False, True)
                ),
                befriend(served, context),
            )
            await ensure_served(served, context)

    with caplog.at_level(logging.INFO):
        run(perform, loop)
    ensure_calm(caplog)


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_what_breaks_behind_the_handshake_ends_in_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, loop: str, version: ssl.TLSVersion
) -> None:
    """The same; an end without a word of leave is one, too."""
    certificate, context = prepare(tmp_path)
    context.maximum_version = version

    async def perform() -> None:
        async with serving(echo, certificate=certificate, **PATIENCE) as served:

            async def suffer(say: Callable[[Speaker], bytes], *, leaves: bool) -> None:
                client = await served.connect()
                speaker = Speaker(client, context)
                await speaker.shake()
                await send(client, say(speaker), leaves=leaves)

            await asyncio.gather(
                *(suffer(say, leaves=leaves) for say in AFTER.values() for leaves in (False, True)),
                befriend(served, context),
            )
            await ensure_served(served, context)

    with caplog.at_level(logging.INFO):
        run(perform, loop)
    ensure_calm(caplog)


@pytest.mark.slow  # `pytest -m slow -k nonsense_of_tls`: 1,000 connections for each loop
@pytest.mark.parametrize("loop", LOOPS)
def test_any_nonsense_of_tls_ends_in_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, loop: str
) -> None:
    """Greetings and records cut, spoiled, repeated and mixed, by chance."""
    certificate, context = prepare(tmp_path)
    seed = random.SystemRandom().getrandbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)

    async def perform() -> None:
        async with serving(echo, certificate=certificate, **PATIENCE) as served:

            async def suffer() -> None:
                client = await served.connect()
                speaker = Speaker(client, context)
                if chance.random() < 0.5:
                    data = speaker.greet()
                else:
                    await speaker.shake()
                    data = speaker.seal(compose_request(body=b"x" * chance.randint(1, 500)))
                told = await send(client, mutate(data, chance), leaves=chance.random() < 0.5)
                assert b"HTTP/1.1" not in told
                client.leave()
                served.clients.remove(client)

            for _ in range(25):
                await asyncio.gather(*(suffer() for _ in range(20)))
                await ensure_served(served, context)

    with caplog.at_level(logging.INFO):
        run(perform, loop)
    ensure_calm(caplog)


def mutate(data: bytes, chance: random.Random) -> bytes:
    """Does something wrong to what goes over the wire."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data = data[:at]
            case 1:
                data = data[:at] + chance.randbytes(chance.randint(1, 300)) + data[at:]
            case 2:
                data = data[:at] + chance.randbytes(1) + data[at + 1 :]
            case 3:
                data = data[:at] + record(chance.randint(19, 25), chance.randbytes(20)) + data[at:]
    return data


def run(perform: Callable[[], Coroutine[Any, Any, None]], loop: str) -> None:
    """Runs a test in one of the event loops."""
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(perform())
