"""Whom an answer names, and what it repeats of its request: one table for all faces and ways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from yarl import URL

from support.gateways.authorizers import FriendAuthorizer
from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Say, Simulator

TOLD = [{"role": "user", "content": "Name a sea."}]
PARTS = {"contents": [{"role": "user", "parts": [{"text": "Name a sea."}]}]}
FACES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "chat_completions": (
        "openai_conversations:gpt-5.5",
        "/v1/chat/completions",
        {"messages": TOLD},
        "model",
    ),
    "responses": ("openai_responses:gpt-5.5", "/v1/responses", {"input": TOLD}, "model"),
    "messages": (
        "anthropic:claude-sonnet-5",
        "/v1/messages",
        {"messages": TOLD, "max_tokens": 90},
        "model",
    ),
    "generate_content": ("google:gemini-3.8-flash", "/v1beta/models/", PARTS, "modelVersion"),
    "ollama": ("ollama:llama3.2", "/api/chat", {"messages": TOLD}, "model"),
}
"""By face: a model that is carried, the path, the least of a request, and who says who answered."""


def read(said: bytes) -> Iterator[dict[str, Any]]:
    """Yields the objects of an answer, whole or streamed."""
    for line in said.removeprefix(b"[").removesuffix(b"]").splitlines():
        data = line.removeprefix(b"data:").strip()
        if data.startswith(b"{"):
            yield json.loads(data)


async def ask(
    address: str, face: str, model: str, *, streamed: bool, more: dict[str, Any]
) -> list[dict[str, Any]]:
    _, path, body, _ = FACES[face]
    asked = {**body, **more}
    if face == "generate_content":
        way = "streamGenerateContent?alt=sse" if streamed else "generateContent"
        path = f"{path}{model}:{way}"
    else:
        asked |= {"model": model, "stream": streamed}
    async with aiohttp.ClientSession() as session, session.post(address + path, json=asked) as told:
        said = await told.read()
        assert told.status == 200, said
    return list(read(said))


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("carried", [False, True])
@pytest.mark.parametrize("face", FACES)
async def test_who_has_answered(tmp_path: Path, face: str, carried: bool, streamed: bool) -> None:
    """What is carried is as the vendor said it; else it is who was asked, in the client's words."""
    own, *_, field = FACES[face]
    other = FACES["messages" if face != "messages" else "responses"][0]
    model = own if carried else other
    async with Simulator() as simulator:
        simulator.enqueue(Say("The North Sea."))
        async with serve_gateway(produce_application(tmp_path, simulator.url)) as address:
            told = await ask(address, face, model, streamed=streamed, more={})
    places = [place for each in told for place in (each, each.get("response"), each.get("message"))]
    names = {place[field] for place in places if place and field in place}
    assert names == {model.partition(":")[2] if carried else model}


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_repeats_its_request(tmp_path: Path, streamed: bool) -> None:
    tool = {"type": "function", "name": "clock", "parameters": {"type": "object"}, "strict": False}
    more = {
        "instructions": "Be short.",
        "tools": [tool],
        "temperature": 0.5,
        "max_output_tokens": 77,
        "metadata": {"topic": "seas"},
    }
    model = FACES["ollama"][0]
    async with Simulator() as simulator:
        simulator.enqueue(Say("The North Sea."))
        async with serve_gateway(produce_application(tmp_path, simulator.url)) as address:
            told = await ask(address, "responses", model, streamed=streamed, more=more)
    whole = told[-1]["response"] if streamed else told[-1]
    assert {name: whole[name] for name in more} == more
    assert (whole["tool_choice"], whole["parallel_tool_calls"]) == ("auto", True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "is_here"),
    [
        ("claude-sonnet-5", True),
        ("anthropic:claude-of-tomorrow", True),
        ("mine:mistralai/mistral-7b-instruct", True),
        ("openai", True),
        ("nobody:claude-sonnet-5", False),
        ("local:/etc/passwd", False),
        ("scripted:/etc/passwd.toml", False),
    ],
)
@pytest.mark.parametrize("is_quoted", [True, False])
async def test_a_model_that_answers_is_found_by_its_name(
    tmp_path: Path, model: str, is_here: bool, is_quoted: bool
) -> None:
    """Claude Code looks its model up before it asks: it may be none that the vendor lists."""
    mine = 'module = "vibe_llms.providers.openai_compatible"\nbase_url = "http://127.0.0.1:9/v1"'
    path = quote(model, safe="" if is_quoted else ":/")
    async with (
        Simulator() as simulator,
        serve_gateway(
            produce_application(tmp_path, simulator.url, **{"providers.mine": mine})
        ) as address,
        aiohttp.ClientSession() as session,
    ):
        for versioned in ("v1", "v1beta"):
            url = URL(f"{address}/{versioned}/models/{path}", encoded=True)
            async with session.get(url) as told:
                said = await told.json()
            assert told.status == (200 if is_here else 404), said
            if is_here:
                assert said.get("id", said.get("name", "")).removeprefix("models/") == model


async def test_a_model_that_a_client_may_not_ask_is_not_found(tmp_path: Path) -> None:
    """A grant decides what is there, listed or not."""
    model = "anthropic:claude-of-tomorrow"
    async with (
        Simulator() as simulator,
        serve_gateway(
            produce_application(tmp_path, simulator.url), authorizer=FriendAuthorizer()
        ) as address,
        aiohttp.ClientSession() as session,
    ):
        statuses = {}
        for subject in ("friend", "stranger"):
            headers = {"authorization": f"Bearer {subject}"}
            async with session.get(f"{address}/v1/models/{model}", headers=headers) as told:
                statuses[subject] = told.status

    assert statuses == {"friend": 200, "stranger": 404}


@pytest.mark.parametrize("has_tables", [False, True])
async def test_a_name_that_is_too_long_is_unknown_and_not_repeated(
    tmp_path: Path, has_tables: bool
) -> None:
    """Nothing looks for it, remembers it, or compares it with the names that are known."""
    options: dict[str, Any] = {}
    if has_tables:
        options["file"] = tmp_path / "gateway.toml"
        options["file"].write_text('[models.quick]\ntargets = ["openai_conversations:gpt-5.5"]\n')
    async with Simulator() as simulator, aiohttp.ClientSession() as session:
        application = produce_application(tmp_path, simulator.url)
        async with serve_gateway(application, **options) as address:
            for name in ("openai_conversations:" + "y" * 1_000, "quick" * 200_000):
                body = {"model": name, "messages": TOLD}
                async with session.post(f"{address}/v1/chat/completions", json=body) as told:
                    message = (await told.json())["error"]["message"]
                assert (told.status, len(message) < 500) == (404, True)
        assert simulator.requests == []
