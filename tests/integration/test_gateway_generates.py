"""Ollama's older call, by which editors complete and libraries ask a single prompt."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Say, Simulator, Think

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = "anthropic:claude-sonnet-5"
PIXEL = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
        "0000000d4944415478da63fcffff3f030005fe02fea7d605d30000000049454e44ae426082"
    )
).decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def simulator() -> AsyncIterator[Simulator]:
    async with Simulator() as simulator:
        yield simulator


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def session(
    tmp_path_factory: pytest.TempPathFactory, simulator: Simulator
) -> AsyncIterator[aiohttp.ClientSession]:
    folder = tmp_path_factory.mktemp("generates")
    async with (
        serve_gateway(produce_application(folder, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        yield session


async def ask(session: aiohttp.ClientSession, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with session.post("/api/generate", json=body) as answer:
        said = await answer.read()
        assert answer.status == 200, said
    return [json.loads(line) for line in said.splitlines()]


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_prompt_is_asked_as_a_conversation(
    session: aiohttp.ClientSession, simulator: Simulator, streamed: bool
) -> None:
    """With its instructions and pictures; a stream unless it is said otherwise."""
    simulator.enqueue(Think("Which one?"), Say("The North Sea."))
    body = {"model": MODEL, "prompt": "Name it.", "system": "Be short.", "images": [PIXEL]}
    told = await ask(session, body if streamed else {**body, "stream": False})

    assert "".join(each["response"] for each in told) == "The North Sea."
    assert "".join(each.get("thinking", "") for each in told) == "Which one?"
    assert not [each for each in told if "message" in each or each["model"] != MODEL]
    assert [each["done"] for each in told] == [False] * (len(told) - 1) + [True]
    assert (len(told) > 1) is streamed
    assert told[-1]["done_reason"] == "stop"
    assert told[-1]["eval_count"] > 0
    asked = simulator.requests[-1].body
    assert asked["system"][0]["text"] == "Be short."
    picture, words = asked["messages"][0]["content"]
    assert (picture["source"]["data"], words["text"]) == (PIXEL, "Name it.")


async def test_what_it_alone_knows_is_told_as_lost(session: aiohttp.ClientSession) -> None:
    """And what the call does not know is no part of it, as at its server."""
    body = {"model": MODEL, "prompt": "Well?", "suffix": "!", "raw": True, "stream": False}
    more = {"options": {"temperature": 0.5}, "messages": [{"role": "user", "content": "No."}]}
    async with session.post("/api/generate", json={**body, **more}) as answer:
        lost = json.loads(answer.headers["x-vibe-losses"])
        assert "No." not in (await answer.json())["response"]
    assert [each for each in lost if each.startswith("withheld request.native: raw, suffix: ")]


async def test_ollama_gets_it_as_it_is(
    session: aiohttp.ClientSession, simulator: Simulator
) -> None:
    """By the path of the call, with whatever that may hold, and says itself what it makes of it."""
    body = {"model": "ollama:llama3.2", "prompt": "", "keep_alive": 0, "suffix": "?"}
    async with session.post("/api/generate", json=body) as answer:
        assert answer.status == 404  # the simulator has no such call
    received = simulator.requests[-1]
    assert (received.path, received.body) == ("/api/generate", {**body, "model": "llama3.2"})


@pytest.mark.parametrize(
    "body",
    [{"prompt": 5}, {"prompt": ["x"]}, {"prompt": "x", "system": 5}, {"prompt": "  "}, {}],
    ids=str,
)
async def test_nonsense_is_refused(session: aiohttp.ClientSession, body: dict[str, Any]) -> None:
    """In the words of the protocol."""
    async with session.post("/api/generate", json={"model": MODEL, **body}) as answer:
        told = await answer.json()
        assert answer.status == 400, told
    assert isinstance(told["error"], str)
    assert "anister" not in told["error"]


async def test_nothing_is_loaded_here(session: aiohttp.ClientSession) -> None:
    async with session.get("/api/ps") as answer:
        assert await answer.json() == {"models": []}
