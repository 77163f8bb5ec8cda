"""Bodies that are odd, or wrong: what is carried as it is, mended, or refused before it is sent."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Say, Simulator
from vibe_llms.testing.simulator.behaviour import produce_png

CLAUDE, GPT = "anthropic:claude-sonnet-4-5", "openai_conversations:gpt-5.5"
RESPONSES, GEMINI = "openai_responses:gpt-5.5", "google:gemini-3-pro-preview"
HI = [{"role": "user", "content": "Hi."}]
JPEG = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01" + bytes(64)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def session(simulator: Simulator, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a gateway."""
    async with (
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        yield session


async def post(
    session: aiohttp.ClientSession, path: str, body: Any
) -> tuple[int, str, dict[str, str]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    async with session.post(path, data=data, headers=headers) as answer:
        return answer.status, await answer.text(), {k.lower(): v for k, v in answer.headers.items()}


@pytest.mark.slow
@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize(("model", "kept"), [(GPT, True), (RESPONSES, True), (CLAUDE, False)])
async def test_half_a_character_is_carried_or_told(
    simulator: Simulator, session: aiohttp.ClientSession, model: str, kept: bool, store: bool
) -> None:
    simulator.enqueue(Say("Yes."))
    said = [{"role": "user", "content": "a\ud800b"}]
    path, body = "/v1/chat/completions", {"model": model, "messages": said}
    if model == RESPONSES:
        path, body = "/v1/responses", {"model": model, "input": said, "store": store}
    status, text, headers = await post(session, path, body)
    assert status == 200, text
    asked = str(simulator.requests[0].body)
    assert ("a\\ud800b" in asked) is kept
    assert ("a\ufffdb" in asked) is not kept
    assert ("half a character" in headers.get("x-vibe-losses", "")) is not kept


async def test_a_kept_response_continues_after_half_a_character(
    simulator: Simulator, session: aiohttp.ClientSession
) -> None:
    simulator.enqueue(Say("Yes."), Say("No."))
    first = {"model": CLAUDE, "input": "One \ud800."}
    status, text, _ = await post(session, "/v1/responses", first)
    assert status == 200, text
    second = {
        "model": CLAUDE,
        "input": "Two \ud800.",
        "previous_response_id": json.loads(text)["id"],
    }
    assert (await post(session, "/v1/responses", second))[0] == 200
    assert "One \ufffd." in str(simulator.requests[1].body)


EMPTY: list[tuple[str, dict[str, Any]]] = [
    ("/v1/messages", {"model": CLAUDE, "max_tokens": 9, "messages": []}),
    ("/v1/messages", {"model": CLAUDE, "max_tokens": 9, "messages": [], "system": "Be."}),
    ("/v1/messages", {"model": GPT, "max_tokens": 9, "messages": [], "system": "Be."}),
    ("/v1/chat/completions", {"model": GPT, "messages": []}),
    ("/v1/chat/completions", {"model": CLAUDE, "messages": [{"role": "system", "content": "B"}]}),
    ("/v1/chat/completions", {"model": GEMINI, "messages": [{"role": "system", "content": "B"}]}),
    ("/api/chat", {"model": CLAUDE, "messages": []}),
]


@pytest.mark.parametrize(("path", "body"), EMPTY)
async def test_a_request_without_a_message_is_sent_to_no_vendor(
    simulator: Simulator, session: aiohttp.ClientSession, path: str, body: dict[str, Any]
) -> None:
    status, text, headers = await post(session, path, body)
    assert (status, "no message" in text) == (400, True)
    assert not simulator.requests
    assert headers["x-vibe-stage"] in ("frame", "translate")


SCHEMA: Any = "notjson"
FUNCTION = {"name": "f", "description": "d", "parameters": SCHEMA}
TOOLS: list[tuple[str, dict[str, Any], str]] = [
    (
        "/v1/chat/completions",
        {"model": CLAUDE, "messages": HI, "tools": [{"type": "function", "function": FUNCTION}]},
        "tools[0].function.parameters",
    ),
    (
        "/v1/responses",
        {"model": CLAUDE, "input": "Hi.", "tools": [{"type": "function", **FUNCTION}]},
        "tools[0].parameters",
    ),
    (
        "/v1/messages",
        {
            "model": GPT,
            "max_tokens": 9,
            "messages": HI,
            "tools": [{"name": "f", "input_schema": [1]}],
        },
        "tools[0].input_schema",
    ),
    (
        f"/v1beta/models/{GPT}:generateContent",
        {
            "contents": [{"parts": [{"text": "Hi."}]}],
            "tools": [{"functionDeclarations": [FUNCTION]}],
        },
        "tools[0].functionDeclarations[0].parameters",
    ),
    (
        "/api/chat",
        {"model": GPT, "messages": HI, "tools": [{"type": "function", "function": FUNCTION}]},
        "tools[0].function.parameters",
    ),
]


@pytest.mark.parametrize(("path", "body", "place"), TOOLS)
async def test_a_schema_that_is_none_is_refused_by_its_place(
    simulator: Simulator,
    session: aiohttp.ClientSession,
    path: str,
    body: dict[str, Any],
    place: str,
) -> None:
    status, text, headers = await post(session, path, body)
    assert (status, place in text) == (400, True), text
    assert headers["x-vibe-stage"] == "frame"
    assert not simulator.requests


async def test_an_error_of_a_vendor_has_its_stage_on_every_face(
    simulator: Simulator, session: aiohttp.ClientSession
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = [
        ("/v1/chat/completions", {"model": GPT, "messages": HI}),
        ("/v1/chat/completions", {"model": CLAUDE, "messages": HI}),
        ("/v1/responses", {"model": CLAUDE, "input": "Hi."}),
        ("/v1/messages", {"model": GPT, "max_tokens": 9, "messages": HI}),
        ("/api/chat", {"model": GPT, "messages": HI}),
        (f"/v1beta/models/{GPT}:generateContent", {"contents": [{"parts": [{"text": "Hi."}]}]}),
    ]
    simulator.switch("server_error=9")
    for path, body in asked:
        status, _, headers = await post(session, path, body)
        assert (status, headers.get("x-vibe-stage")) == (500, "provider"), path


@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
async def test_a_picture_goes_as_what_its_bytes_are(
    simulator: Simulator, session: aiohttp.ClientSession, model: str
) -> None:
    simulator.enqueue(Say("Yes."))
    pictures = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encode(data)}"}}
        for data in (JPEG, produce_png(8, 8))
    ]
    said = [{"role": "user", "content": [{"type": "text", "text": "Well?"}, *pictures]}]
    status, text, headers = await post(
        session, "/v1/chat/completions", {"model": model, "messages": said}
    )
    assert status == 200, text
    asked = json.dumps(simulator.requests[0].body)
    assert (asked.count("image/jpeg"), asked.count("image/png")) == (1, 1)
    told = [loss for loss in json.loads(headers["x-vibe-losses"]) if "image/jpeg" in loss]
    assert len(told) == 1


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


async def test_a_limit_that_is_made_up_is_told(
    simulator: Simulator, session: aiohttp.ClientSession
) -> None:
    for more in ({}, {"max_completion_tokens": 50}):
        simulator.enqueue(Say("Yes."))
        body = {"model": CLAUDE, "messages": HI, **more}
        _, _, headers = await post(session, "/v1/chat/completions", body)
        told = json.loads(headers.get("x-vibe-losses", "[]"))
        limit = simulator.requests[-1].body["max_tokens"]
        wanted = [
            f"synthesized controls.max_tokens: the vendor requires a limit, and {limit} tokens"
        ]
        assert [loss.rpartition(" are")[0] for loss in told] == ([] if more else wanted)


@pytest.mark.slow
async def test_a_first_tool_is_not_counted_as_hundreds_of_tokens(
    session: aiohttp.ClientSession,
) -> None:
    tool = {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}
    counts = []
    for tools in ([], [tool], [tool, {**tool, "name": "g"}]):
        body = {"model": GPT, "messages": HI, "tools": tools}
        _, text, _ = await post(session, "/v1/messages/count_tokens", body)
        counts.append(json.loads(text)["input_tokens"])
    none, one, two = counts
    assert one - none < 2 * (two - one)
