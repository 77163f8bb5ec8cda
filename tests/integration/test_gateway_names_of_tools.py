"""A client's tools have the names that its own vendor takes, whichever model is behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Simulator

LONG = "mcp__plugin_harbour-tables_harbour-tables__" + "tell_when_it_is_high_water_at_a_place_" * 2
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}


async def ask(
    session: aiohttp.ClientSession, path: str, body: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns what was answered, in whatever pieces, and what was told of losses."""
    async with session.post(path, json=body) as answer:
        said = await answer.read()
        assert answer.status == 200, said
        losses = json.loads(answer.headers.get("x-vibe-losses", "[]"))
    lines = [line.removeprefix(b"data:").strip() for line in said.splitlines()]
    return [json.loads(line) for line in lines if line.startswith(b"{")], losses


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_long_name_of_anthropics_before_openai(tmp_path: Path, streamed: bool) -> None:
    """It is called, chosen and answered by its own name, also where it is offered no more."""
    body = {
        "model": "openai_conversations:gpt-5.5",
        "max_tokens": 90,
        "stream": streamed,
        "messages": [{"role": "user", "content": "Please use tools."}],
        "tools": [{"name": LONG, "description": "Tells tides.", "input_schema": SCHEMA}],
        "tool_choice": {"type": "tool", "name": LONG},
    }
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        told, losses = await ask(session, "/v1/messages", body)
        blocks = [each["content_block"] for each in told if "content_block" in each]
        (called,) = [
            block
            for block in (blocks if streamed else told[0]["content"])
            if block["type"] == "tool_use"
        ]
        answered = {"type": "tool_result", "tool_use_id": called["id"], "content": "At noon."}
        rest = [{"role": "assistant", "content": [{**called, "input": {"place": "Wick"}}]}]
        rest.append({"role": "user", "content": [answered]})
        messages = {**body, "messages": [*body["messages"], *rest]}  # type: ignore[misc]
        del messages["tools"], messages["tool_choice"]
        await ask(session, "/v1/messages", messages)
        first, second = [each.body for each in simulator.requests]

    assert called["name"] == LONG
    alias = first["tools"][0]["function"]["name"]
    assert first["tool_choice"]["function"]["name"] == alias
    assert second["messages"][1]["tool_calls"][0]["function"]["name"] == alias
    assert losses[0].startswith("coerced invocables[0].name: ")


@pytest.mark.parametrize("upstream", ["anthropic:claude-sonnet-5", "openai_responses:gpt-5.5"])
async def test_names_with_dots_of_geminis(tmp_path: Path, upstream: str) -> None:
    """Two that differ in what is not taken stay two."""
    names = ["tide.high", "tide:high"]
    declared = [{"name": name, "description": "Tides.", "parameters": SCHEMA} for name in names]
    told = [{"role": "user", "parts": [{"text": "Please use tools."}]}]
    body = {"contents": told, "tools": [{"functionDeclarations": declared}]}
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        for way in ("generateContent", "streamGenerateContent?alt=sse"):
            answered, _ = await ask(session, f"/v1beta/models/{upstream}:{way}", body)
            parts = [
                part
                for each in answered
                for part in each["candidates"][0].get("content", {}).get("parts", ())
            ]
            called = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
            assert called == names


async def test_a_name_with_a_slash_is_counted(tmp_path: Path) -> None:
    """Counting names the tools as asking does, for a vendor that counts would refuse them, too."""
    tool = {"name": "tide/high", "description": "Tides.", "input_schema": SCHEMA}
    body = {
        "model": "google:gemini-3.8-flash",
        "messages": [{"role": "user", "content": "Hello."}],
        "tools": [tool],
    }
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        told, _ = await ask(session, "/v1/messages/count_tokens", body)
        assert told[0]["input_tokens"] > 0
        (asked,) = [each.body for each in simulator.requests]
    assert "tide/high" not in json.dumps(asked)
