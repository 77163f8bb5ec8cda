"""OpenAI has two protocols, and what it is told of who asks is the same in both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Simulator

TOLD = {"prompt_cache_key": "desk", "safety_identifier": "s-1", "user": "u-1"}
CHAT = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Well?"}]})
RESPONSES = ("/v1/responses", {"input": "Well?", "store": False})


async def ask(folder: Path, face: tuple[str, Any], model: str) -> tuple[Any, list[str]]:
    """Returns what the vendor was asked, and what was told of losses."""
    path, body = face
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(folder, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        asked = {**body, **TOLD, "metadata": {"a": "b"}, "model": model}
        async with session.post(path, json=asked) as answer:
            assert answer.status == 200, await answer.text()
            losses = json.loads(answer.headers["x-vibe-losses"])
        (received,) = [each.body for each in simulator.requests]
    return received, [each for each in losses if "request.native" in each]


@pytest.mark.parametrize(
    ("face", "model"),
    [(CHAT, "openai_responses:gpt-5.5"), (RESPONSES, "openai_conversations:gpt-5.5")],
    ids=["chat", "responses"],
)
async def test_openai_is_told_in_either(tmp_path: Path, face: tuple[str, Any], model: str) -> None:
    """What one of them takes only beside something else is withheld, as all that differs."""
    received, losses = await ask(tmp_path, face, model)
    assert TOLD.items() <= received.items()
    assert "metadata" not in received
    assert "metadata" in losses[0]
    assert not [name for name in TOLD if name in losses[0]]


async def test_another_vendor_is_not(tmp_path: Path) -> None:
    """It would refuse unknown fields; the key becomes a cache hint, which it has."""
    received, losses = await ask(tmp_path, CHAT, "anthropic:claude-sonnet-5")
    assert not TOLD.keys() & received.keys()
    assert [name for name in TOLD if name not in losses[0]] == ["prompt_cache_key"]
    assert received["cache_control"] == {"type": "ephemeral"}
