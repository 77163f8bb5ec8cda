"""Clients of Chat Completions say what Anthropic shall keep of a prompt, as elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Simulator

KEPT = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
PIXEL = {"url": "https://example.org/a.png"}
FUNCTION = {"name": "f", "description": "Does it.", "parameters": {"type": "object"}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


async def ask(folder: Path, model: str) -> tuple[Any, list[str]]:
    """Returns what the vendor was asked, and what was told of losses."""
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "Be short.", **KEPT}]},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?", **KEPT},
                {"type": "image_url", "image_url": PIXEL, **KEPT},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": [{"type": "text", "text": "A sea.", **KEPT}],
        },
    ]
    tools = [{"type": "function", "function": FUNCTION, **KEPT}]
    body = {"model": model, "messages": messages, "tools": tools, "max_completion_tokens": 999}
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(folder, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        async with session.post("/v1/chat/completions", json=body) as answer:
            assert answer.status == 200, await answer.text()
            losses = json.loads(answer.headers.get("x-vibe-losses", "[]"))
        (asked,) = [each.body for each in simulator.requests]
    return asked, losses


async def test_anthropic_is_told_what_to_keep(tmp_path: Path) -> None:
    """Else each turn would be paid for in full. Anthropic accepts four marks."""
    asked, losses = await ask(tmp_path, "anthropic:claude-sonnet-5")
    words, picture = asked["messages"][0]["content"]
    (result,) = asked["messages"][2]["content"]
    marked = [asked["system"][0], picture, result, asked["tools"][0]]
    assert [each["cache_control"] for each in marked] == [KEPT["cache_control"]] * 4
    assert "cache_control" not in words
    (loss,) = losses
    assert "canisters[1].content[1]" in loss
    assert "the oldest" in loss


@pytest.mark.parametrize("model", ["google:gemini-3.8-flash", "openai_responses:gpt-5.5"])
async def test_others_are_not(tmp_path: Path, model: str) -> None:
    """They keep what they like, and the client is told."""
    asked, losses = await ask(tmp_path, model)
    assert "cache_control" not in json.dumps(asked)
    assert [each for each in losses if "cache hint" in each]


async def test_a_mark_of_a_message_goes_on_its_end(tmp_path: Path) -> None:
    """Vercel's package marks messages whose content is a text, results and calls among them."""
    messages = [
        {"role": "system", "content": "Be short.", **KEPT},
        {"role": "user", "content": "What is it?", **KEPT},
        {"role": "assistant", "content": "I look.", "tool_calls": [CALL], **KEPT},
        {"role": "tool", "tool_call_id": "call_1", "content": "A sea.", **KEPT},
        {"role": "assistant", "content": None, "tool_calls": [{**CALL, "id": "call_2"}], **KEPT},
        {"role": "tool", "tool_call_id": "call_2", "content": "A lake."},
        {"role": "assistant", "content": "It is both.", **KEPT},
        {"role": "user", "content": "Which?"},
    ]
    tools = [{"type": "function", "function": FUNCTION}]
    body: Any = {"model": "anthropic:claude-sonnet-5", "messages": messages, "tools": tools}
    body["max_completion_tokens"] = 999
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as session,
    ):
        async with session.post("/v1/chat/completions", json=body) as answer:
            assert answer.status == 200, await answer.text()
            losses = json.loads(answer.headers.get("x-vibe-losses", "[]"))
        (asked,) = [each.body for each in simulator.requests]

    blocks = [block for message in asked["messages"] for block in message["content"]]
    marked = [each.get("text") or each["type"] for each in blocks if "cache_control" in each]
    assert marked == ["tool_result", "tool_use", "It is both."]
    assert "cache_control" in asked["system"][0]
    assert [each for each in losses if "the oldest" in each] == losses
    assert len(losses) == 2
