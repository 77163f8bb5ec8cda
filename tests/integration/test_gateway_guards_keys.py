"""An upstream that sends back what it was sent hands no key of ours to a client."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from support.gateways.gateways import produce_application, serve_gateway

KEY = "canary-4c1f7e9b-20d8"
TOLD = [{"role": "user", "content": "Hello"}]
FACES: dict[str, tuple[str, dict[str, Any]]] = {
    "openai_conversations:gpt-5.5": ("/v1/chat/completions", {"messages": TOLD}),
    "openai_responses:gpt-5.5": ("/v1/responses", {"input": "Hello", "store": False}),
    "anthropic:claude-sonnet-5": ("/v1/messages", {"messages": TOLD, "max_tokens": 9}),
    "google:gemini-3.8-flash": ("", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
}


def read_key(request: web.Request) -> str:
    """Returns what the headers of a request show."""
    headers = request.headers
    shown = ("authorization", "x-api-key", "x-goog-api-key")
    return next(headers[name] for name in shown if name in headers).removeprefix("Bearer ")


@asynccontextmanager
async def before(folder: Path, answer: Any) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """Serves a gateway before an upstream that answers so."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        upstream = f"http://127.0.0.1:{runner.addresses[0][1]}"
        async with (
            serve_gateway(produce_application(folder, upstream, key=KEY)) as address,
            aiohttp.ClientSession(address) as session,
        ):
            yield address, session
    finally:
        await runner.cleanup()


def find_path(model: str, *, streamed: bool) -> str:
    method = "streamGenerateContent?alt=sse" if streamed else "generateContent"
    return FACES[model][0] or f"/v1beta/models/{model}:{method}"


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("model", FACES)
async def test_an_error_that_repeats_the_headers(
    tmp_path: Path, model: str, streamed: bool
) -> None:
    keys = []

    async def answer(request: web.Request) -> web.Response:
        keys.append(key := read_key(request))
        packed = base64.b64encode(f"user:{key}".encode()).decode()
        text = f"You sent Authorization: Bearer {key} ({packed})."
        return web.json_response(
            {"error": {"message": text, "type": "x"}}, status=400, headers={"x-echo": key}
        )

    body = {**FACES[model][1], "model": model, "stream": streamed}
    async with (
        before(tmp_path, answer) as (_, session),
        session.post(find_path(model, streamed=streamed), json=body) as told,
    ):
        said, headers = await told.text(), told.headers
    assert keys == [KEY]
    assert told.status == 400
    assert KEY not in said + str(headers)
    assert "canary" not in base64.b64decode(said.partition("(")[2][:8] + "==").decode("latin-1")
    assert "You sent Authorization: Bearer ********" in said
    assert headers["x-echo"] == "********"


@pytest.mark.parametrize("model", FACES)
async def test_a_stream_that_repeats_them_in_pieces(tmp_path: Path, model: str) -> None:
    """All else comes as it was sent, and nothing later than it was sent."""
    events = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        key = read_key(request)
        told = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await told.prepare(request)
        await told.write(b'data: {"whole": "canary-4c1f"}\n\n')
        await events.wait()
        data = json.dumps({"echo": f"Bearer {key}"}).encode()
        for at in range(0, len(data), 3):
            await told.write(data[at : at + 3])
            await asyncio.sleep(0.001)
        await told.write(b"\n\ndata: the end cana")
        return told

    body = {**FACES[model][1], "model": model, "stream": True}
    async with (
        before(tmp_path, answer) as (_, session),
        session.post(find_path(model, streamed=True), json=body) as told,
    ):
        first = await asyncio.wait_for(told.content.readuntil(b"\n\n"), 60)
        events.set()
        rest = await told.content.read()
    assert first == b'data: {"whole": "canary-4c1f"}\n\n'
    assert rest == b'{"echo": "Bearer ********"}\n\ndata: the end cana'


@pytest.mark.parametrize("model", FACES)
async def test_a_whole_answer_that_repeats_them(tmp_path: Path, model: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"said": [read_key(request), "sk-proj-0123456789abcdefghij"]})

    body = {**FACES[model][1], "model": model}
    async with (
        before(tmp_path, answer) as (_, session),
        session.post(find_path(model, streamed=False), json=body) as told,
    ):
        # What models say of keys of others is no secret of ours.
        assert await told.json() == {"said": ["********", "sk-proj-0123456789abcdefghij"]}
