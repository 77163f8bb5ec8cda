"""Losses of an answer, as its client is told of them: whole or streamed, the most serious first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from google import genai
from yarl import URL

from support.gateways.gateway_files import RoutedGateway
from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.messages.losses import LossGrade, rank_losses
from vibe_llms.testing.simulator import Simulator

CLAUDE, GEMINI = "anthropic:claude-sonnet-5", "google:gemini-3-flash"
TALK = [{"role": "user", "content": "Name a sea."}]
FACES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", CLAUDE, {"messages": TALK}),
    "responses": ("/v1/responses", CLAUDE, {"input": TALK, "store": False}),
    "kept": ("/v1/responses", CLAUDE, {"input": TALK}),
    "messages": ("/v1/messages", GEMINI, {"messages": TALK, "max_tokens": 99}),
    "gemini": (
        f"/v1beta/models/{CLAUDE}:streamGenerateContent?alt=sse",
        CLAUDE,
        {"contents": [{"role": "user", "parts": [{"text": "Name a sea."}]}]},
    ),
    "array": (
        f"/v1beta/models/{CLAUDE}:streamGenerateContent",
        CLAUDE,
        {"contents": [{"role": "user", "parts": [{"text": "Name a sea."}]}]},
    ),
    "ollama": ("/api/chat", CLAUDE, {"messages": TALK}),
    "generate": ("/api/generate", CLAUDE, {"prompt": "Name a sea."}),
}
"""By face: its path, whom it asks, and a request."""
COMMENTED = {"chat", "responses", "kept", "messages"}

SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search"}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://example.org",
            "title": "Seas",
            "encrypted_content": "Rm91bmQ=",
            "page_age": None,
        }
    ],
}
BLOCKS = [
    {**SEARCH, "input": {"query": "seas"}},
    FOUND,
    {"type": "text", "text": "The North Sea."},
]
USAGE = {"input_tokens": 3, "output_tokens": 9}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5",
    "content": BLOCKS,
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": USAGE,
}


def compose_events() -> list[dict[str, Any]]:
    """Returns the message as Anthropic streams it."""
    begun = {**MESSAGE, "content": [], "stop_reason": None}
    query = {"type": "input_json_delta", "partial_json": '{"query":"seas"}'}
    text = {"type": "text_delta", "text": "The North Sea."}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": begun}]
    openings = ({**SEARCH, "input": {}}, FOUND, {"type": "text", "text": ""})
    for index, (block, delta) in enumerate(zip(openings, (query, None, text), strict=True)):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        if delta is not None:
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": ending, "usage": USAGE},
        {"type": "message_stop"},
    ]


GROUNDED = {
    "candidates": [
        {
            "content": {"role": "model", "parts": [{"text": "The North Sea."}]},
            "finishReason": "STOP",
            "index": 0,
            "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": "https://example.org"}]},
        }
    ],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
    "modelVersion": "gemini-3-flash",
    "createTime": "2026-11-28T00:00:00Z",
}


async def answer(request: web.Request) -> web.StreamResponse:
    """Answers as Anthropic or Google does, an event at a time."""
    if request.path.endswith(":generateContent"):
        return web.json_response(GROUNDED)
    streams = "streamGenerateContent" in request.path or (await request.json()).get("stream")
    if not streams:
        return web.json_response(MESSAGE)
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    is_google = "streamGenerateContent" in request.path
    for event in [GROUNDED] if is_google else compose_events():
        name = "" if is_google else f"event: {event['type']}\n"
        await response.write(f"{name}data: {json.dumps(event)}\n\n".encode())
        await asyncio.sleep(0.005)  # so that what is lost late is known late
    await response.write_eof()
    return response


@pytest.fixture
def records() -> list[CallRecord]:
    """What the gateway tells of requests."""
    return []


@pytest.fixture
async def address(tmp_path: Path, records: list[CallRecord]) -> AsyncIterator[str]:
    """A gateway before vendors that have searched the web for their answers."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application) as server:
        made = produce_application(tmp_path, str(server.make_url("")).rstrip("/"))
        async with serve_gateway(made, records) as running:
            yield running


async def exchange(
    address: str, face: str, *, stream: bool, version: str = "1.1", name: str = ""
) -> tuple[dict[str, str], bytes, dict[str, str]]:
    """Returns the headers of an answer, its body, and its trailers."""
    path, model, body = FACES[face]
    if face in ("gemini", "array"):
        path = path if stream else f"/v1beta/models/{model}:generateContent"
    else:
        body = {**body, "model": name or model, "stream": stream}
    url, data = URL(address), json.dumps(body).encode()
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST {path} HTTP/{version}\r\nhost: {url.host}:{url.port}\r\nconnection: close\r\n"
    head += "content-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    answered = await reader.read()
    writer.close()
    told, _, rest = answered.partition(b"\r\n\r\n")
    status, *lines = told.decode().split("\r\n")
    assert " 200 " in status, answered
    headers = _read_lines(lines)
    if headers.get("transfer-encoding") != "chunked":
        return headers, rest, {}
    pieces = []
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not (length := int(size, 16)):
            return headers, b"".join(pieces), _read_lines(rest.decode().split("\r\n"))
        pieces.append(rest[:length])
        rest = rest[length + 2 :]


def _read_lines(lines: list[str]) -> dict[str, str]:
    pairs = (line.partition(": ") for line in lines if line)
    return {name.lower(): text for name, _, text in pairs}


def find_last(face: str, body: bytes) -> dict[str, Any]:
    """Returns the last object of a stream."""
    text = body.decode()
    if face == "array":
        return dict(json.loads(text)[-1])
    lines = [line.removeprefix("data: ") for line in text.splitlines()]
    return dict(json.loads(next(line for line in reversed(lines) if line.startswith("{"))))


@pytest.mark.slow
@pytest.mark.parametrize("face", FACES)
async def test_a_stream_tells_at_its_end_what_it_has_lost(
    address: str, records: list[CallRecord], face: str
) -> None:
    headers, body, trailers = await exchange(address, face, stream=True)
    told = [str(loss) for loss in rank_losses(records[-1].losses)]
    noted = find_last(face, body)["x_vibe_losses"]
    assert noted
    assert noted == [loss for loss in told if loss in noted]  # those of the request came before
    assert headers["trailer"] == "x-vibe-losses"
    assert json.loads(trailers["x-vibe-losses"]) == noted
    comments = [line for line in body.splitlines() if line.startswith(b": x-vibe-losses ")]
    assert len(comments) == (face in COMMENTED)
    for comment in comments:
        assert json.loads(comment.partition(b"losses ")[2]) == noted


@pytest.mark.slow
@pytest.mark.parametrize("face", sorted(FACES.keys() - {"array"}))
async def test_a_whole_answer_tells_the_same_in_its_header(
    address: str, records: list[CallRecord], face: str
) -> None:
    headers, body, trailers = await exchange(address, face, stream=False)
    whole = json.loads(headers["x-vibe-losses"])
    assert whole == [str(loss) for loss in rank_losses(records[-1].losses)]
    assert not trailers
    assert b"losses" not in body
    routine = [str(each) for each in records[-1].losses if each.grade is LossGrade.ROUTINE]
    assert not set(whole) & set(routine)
    if face == "messages":
        assert any("createTime" in each for each in routine)
        assert any("urlContextMetadata" in each or "candidates" in each for each in whole)


async def test_a_stream_by_way_of_a_table_tells_them_too(tmp_path: Path) -> None:
    """Where each attempt is held at a gate, so that another may take its place."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application) as server, Simulator() as second:
        url = str(server.make_url("")).rstrip("/")
        routed = RoutedGateway(tmp_path, second, second, url=url)
        tables = '[models.quick]\ntargets = ["claudia:claude-sonnet-5"]\n'
        tables += "cache = { seconds = 60 }\n"
        async with routed.run(tables):
            for is_kept in (False, True):
                headers, body, trailers = await exchange(
                    routed.address, "chat", stream=True, name="quick"
                )
                noted = find_last("chat", body)["x_vibe_losses"]
                assert noted
                assert ("trailer" in headers) is not is_kept
                told = {} if is_kept else {"x-vibe-losses": noted}
                assert {key: json.loads(text) for key, text in trailers.items()} == told


async def test_a_client_of_the_older_http_reads_the_event(address: str) -> None:
    headers, body, _ = await exchange(address, "chat", stream=True, version="1.0")
    assert "trailer" not in headers
    assert find_last("chat", body)["x_vibe_losses"]


@pytest.mark.slow
async def test_official_libraries_read_such_streams(address: str) -> None:
    chat = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0)
    async with chat:
        stream = await chat.chat.completions.create(model=CLAUDE, messages=TALK, stream=True)
        chunks = [chunk async for chunk in stream]
        async with chat.responses.stream(model=CLAUDE, input="Name a sea.") as events:
            final = await events.get_final_response()
    assert "".join(each.choices[0].delta.content or "" for each in chunks) == "The North Sea."
    assert (chunks[-1].model_extra or {})["x_vibe_losses"]
    assert final.output_text == "The North Sea."
    claude = anthropic.AsyncAnthropic(base_url=address, api_key="x", max_retries=0)
    async with (
        claude,
        claude.messages.stream(
            model=GEMINI, messages=[{"role": "user", "content": "Name a sea."}], max_tokens=99
        ) as told,
    ):
        assert await told.get_final_text() == "The North Sea."
    google = genai.Client(api_key="x", http_options=genai.types.HttpOptions(base_url=address))
    pieces = await asyncio.to_thread(
        lambda: [*google.models.generate_content_stream(model=CLAUDE, contents="A sea?")]
    )
    assert "".join(piece.text or "" for piece in pieces) == "The North Sea."
