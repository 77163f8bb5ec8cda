"""A strict request loses nothing, or is refused before it is sent; no answer is thrown away."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Say, Simulator

TALK = [{"role": "user", "content": "Name a sea."}]
FACES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": TALK}, {"frobnicate": 1}),
    "responses": ("/v1/responses", {"input": TALK}, {"frobnicate": 1}),
    "messages": ("/v1/messages", {"messages": TALK, "max_tokens": 99}, {"frobnicate": 1}),
    "gemini": (
        "/v1beta/models/{model}:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Name a sea."}]}]},
        {"cachedContent": "cachedContents/x"},
    ),
    "ollama": ("/api/chat", {"messages": TALK}, {"keep_alive": 1}),
}
"""By face: its path, a request that all vendors understand, and what only its own does."""
MODELS = {
    "chat": "openai_conversations:gpt-5.5",
    "responses": "openai_responses:gpt-5.5",
    "messages": "anthropic:claude-sonnet-5",
    "gemini": "google:gemini-3-flash",
    "ollama": "ollama:llama3.2",
}
TRANSLATED = [(face, model) for face in FACES for model in MODELS if face != model]


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def session(simulator: Simulator, tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """A strict client of a gateway."""
    async with (
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address, headers={"x-vibe-strict": "true"}) as session,
    ):
        yield session


def _name(face: str, model: str, body: dict[str, Any], *, stream: bool = False) -> dict[str, Any]:
    """Returns a request that names its model, unless its path does, and says how it is answered."""
    return body if face == "gemini" else {**body, "model": model, "stream": stream}


def _find_path(face: str, model: str, *, stream: bool = False) -> str:
    path = FACES[face][0].format(model=model)
    if face == "gemini" and stream:
        return path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    return path


@pytest.mark.slow
async def test_what_was_answered_is_told_with_what_there_are_no_words_for(
    simulator: Simulator, session: aiohttp.ClientSession
) -> None:
    """By every face, of every vendor of another protocol; a vendor's bookkeeping is not told."""
    for face, vendor in TRANSLATED:
        path, body, _ = FACES[face]
        model = MODELS[vendor]
        simulator.enqueue(Say("The North Sea."))
        asked = _name(face, model, body)
        async with session.post(path.format(model=model), json=asked) as told:
            said = await told.text()
            assert told.status == 200, (face, vendor, said)
            assert "The North Sea." in said
            losses = json.loads(told.headers.get("x-vibe-losses", "[]"))
            assert not [loss for loss in losses if "created" in loss], (face, vendor, losses)
    assert len([each for each in simulator.requests if "/show" not in each.path]) == len(TRANSLATED)


@pytest.mark.parametrize(
    "choice",
    [
        "required",
        {"type": "function", "function": {"name": "none-of-these"}},
        {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}},
    ],
    ids=str,
)
async def test_a_choice_that_goes_as_another_is_a_loss(
    simulator: Simulator, session: aiohttp.ClientSession, choice: Any
) -> None:
    """A model that chooses freely does not do what was asked."""
    path, body, _ = FACES["chat"]
    asked = {**body, "model": MODELS["messages"], "tool_choice": choice}
    async with session.post(path, json=asked) as told:
        assert (told.status, "tool_choice: only a vendor of" in await told.text()) == (422, True)
    assert not simulator.requests


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
async def test_what_would_be_lost_of_a_request_is_refused_before_it_is_sent(
    simulator: Simulator, session: aiohttp.ClientSession, stream: bool
) -> None:
    for face, vendor in TRANSLATED:
        _, body, more = FACES[face]
        model = MODELS[vendor]
        asked = _name(face, model, {**body, **more}, stream=stream)
        async with session.post(_find_path(face, model, stream=stream), json=asked) as told:
            said = await told.text()
            assert told.status == 422, (face, vendor, said)
            assert next(iter(more)) in said
    assert not [each for each in simulator.requests if "/show" not in each.path]
