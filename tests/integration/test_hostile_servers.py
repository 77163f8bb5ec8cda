"""Whatever a server does to a shipped provider: bounded memory, one clear error, no hang."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from support.network.wire_servers import Connection, Server, serve
from support.quality.properties import STEP
from support.vendors.hostility import begin_event, frame_event, produce_body, produce_stream
from support.vendors.shipped import SHIPPED, SURVEYED, ShippedProvider, is_survey
from vibe_llms.exceptions import (
    ConverseError,
    LimitError,
    ProviderError,
    TransportError,
    TransportTimeoutError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers import sources
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.testing.simulator.scripts import Invoke, Say, Think

REQUEST = Request(canisters=[UserCanister("hello")])
DEADLINE_SECONDS = 30
LIMITS = Limits(
    attempts=1,
    response_bytes=4_000_000,
    event_bytes=200_000,
    arguments_characters=10_000,
    response_contents=20,
)
Attack = Callable[[Connection], Awaitable[None]]

PROTOCOLS = {each.protocol: each for each in SHIPPED.values()}
pytestmark = pytest.mark.samples
providers = (
    pytest.mark.parametrize(  # usually one of each protocol; its others read by the same code
        "provider",
        (PROTOCOLS if STEP > 1 else SHIPPED).values(),
        ids=list(PROTOCOLS if STEP > 1 else SHIPPED),
    )
)
protocols = pytest.mark.parametrize("provider", PROTOCOLS.values(), ids=list(PROTOCOLS))


@asynccontextmanager
async def suffer(
    provider: ShippedProvider, attack: Attack, directory: Path, **settings: float
) -> AsyncIterator[tuple[ConverserModel, Server]]:
    """Lets a server do something to whoever asks it; questions about models are answered well."""

    async def handle(connection: Connection) -> None:
        while True:
            line, _, _ = await connection.read_request()
            if not is_survey(line):
                break
            await connection.answer(SURVEYED, headers="Content-Type: application/json\r\n")
        await attack(connection)

    async with asyncio.timeout(DEADLINE_SECONDS), serve(handle) as server:
        model = await provider.access(server.url, directory, limits=LIMITS, **settings)
        try:
            yield model, server
        finally:
            await model._client.close()  # type: ignore[attr-defined]


async def fail(model: ConverserModel, *, stream: bool = True) -> ConverseError:
    """Returns the error of an answer, which is told in one line."""
    with pytest.raises(ConverseError) as caught:
        await model.converse(REQUEST, stream=stream)
    text = str(caught.value)
    assert text.isprintable()
    assert 10 < len(text) < 3_000
    return caught.value


def stream(provider: ShippedProvider, *pieces: bytes, ends: bool = True) -> Attack:
    """Makes an attack that is a stream."""

    async def attack(connection: Connection) -> None:
        await connection.begin(f"Content-Type: {provider.framing}\r\n")
        for piece in pieces:
            await connection.send_chunk(piece)
        if ends:
            await connection.send_chunk(b"")

    return attack


def answer(body: bytes, kind: str = "application/json", status: str = "200 OK") -> Attack:
    """Makes an attack that is a whole answer."""

    async def attack(connection: Connection) -> None:
        await connection.answer(body, status=status, headers=f"Content-Type: {kind}\r\n")

    return attack


@providers
async def test_a_legal_stream_is_read(provider: ShippedProvider, tmp_path: Path) -> None:
    """So that the other tests fail for their own reasons."""
    body = produce_stream(provider.protocol, Think("I think."), Say("Two words."))
    async with suffer(provider, stream(provider, body), tmp_path) as (model, _):
        assert (await model.converse(REQUEST)).text == "Two words."


def send(body: bytes, kind: str) -> Attack:
    """Makes an attack that is a legal answer under a kind of its own, or under none."""

    async def attack(connection: Connection) -> None:
        await connection.begin(f"Content-Type: {kind}\r\n" if kind else "")
        for start in range(0, len(body), 7):
            await connection.send_chunk(body[start : start + 7])
        await connection.send_chunk(b"")

    return attack


ODD_KINDS = ["", "text/plain; charset=utf-8", "application/json", "text/html", "image/png", "x"]


@pytest.mark.slow
@providers
@pytest.mark.parametrize("kind", ODD_KINDS)
async def test_a_stream_under_another_kind_or_none_is_a_stream(
    provider: ShippedProvider, kind: str, tmp_path: Path
) -> None:
    """The official packages read it, too."""
    body = produce_stream(provider.protocol, Think("I think."), Say("Two words."))
    async with suffer(provider, send(b"\n" + body, kind), tmp_path) as (model, _):
        assert (await model.converse(REQUEST)).text == "Two words."


@pytest.mark.slow
@providers
@pytest.mark.parametrize("kind", ["", "text/plain", "the stream's"])
async def test_an_answer_that_comes_whole_is_taken_whole(
    provider: ShippedProvider, kind: str, tmp_path: Path
) -> None:
    """Under the kind of a stream as well, and on several lines."""
    body = produce_body(provider.protocol, Say("Two words."))
    pretty = json.dumps(json.loads(body), indent=2).encode()
    attack = send(pretty, provider.framing if kind.startswith("the") else kind)
    for streams in (True, False):
        async with suffer(provider, attack, tmp_path) as (model, _):
            assert (await model.converse(REQUEST, stream=streams)).text == "Two words."


@pytest.mark.slow
@providers
@pytest.mark.parametrize("kind", ["", "text/plain", "application/json", "the stream's"])
@pytest.mark.parametrize("indent", [None, 2])
async def test_an_error_under_a_good_status_says_what_it_says(
    provider: ShippedProvider, kind: str, indent: int | None, tmp_path: Path
) -> None:
    """Though a stream was asked for, and JSON is none."""
    told = {"type": "error", "error": {"type": "api_error", "message": "busy now", "code": 500}}
    body = json.dumps(told, indent=indent).encode()
    attack = send(body, provider.framing if kind.startswith("the") else kind)
    for streams in (True, False):
        async with suffer(provider, attack, tmp_path) as (model, _):
            assert "busy now" in str(await fail(model, stream=streams))


@pytest.mark.slow
@providers
@pytest.mark.parametrize("manner", ["broken", "polite"])
async def test_a_stream_that_is_cut_anywhere_is_no_response(
    provider: ShippedProvider, manner: str, tmp_path: Path
) -> None:
    """But where all that was said had come, and the vendor had said so."""
    body = produce_stream(provider.protocol, Think("I think."), Say("Two words."))
    failures = 0
    for eighth in range(8):
        cut = body[: len(body) * eighth // 8]
        attack = stream(provider, *filter(None, [cut]), ends=manner == "polite")
        async with suffer(provider, attack, tmp_path) as (model, _):
            try:
                response = await model.converse(REQUEST)
            except ConverseError:
                failures += 1
            else:
                assert response.text == "Two words."
                assert manner == "polite" or eighth > 3

    assert failures >= 4


@pytest.mark.slow
@providers
@pytest.mark.parametrize("part", ["", "HT", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-"])
async def test_an_answer_without_a_body_is_an_error(
    provider: ShippedProvider, part: str, tmp_path: Path
) -> None:
    """Cut before or within its headers."""

    async def attack(connection: Connection) -> None:
        await connection.write(part.encode())

    async with suffer(provider, attack, tmp_path) as (model, _):
        assert isinstance(await fail(model), TransportError)


@pytest.mark.slow
@providers
async def test_an_endless_body_is_left(provider: ShippedProvider, tmp_path: Path) -> None:
    """Beyond ``response_bytes``, streamed or whole; the server cannot send much more."""
    for kind, streams in ((provider.framing, True), ("application/json", False)):
        sent = 0

        async def flood(connection: Connection, kind: str = kind) -> None:
            nonlocal sent
            await connection.begin(f"Content-Type: {kind}\r\n")
            while True:
                await connection.send_chunk(b" " * 65_535 + b"\n")
                sent += 65_536

        async with suffer(provider, flood, tmp_path) as (model, _):
            error = await fail(model, stream=streams)
            assert isinstance(error, LimitError)
            assert error.limit in ("response_bytes", "event_bytes")
            assert "[limits]" in str(error)
        assert sent < LIMITS.response_bytes + 16_000_000  # what the kernel holds


@providers
async def test_an_endless_event_is_left(provider: ShippedProvider, tmp_path: Path) -> None:
    """Beyond ``event_bytes``, long before ``response_bytes``."""

    async def flood(connection: Connection) -> None:
        await connection.begin(f"Content-Type: {provider.framing}\r\n")
        await connection.send_chunk(begin_event(provider.protocol))
        while True:
            await connection.send_chunk(b"x" * 65_536)

    async with suffer(provider, flood, tmp_path) as (model, _):
        error = await fail(model)
        assert isinstance(error, LimitError)
        assert error.limit == "event_bytes"


@pytest.mark.slow
@providers
async def test_endless_arguments_are_left(provider: ShippedProvider, tmp_path: Path) -> None:
    """Beyond ``arguments_characters``, streamed or whole."""
    call = Invoke("look", {"at": "x" * 12_000}, id="call_1")
    body = produce_stream(provider.protocol, call)
    async with suffer(provider, stream(provider, body), tmp_path) as (model, _):
        error = await fail(model)
        assert isinstance(error, LimitError)
        assert error.limit == "arguments_characters"
    whole = produce_body(provider.protocol, call)
    async with suffer(provider, answer(whole), tmp_path) as (model, _):
        assert isinstance(await fail(model, stream=False), LimitError)


@providers
async def test_endless_contents_are_left(provider: ShippedProvider, tmp_path: Path) -> None:
    """Beyond ``response_contents``."""
    calls = [Invoke("look", {"at": number}, id=f"call_{number}") for number in range(30)]
    body = produce_stream(provider.protocol, *calls)
    async with suffer(provider, stream(provider, body), tmp_path) as (model, _):
        error = await fail(model)
        assert isinstance(error, LimitError)
        assert error.limit == "response_contents"


DEEP = b"[" * 90_000 + b"]" * 90_000


@pytest.mark.slow
@providers
async def test_deep_nesting_is_an_error(provider: ShippedProvider, tmp_path: Path) -> None:
    """In an event, in a whole response and in an error."""
    deep = frame_event(provider.protocol, b'{"x":' + DEEP + b"}")
    async with suffer(provider, stream(provider, deep), tmp_path) as (model, _):
        await fail(model)
    async with suffer(provider, answer(b'{"choices":' + DEEP + b"}"), tmp_path) as (model, _):
        await fail(model, stream=False)
    bad = answer(b'{"error":' + DEEP + b"}", status="400 Bad Request")
    async with suffer(provider, bad, tmp_path) as (model, _):
        error = await fail(model)
        assert isinstance(error, ProviderError)
        assert error.status == 400


@pytest.mark.slow
@providers
@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"<html>", b"null", b"[]", b"{}", b"7", b'"x"'])
async def test_a_body_that_is_no_response_is_an_error(
    provider: ShippedProvider, body: bytes, tmp_path: Path
) -> None:
    """As a whole response, a stream's only event, and an error of the vendor."""
    async with suffer(provider, answer(body), tmp_path) as (model, _):
        await fail(model, stream=False)
    event = stream(provider, frame_event(provider.protocol, body))
    async with suffer(provider, event, tmp_path) as (model, _):
        await fail(model)
    bad = answer(body, status="500 Internal Server Error")
    async with suffer(provider, bad, tmp_path) as (model, _):
        assert isinstance(await fail(model), ProviderError)


@pytest.mark.slow
@providers
@pytest.mark.parametrize("kind", ["text/html", "image/png", "application/octet-stream", "x"])
async def test_another_kind_of_answer_is_named(
    provider: ShippedProvider, kind: str, tmp_path: Path
) -> None:
    """Whatever is in it."""
    for streams in (True, False):
        async with suffer(provider, answer(b"\x1b[2J{}\r\n\r\n", kind), tmp_path) as (model, _):
            error = await fail(model, stream=streams)
            assert kind in str(error)


@providers
async def test_redirections_are_not_followed(provider: ShippedProvider, tmp_path: Path) -> None:
    """Not once, so not for ever; a key would go with them."""

    async def redirect(connection: Connection) -> None:
        headers = "Location: /over/here?key=x\r\n"
        await connection.answer(status="307 Temporary Redirect", headers=headers)
        await connection.read_request()

    async with suffer(provider, redirect, tmp_path) as (model, server):
        error = await fail(model)
        assert "/over/here" in str(error)
        assert "?key" not in str(error)
        lines = [line for each in server.connections for line, _, _ in each.requests]
        assert len([line for line in lines if not is_survey(line)]) == 1


async def leap(seconds: float) -> None:
    """Lets time pass, to all that wait in this loop; nobody has waited."""
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds  # type: ignore[method-assign]
    await asyncio.sleep(0)


@providers
async def test_headers_that_trickle_are_left(provider: ShippedProvider, tmp_path: Path) -> None:
    """A letter at a time is no answer."""

    async def trickle(connection: Connection) -> None:
        await connection.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while True:
            await connection.write(b"x")
            await leap(1.0)

    async with suffer(provider, trickle, tmp_path) as (model, _):
        error = await fail(model)
        assert isinstance(error, TransportTimeoutError)
        assert "first_byte_seconds" in str(error)


@providers
async def test_a_body_that_trickles_is_left(provider: ShippedProvider, tmp_path: Path) -> None:
    """After ``total_seconds``, however often something comes."""

    async def trickle(connection: Connection) -> None:
        await connection.begin(f"Content-Type: {provider.framing}\r\n")
        while True:
            await connection.send_chunk(b"\n")
            await leap(1.0)

    async with suffer(provider, trickle, tmp_path, total_seconds=15) as (model, _):
        error = await fail(model)
        assert isinstance(error, TransportTimeoutError)
        assert "total_seconds" in str(error)


@pytest.mark.slow
@providers
async def test_endless_headers_are_left(provider: ShippedProvider, tmp_path: Path) -> None:
    """One that is too long, and too many of them."""
    for line in (b"X-Long: " + b"x" * 10_000_000, b"X-Many: x\r\n" * 1_000_000):

        async def attack(connection: Connection, line: bytes = line) -> None:
            await connection.write(b"HTTP/1.1 200 OK\r\n" + line)

        async with suffer(provider, attack, tmp_path) as (model, _):
            assert isinstance(await fail(model), TransportError)


@asynccontextmanager
async def measure() -> AsyncIterator[Callable[[], int]]:
    """Gives what tells how many bytes of memory were held at most."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@functools.cache
def produce_bomb() -> bytes:
    """Packs 200 MB, which takes longer than a test with them."""
    return gzip.compress(b" " * 200_000_000, 1)


@pytest.mark.slow
@protocols
async def test_a_packed_bomb_is_left(provider: ShippedProvider, tmp_path: Path) -> None:
    """What it unpacks to counts, and it is not unpacked first."""
    bomb = produce_bomb()

    async def attack(connection: Connection) -> None:
        headers = "Content-Type: application/json\r\nContent-Encoding: gzip\r\n"
        with suppress(ConnectionError):
            await connection.answer(bomb, headers=headers)

    async with suffer(provider, attack, tmp_path) as (model, _), measure() as peak:
        error = await fail(model, stream=False)
        assert isinstance(error, LimitError)
        assert peak() < 50_000_000


@pytest.mark.slow
@protocols
async def test_a_million_comments_are_nothing(provider: ShippedProvider, tmp_path: Path) -> None:
    """They keep a stream alive and leave nothing behind; blank lines do so among lines of JSON."""
    body = produce_stream(provider.protocol, Say("Two words."))
    comment = b"\n" if "ndjson" in provider.framing else b":\n"
    flood = stream(provider, *[comment * 50_000] * 19, comment * 49_999 + b"\n" + body)
    if provider.protocol == "bedrock":  # which has no comments; an event is a hundred bytes
        comment = frame_event(provider.protocol, b"{}", "keepAlive")
        flood = stream(provider, *[comment * 500] * 9, comment * 500 + body)
    async with suffer(provider, flood, tmp_path) as (model, _):
        assert (await model.converse(REQUEST)).text == "Two words."


@pytest.mark.slow
@protocols
async def test_many_events_of_nothing_leave_nothing(
    provider: ShippedProvider, tmp_path: Path
) -> None:
    """What is unknown is passed on and let go: memory is that of the events on their way."""
    event = frame_event(provider.protocol, b'{"type":"of.nothing","x":{}}', "of.nothing")

    async def attack(connection: Connection) -> None:
        await connection.begin(f"Content-Type: {provider.framing}\r\n")
        for _ in range(50):
            await connection.send_chunk(event * 100)
            for _ in range(9):
                await asyncio.sleep(0)  # so that few are on their way
        await connection.send_chunk(b"")

    async with suffer(provider, attack, tmp_path) as (model, _):
        expected = await fail(model)  # what is imported and kept once is none of it
    async with suffer(provider, attack, tmp_path) as (model, _), measure() as peak:
        assert str(await fail(model)) == str(expected)
        assert peak() < 1_200_000


@pytest.mark.slow
@providers
async def test_numbers_beyond_all_sense_do_no_harm(
    provider: ShippedProvider, tmp_path: Path
) -> None:
    """NaN, infinities, numbers of thousands of digits, and the same key twice."""
    for odd in (b"NaN", b"-Infinity", b"1e999", b"9" * 5_000, b'1,"usage":{},"type":[]'):
        body = produce_body(provider.protocol, Say("Two words."))
        changed = body.replace(b"{", b'{"usage":' + odd + b",", 1)
        for attack, streams in (
            (answer(changed), False),
            (stream(provider, frame_event(provider.protocol, changed)), True),
        ):
            async with suffer(provider, attack, tmp_path) as (model, _):
                with suppress(ConverseError):
                    await model.converse(REQUEST, stream=streams)


@pytest.mark.slow
@providers
async def test_a_list_of_models_that_makes_no_sense_is_an_error(
    provider: ShippedProvider, tmp_path: Path
) -> None:
    """Whatever it is instead."""
    for body in (b"[]", b"7", b"null", b'{"data": 7, "models": 7}', b'{"data":[7],"models":[7]}'):
        async with suffer(provider, answer(body), tmp_path) as (model, _):
            client = model._client  # type: ignore[attr-defined]
            with suppress(ConverseError):
                await client.survey_models(refresh=True)


@providers
async def test_a_server_that_stalls_behind_its_end_does_not_delay(
    provider: ShippedProvider, tmp_path: Path
) -> None:
    """Where the vendor says that its response is complete, nobody waits for the connection."""
    if provider.protocol == "generate_content":
        return  # says no such thing
    body = produce_stream(provider.protocol, Say("Two words."))

    async def stall(connection: Connection) -> None:
        await stream(provider, body, ends=False)(connection)
        await connection.wait_closed()

    async with suffer(provider, stall, tmp_path, between_chunks_seconds=60) as (model, _):
        assert (await model.converse(REQUEST)).text == "Two words."


@providers
async def test_a_connection_is_used_again(
    provider: ShippedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a stream that was read to its end, also where the end came a little later."""
    monkeypatch.setattr(sources, "_DRAINING_SECONDS", 60)
    body = produce_stream(provider.protocol, Say("Two words."))

    async def answer_all(connection: Connection) -> None:
        while True:
            await connection.begin(f"Content-Type: {provider.framing}\r\n")
            await connection.send_chunk(body)
            await asyncio.sleep(0.005)
            await connection.send_chunk(b"")
            await connection.read_request()

    async with suffer(provider, answer_all, tmp_path) as (model, server):
        for _ in range(3):
            assert (await model.converse(REQUEST)).text == "Two words."
        assert len(server.connections) == 1
