"""The transport through the official clients, against servers on loopback."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import traceback
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import msgspec
import openai
import pytest

from support.network.wire_servers import Connection, Server, serve, stall_within
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    LimitError,
    RequestError,
    TransportError,
    TransportTimeoutError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.event_stream import EventStreamRewriter
from vibe_llms.wire.exchanges import Timeouts, WireRequest
from vibe_llms.wire.sdk import SdkTransport
from vibe_llms.wire.sse import SseFramer

BODY = {"model": "m", "messages": [], "stream": True, "temperature": 0.1}
STREAM = b'event: a\ndata: {"type": "a", "odd":  1.0}\n\n: ping\n\ndata: [DONE]\n\n'

Handler = Callable[[Connection], Awaitable[None]]


def produce_request(path: str, **more: Any) -> WireRequest:
    """Returns a request as a provider writes it, for a host that does not count."""
    headers = {"Authorization": Secret("canary"), "X-Extra": "yes", "User-Agent": "us"}
    body = msgspec.json.encode(BODY)
    settings = {"headers": headers, "body": body} | more
    return WireRequest(url=f"https://elsewhere.invalid{path}", **settings)


@asynccontextmanager
async def connect(
    handler: Handler, kind: str, **more: Any
) -> AsyncIterator[tuple[SdkTransport, Server]]:
    """Starts a server and a client of an SDK for it."""
    async with serve(handler) as server:
        client: Any = {
            "anthropic": lambda: anthropic.AsyncAnthropic(api_key="own", base_url=server.url),
            "openai": lambda: openai.AsyncOpenAI(api_key="own", base_url=f"{server.url}/v1"),
            "azure": lambda: openai.AsyncAzureOpenAI(
                api_key="own", api_version="2026-01-01", azure_endpoint=server.url
            ),
            "bedrock": lambda: anthropic.AsyncAnthropicBedrock(
                api_key="own", aws_region="eu-central-1", base_url=server.url
            ),
            "vertex": lambda: anthropic.AsyncAnthropicVertex(
                access_token="own", project_id="p", region="r", base_url=f"{server.url}/v1"
            ),
        }[kind]()
        try:
            yield SdkTransport(client, **more), server
        finally:
            await client.close()


async def stream(connection: Connection) -> None:
    """Answers each request with a stream."""
    while True:
        await connection.read_request()
        await connection.begin()
        await connection.send_chunk(STREAM)
        await connection.send_chunk(b"")


@pytest.mark.parametrize(
    ("kind", "path", "line", "own"),
    [
        ("anthropic", "/v1/messages?beta=true", "/v1/messages?beta=true", "authorization"),
        ("openai", "/base/v1/chat/completions", "/v1/chat/completions", "authorization"),
        ("openai", "/v1/responses", "/v1/responses", "authorization"),
        (
            "azure",
            "/v1/chat/completions",
            "/openai/deployments/m/chat/completions?api-version=2026-01-01",
            "api-key",
        ),
        ("bedrock", "/v1/messages", "/model/m/invoke-with-response-stream", "authorization"),
        (
            "vertex",
            "/v1/messages",
            "/v1/projects/p/locations/r/publishers/anthropic/models/m:streamRawPredict",
            "authorization",
        ),
    ],
)
async def test_requests_go_where_and_as_the_client_says(
    kind: str, path: str, line: str, own: str
) -> None:
    """Its address, its rewriting of path and body, its key and not ours; bytes come out raw."""
    async with connect(stream, kind) as (transport, server):
        async with await transport.send(produce_request(path)) as exchange:
            assert exchange.status == 200
            assert exchange.headers["content-type"] == "text/event-stream"
            assert await exchange.read() == STREAM
        head, headers, body = server.connections[0].requests[0]
        assert head == f"POST {line} HTTP/1.1"
        assert headers[own].removeprefix("Bearer ") == "own"
        assert headers["x-extra"] == "yes"
        assert headers["content-type"] == "application/json"
        assert "canary" not in repr(headers)
        sent = json.loads(body)
        if kind in ("bedrock", "vertex"):
            assert "model" not in sent
            assert "anthropic_version" in sent
        else:
            assert sent == BODY


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["anthropic", "openai"])
@pytest.mark.parametrize("status", ["429 Slow", "500 Broken", "401 Who", "408 Late", "409 No"])
async def test_an_error_is_an_answer_and_is_never_tried_again(kind: str, status: str) -> None:
    """Whatever the SDK thinks of it."""

    async def refuse(connection: Connection) -> None:
        while True:
            await connection.read_request()
            await connection.answer(
                b'{"error": {"type": "x"}}', status=status, headers="Retry-After: 0\r\n"
            )

    async with connect(refuse, kind) as (transport, server):
        exchange = await transport.send(produce_request("/v1/messages"))
        assert exchange.status == int(status[:3])
        assert exchange.headers["retry-after"] == "0"
        assert await exchange.read() == b'{"error": {"type": "x"}}'
        await exchange.close()
        assert sum(len(each.requests) for each in server.connections) == 1


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_get_is_sent_without_a_body(kind: str) -> None:
    """As the list of models is."""

    async def answer(connection: Connection) -> None:
        await connection.read_request()
        await connection.answer(b"[]")

    async with connect(answer, kind) as (transport, server):
        request = produce_request("/v1/models?limit=3", method="GET", body=b"")
        assert await (await transport.send(request)).read() == b"[]"
        assert server.connections[0].requests[0][0] == "GET /v1/models?limit=3 HTTP/1.1"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_what_breaks_is_told_as_by_every_transport(kind: str) -> None:
    """A redirection, a cut body, a stall, a server that hangs up or is not there."""
    modes = iter(["redirect", "cut", "stall", "mute", "hang up"])

    async def misbehave(connection: Connection) -> None:
        mode = next(modes)
        await connection.read_request()
        if mode == "redirect":
            await connection.answer(status="307 On", headers="Location: http://x/y?key=canary\r\n")
        elif mode == "cut":
            await connection.answer(b"half", length=100)
        elif mode == "stall":
            await connection.begin()
            await connection.send_chunk(b"x")
            await connection.wait_closed()
        elif mode == "mute":
            await connection.wait_closed()

    timeouts = Timeouts(first_byte_seconds=1.5, between_chunks_seconds=0.7)
    async with connect(misbehave, kind, timeouts=timeouts) as (transport, server):
        request = produce_request("/v1/messages")
        with pytest.raises(TransportError, match=r"307: a redirect to 'http://x/y'"):
            await transport.send(request)
        exchange = await transport.send(request)
        with pytest.raises(TransportError) as caught:
            await exchange.read()
        assert caught.value.stage == "frame"
        exchange = await transport.send(request)
        assert await exchange.receive() == b"x"
        with pytest.raises(TransportTimeoutError, match="between_chunks_seconds"):
            await exchange.receive()
        await asyncio.wait_for(server.connections[-1].closed.wait(), 60)
        with pytest.raises(TransportTimeoutError, match="first_byte_seconds"):
            await transport.send(request)
        await asyncio.wait_for(server.connections[-1].closed.wait(), 60)
        with pytest.raises(TransportError, match="before it answered"):
            await transport.send(request)
    async with connect(misbehave, kind) as (transport, server):
        pass
    with pytest.raises(ConverseError):
        await transport.send(request)


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_leaving_or_cancelling_closes_the_connection(kind: str) -> None:
    """While it waits in the middle of a stream."""

    async with connect(stall_within, kind) as (transport, server):
        async with await transport.send(produce_request("/v1/messages")) as exchange:
            assert await exchange.receive() == b"x"
        await asyncio.wait_for(server.connections[0].closed.wait(), 60)
        exchange = await transport.send(produce_request("/v1/messages"))
        assert await exchange.receive() == b"x"
        waiting = asyncio.create_task(exchange.receive())
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.wait_for(server.connections[1].closed.wait(), 60)


async def test_limits_hold_for_requests_and_answers() -> None:
    """As for every transport."""
    async with connect(stream, "openai", limits=Limits(response_bytes=20)) as (transport, _):
        with pytest.raises(LimitError, match="response_bytes"):
            await (await transport.send(produce_request("/v1/x"))).read()
    async with connect(stream, "openai", limits=Limits(request_bytes=20)) as (transport, _):
        with pytest.raises(LimitError, match="request_bytes"):
            await transport.send(produce_request("/v1/x"))


async def test_a_body_that_is_no_object_is_refused() -> None:
    """The clients rewrite objects."""
    async with connect(stream, "openai") as (transport, _):
        with pytest.raises(RequestError, match="JSON object"):
            await transport.send(produce_request("/v1/x", body=b"[1"))


# The binary streams of Bedrock


def compose(payload: bytes, **headers: str) -> bytes:
    """Writes one message of a binary event stream."""
    written = b""
    for name, value in headers.items():
        key = f":{name.replace('_', '-')}".encode()
        written += (
            bytes([len(key)]) + key + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        )
    written += b"\x04flag\x00" + b"\x04when\x08" + bytes(8)
    prelude = struct.pack(">II", len(written) + len(payload) + 16, len(written))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + written + payload
    return message + struct.pack(">I", zlib.crc32(message))


def compose_chunk(event: bytes) -> bytes:
    """Writes a chunk that holds an event."""
    payload = json.dumps({"bytes": base64.b64encode(event).decode(), "p": "abcdef"}).encode()
    return compose(payload, message_type="event", event_type="chunk", content_type="x/y")


MESSAGES = [
    compose_chunk(b'{"type":"message_start","message":{}}'),
    compose_chunk('{"type": "delta",\n "text": "é😀"}'.encode()),
    compose(b"{}", message_type="event", event_type="other"),
    compose(
        b'{"message":"too much"}', message_type="exception", exception_type="throttlingException"
    ),
]
FRAMES = [
    ("message_start", {"type": "message_start", "message": {}}),
    ("delta", {"type": "delta", "text": "é😀"}),
    ("error", {"type": "error", "error": {"type": "throttlingException", "message": "too much"}}),
]


async def test_bedrock_streams_become_server_sent_events() -> None:
    """In whatever pieces they come; an exception in them becomes an error event."""
    data = b"".join(MESSAGES)

    async def answer(connection: Connection) -> None:
        await connection.read_request()
        await connection.begin("Content-Type: application/vnd.amazon.eventstream\r\n")
        for start in range(0, len(data), 50):
            await connection.send_chunk(data[start : start + 50])
        await connection.send_chunk(b"")

    framer = SseFramer(Limits())
    async with connect(answer, "bedrock") as (transport, _):
        exchange = await transport.send(produce_request("/v1/messages"))
        assert exchange.headers["content-type"] == "text/event-stream"
        frames = framer.feed(await exchange.read())
    assert [(frame.event, json.loads(frame.data)) for frame in frames] == FRAMES


def test_a_binary_stream_is_cut_anywhere() -> None:
    """Byte by byte it is the same as at once."""
    data = b"".join(MESSAGES)
    pieces = EventStreamRewriter(Limits())
    events = b"".join(pieces.feed(data[at : at + 1]) for at in range(len(data)))
    assert events == EventStreamRewriter(Limits()).feed(data)
    assert not pieces.has_pending


def test_a_binary_stream_that_is_damaged_or_too_long_is_an_error() -> None:
    """Every byte of a message is under one check or the other."""
    message = compose_chunk(b'{"type":"x"}')
    for place in range(len(message)):
        damaged = bytearray(message)
        damaged[place] ^= 1
        with pytest.raises(ConverseError):
            EventStreamRewriter(Limits()).feed(bytes(damaged) + bytes(200))
    with pytest.raises(LimitError, match="event_bytes"):
        EventStreamRewriter(Limits(event_bytes=50)).feed(message[:20])


@pytest.mark.parametrize("word", ["Bedrock", "Vertex", "Foundry"])
@pytest.mark.parametrize("base", ["", "BotoCoreError", "GoogleAuthError"])
async def test_credentials_that_are_not_there_are_told_in_one_line(word: str, base: str) -> None:
    """Before anything was sent, so that it is not tried again; nothing of theirs is repeated."""
    kind = type("Lacking", (type(base, (Exception,), {}),), {}) if base else RuntimeError

    async def refuse(*_: Any, **__: Any) -> None:
        raise kind("AKIA-secret")

    client = type(f"Async{word}", (), {"post": refuse, "base_url": "https://cloud.example"})()
    remedies = {"Bedrock": "AWS_ACCESS_KEY_ID", "Vertex": "gcloud", "Foundry": "environment"}
    with pytest.raises(ConfigurationError) as caught:
        await SdkTransport(client).send(produce_request("/v1/messages"))
    assert "no credentials for https://cloud.example" in str(caught.value)
    assert remedies[word] in str(caught.value)
    assert "AKIA" not in "".join(traceback.format_exception(caught.value))
