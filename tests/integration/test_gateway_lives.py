"""Streams that are silent for long: a sign of life goes to the client, which passes it by."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from support.gateways.judging import open_judge
from support.network.wire_servers import Connection, serve
from vibe_llms.daemons.gateway import keep_alive

HEAD = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"
CHAT = [
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":'
    b'{"role":"assistant","content":"The North"}}]}\n\n',
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":'
    b'{"content":" Sea."},"finish_reason":"stop"}]}\n\n',
    b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":[],"usage":'
    b'{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}}\n\ndata: [DONE]\n\n',
]
MESSAGES = [
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","type":"message",'
    b'"role":"assistant","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}'
    b'\n\nevent: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\nevent: content_block_delta\ndata: '
    b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"The North"}}'
    b"\n\n",
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":'
    b'{"type":"text_delta","text":" Sea."}}\n\n',
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
    b'"usage":{"output_tokens":4}}\n\nevent: message_stop\ndata: {"type":"message_stop"}\n\n',
]
SIGNS = {
    "chat": b": keep-alive\n\n",
    "responses": b": keep-alive\n\n",
    "messages": b'event: ping\ndata: {"type": "ping"}\n\n',
    "gemini": b"\r\n\r\n\r\n",
    "ollama": b"\n ",
}
TOLD = [{"role": "user", "content": "Name a sea."}]
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": TOLD, "stream": True}),
    "responses": ("/v1/responses", {"input": TOLD, "stream": True}),
    "messages": ("/v1/messages", {"messages": TOLD, "stream": True, "max_tokens": 90}),
    "gemini": (
        "/v1beta/models/openai_conversations:m:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Name a sea."}]}]},
    ),
    "ollama": ("/api/chat", {"messages": TOLD}),
}

pytestmark = pytest.mark.filterwarnings(
    "ignore:Inheritance class AiohttpClientSession:DeprecationWarning"
)


@asynccontextmanager
async def silent(
    folder: Path, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes]
) -> AsyncIterator[tuple[str, list[bytes]]]:
    """A gateway before an upstream that goes on when its silence was told of twice."""
    monkeypatch.setattr(keep_alive, "SECONDS", 0.02)
    told: list[bytes] = []
    tell = keep_alive.KeepAliveStream._send_keep_alive

    async def note(self: keep_alive.KeepAliveStream) -> None:
        await tell(self)
        told.append(self._keep_alive)

    monkeypatch.setattr(keep_alive.KeepAliveStream, "_send_keep_alive", note)

    async def answer(connection: Connection) -> None:
        await connection.read_request()
        await connection.write(HEAD.encode())
        for piece in pieces:
            await connection.send_chunk(piece)
            if piece is not pieces[-1]:
                before = len(told)
                async with asyncio.timeout(60):
                    while len(told) < before + 2:  # noqa: ASYNC110  # nothing tells of it
                        await asyncio.sleep(0.01)
        await connection.send_chunk(b"")

    async with serve(answer) as upstream:
        application = produce_application(folder, upstream.url)
        async with serve_gateway(application) as address:
            yield address, told


def choose_upstream(kind: str) -> tuple[str, list[bytes]]:
    """Returns a model of another protocol than the client's, and what it streams."""
    return ("anthropic:m", MESSAGES) if kind == "chat" else ("openai_conversations:m", CHAT)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["chat", "responses", "messages", "gemini"])
async def test_official_clients_pass_signs_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    model, pieces = (
        ("anthropic:m", MESSAGES) if kind == "chat" else ("openai_conversations:m", CHAT)
    )
    async with (
        silent(tmp_path, monkeypatch, pieces) as (address, told),
        open_judge(kind, address) as judge,
    ):
        heard = await judge.ask(model, stream=True)
    assert heard.text == "The North Sea."
    assert heard.output_tokens == 4
    assert len(told) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", SIGNS)
async def test_signs_are_those_of_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, body = OTHERS[kind]
    model, pieces = (
        ("anthropic:m", MESSAGES) if kind == "chat" else ("openai_conversations:m", CHAT)
    )
    async with (
        silent(tmp_path, monkeypatch, pieces) as (address, _),
        aiohttp.ClientSession() as session,
        session.post(address + path, json={"model": model, **body}) as told,
    ):
        said = await told.read()
    assert SIGNS[kind] in said
    assert not said.startswith((b" ", b":", b"\r"))


async def test_before_the_first_piece_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upstream that thinks long before it refuses is told of by its status."""
    monkeypatch.setattr(keep_alive, "SECONDS", 0.001)

    async def refuse(connection: Connection) -> None:
        await connection.read_request()
        await asyncio.sleep(0.05)  # many times as long as signs are apart
        await connection.answer(b'{"error":{"message":"No."}}', status="529 No")

    body = {"model": "openai_conversations:m", **OTHERS["messages"][1]}
    async with (
        serve(refuse) as upstream,
        serve_gateway(produce_application(tmp_path, upstream.url)) as address,
        aiohttp.ClientSession() as session,
        session.post(f"{address}/v1/messages", json=body) as told,
    ):
        assert told.status == 529
