"""A stream that begins with an error is none yet: the next target is asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from support.gateways.gateway_files import GatewayAnswer, RoutedGateway
from vibe_llms.testing.simulator import Say, Simulator

TABLES = """
[models.quick]
targets = ["first:gpt-5.5"]
fallback = ["second:gpt-5.5"]
[models.claude]
targets = ["claudia:claude-sonnet-5"]
fallback = ["claude:claude-sonnet-5"]
[models.mixed]
targets = ["first:gpt-5.5"]
fallback = ["claude:claude-sonnet-5"]
[models.alone]
targets = ["first:gpt-5.5"]
"""


def frame(fields: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(fields)}\n\n".encode()


def chunk(**fields: Any) -> bytes:
    return frame({"id": "c", "object": "chat.completion.chunk", "model": "m", **fields})


def delta(**said: Any) -> bytes:
    return chunk(choices=[{"index": 0, "delta": said, "finish_reason": None}])


def event(kind: str, **fields: Any) -> bytes:
    return frame({"type": kind, **fields}, kind)


BUSY = chunk(error={"message": "Busy", "code": 429})
HELLO = delta(role="assistant", content="")
OVERLOADED = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
STARTED = event(
    "message_start",
    message={
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "c",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 1},
    },
)
BLOCK = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
PING = event("ping")
WORDS = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "event: error"})
COMMENT = b": PROCESSING\n\n"


@asynccontextmanager
async def produce_routed(folder: Path, pieces: list[bytes]) -> AsyncIterator[RoutedGateway]:
    """A gateway whose first upstream streams these pieces, and whose second says Baltic."""

    async def handle(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for piece in pieces:
            await answer.write(piece)
        return answer

    upstream = web.Application()
    upstream.router.add_post("/{path:.*}", handle)
    async with Simulator() as first, Simulator() as second, TestServer(upstream) as server:
        second.enqueue(Say("Baltic."))
        url = str(server.make_url("")).rstrip("/")
        routed = RoutedGateway(folder, first, second, url=url)
        async with routed.run(TABLES):
            yield routed


async def ask(routed: RoutedGateway, model: str, path: str) -> GatewayAnswer:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "A sea?"}]}
    body |= {"model": model, "stream": True}
    body |= {"max_tokens": 50} if path == "/v1/messages" else {}
    async with routed.session.post(routed.address + path, json=body) as answer:
        return GatewayAnswer(answer.status, answer.headers, await answer.read())


@pytest.mark.slow
@pytest.mark.parametrize("size", [0, 7])
@pytest.mark.parametrize(
    ("model", "path", "pieces"),
    [
        ("quick", "/v1/chat/completions", [BUSY]),
        ("quick", "/v1/chat/completions", [COMMENT, BUSY]),
        ("quick", "/v1/chat/completions", [HELLO, BUSY]),
        ("quick", "/v1/chat/completions", [HELLO.replace(b"\n", b"\r\n"), BUSY]),
        ("quick", "/v1/chat/completions", [b'event: error\ndata: {"message": "Busy"}\n\n']),
        ("mixed", "/v1/messages", [HELLO, BUSY]),
        ("claude", "/v1/messages", [OVERLOADED]),
        ("claude", "/v1/messages", [STARTED, OVERLOADED]),
        ("claude", "/v1/messages", [STARTED, BLOCK, PING, OVERLOADED]),
    ],
)
async def test_the_next_target_is_asked(
    tmp_path: Path, model: str, path: str, pieces: list[bytes], size: int
) -> None:
    """Whatever stands before the error that says nothing, and however the bytes are split."""
    data = b"".join(pieces)
    split = [data[i : i + size] for i in range(0, len(data), size)] if size else pieces
    async with produce_routed(tmp_path, split) as routed:
        heard = await ask(routed, model, path)

    assert heard.status == 200
    assert b"Baltic" in heard.body
    assert b"error" not in heard.body.replace(b"x-vibe-losses", b"")
    assert len(json.loads(heard.headers["x-vibe-attempts"])) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "path", "pieces"),
    [
        ("quick", "/v1/chat/completions", [HELLO, delta(content="North"), BUSY]),
        ("quick", "/v1/chat/completions", [COMMENT * 9, HELLO, BUSY]),
        ("quick", "/v1/chat/completions", [delta(content='"error": "event: error"'), b""]),
        ("claude", "/v1/messages", [STARTED, BLOCK, WORDS, OVERLOADED]),
        ("claude", "/v1/messages", [STARTED, BLOCK, PING * 9, OVERLOADED]),
    ],
)
async def test_what_has_begun_goes_through_as_it_is(
    tmp_path: Path, model: str, path: str, pieces: list[bytes]
) -> None:
    """Its client has seen it; nor is it made to wait for ever without a sign of life."""
    async with produce_routed(tmp_path, pieces) as routed:
        heard = await ask(routed, model, path)

    assert (heard.status, heard.body) == (200, b"".join(pieces))
    assert not routed.second.requests


async def test_the_last_error_is_told_with_a_status(tmp_path: Path) -> None:
    """Where nobody else can be asked."""
    async with produce_routed(tmp_path, [COMMENT, BUSY]) as routed:
        heard = await ask(routed, "alone", "/v1/chat/completions")

    assert heard.status == 429
    assert json.loads(heard.body)["error"]["message"] == "Busy"
