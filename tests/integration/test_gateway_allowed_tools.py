"""Of the tools in a request its client may let some alone be called; no other protocol says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Simulator

SCHEMA = {"type": "object", "properties": {}}
FUNCTIONS = [{"name": name, "description": "Does it.", "parameters": SCHEMA} for name in "abc"]
SAID = "Please use tools."
GEMINI = {"contents": [{"role": "user", "parts": [{"text": SAID}]}]}


def choose(face: str, names: str, mode: str) -> tuple[str, dict[str, Any]]:
    """Returns the path and body of a request in which only these may be called."""
    if face == "gemini":
        calling = {"mode": mode.upper(), "allowedFunctionNames": [*names]}
        tools = {"tools": [{"functionDeclarations": FUNCTIONS}]}
        config = {"toolConfig": {"functionCallingConfig": calling}}
        return "/v1beta/models/{model}:generateContent", {**GEMINI, **tools, **config}
    if face == "responses":
        chosen = [{"type": "function", "name": name} for name in names]
        choice: dict[str, Any] = {"type": "allowed_tools", "mode": mode, "tools": chosen}
        offered = [{"type": "function", "strict": False, **each} for each in FUNCTIONS]
        return "/v1/responses", {"input": SAID, "tools": offered, "tool_choice": choice}
    functions = [{"type": "function", "function": each} for each in FUNCTIONS]
    few = [{"type": "function", "function": {"name": name}} for name in names]
    choice = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": few}}
    told = {"messages": [{"role": "user", "content": SAID}], "tools": functions}
    return "/v1/chat/completions", {**told, "tool_choice": choice}


CASES = [
    ("chat", "ac", "auto"),
    ("chat", "b", "required"),
    ("responses", "ac", "auto"),
    ("responses", "b", "required"),
    ("gemini", "ac", "any"),
    ("gemini", "b", "validated"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("face", "names", "mode"), CASES)
async def test_the_others_are_not_told_of(tmp_path: Path, face: str, names: str, mode: str) -> None:
    """So that no model calls what its client may execute without asking anybody."""
    path, body = choose(face, names, mode)
    model = "anthropic:claude-sonnet-5"
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        named = {} if face == "gemini" else {"model": model}
        async with session.post(path.format(model=model), json={**body, **named}) as answer:
            assert answer.status == 200, await answer.text()
            losses = json.loads(answer.headers["x-vibe-losses"])
        (asked,) = [each.body for each in simulator.requests]
    assert [tool["name"] for tool in asked["tools"]] == [*names]
    told = [each.split(" is not offered")[0] for each in losses if "not offered" in each]
    others = sorted({*"abc"} - {*names})
    assert told == [f"dropped invocables[{'abc'.index(name)}]: {name}" for name in others]
    is_required = mode in ("required", "any")
    assert (asked.get("tool_choice") == {"type": "any"}) is is_required


async def test_where_all_others_are_left_nothing_is_required(tmp_path: Path) -> None:
    """As where a client allows what it does not offer."""
    path, body = choose("chat", "x", "required")
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        for wrong in (body["tool_choice"], {"type": "allowed_tools", "allowed_tools": 5}):
            asked = {**body, "model": "google:gemini-3.8-flash", "tool_choice": wrong}
            async with session.post(path, json=asked) as answer:
                assert answer.status == 200, await answer.text()
        first, second = [each.body for each in simulator.requests]
    assert "tools" not in first
    assert "toolConfig" not in first
    assert len(second["tools"][0]["functionDeclarations"]) == 3
