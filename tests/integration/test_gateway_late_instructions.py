"""Instructions amid a conversation, as coding agents send them, reach every vendor."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Say, Simulator

AGENTS = "These agents are available: explorer."
SKILLS = [
    {
        "type": "text",
        "text": "These skills are available: tides.",
        "cache_control": {"type": "ephemeral"},
    }
]
TALK: list[Any] = [
    {"role": "user", "content": "Hello."},
    {"role": "system", "content": AGENTS},
    {"role": "assistant", "content": "Hello to you."},
    {"role": "user", "content": "When is high water?"},
    {"role": "system", "content": SKILLS},
]
ROLES = {
    "ollama:qwen3": ["system", "user", "user", "assistant", "user", "user"],
    "mistral:mistral-large-2512": ["system", "user", "user", "assistant", "user", "user"],
    "openai_conversations:gpt-5.5": ["system", "user", "system", "assistant", "user", "system"],
}
"""Of what a vendor is sent, by the model: one system message alone, or each at its place."""


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with Simulator() as running:
        yield running


@pytest.mark.parametrize("model", ROLES)
async def test_a_session_of_claude_code_before_another_vendor(
    simulator: Simulator, tmp_path: Path, model: str
) -> None:
    """The templates of many models take one system message, at the beginning."""
    mistral = f'base_url = "{simulator.access_url("mistral")}/v1"\napi_key = "sk-m"'
    tables = {"providers.mistral": mistral}
    simulator.enqueue(Say("At noon."))
    async with (
        serve_gateway(produce_application(tmp_path, simulator.url, **tables)) as address,
        anthropic.AsyncAnthropic(base_url=address, api_key="sk-client") as client,
    ):
        answer = await client.messages.with_raw_response.create(
            model=model,
            max_tokens=100,
            system=[{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be kind."}],
            messages=TALK,
        )

    assert (await answer.parse()).content[0].text == "At noon."
    (sent,) = [each.body for each in simulator.requests if each.body and "messages" in each.body]
    assert [each["role"] for each in sent["messages"]] == ROLES[model]
    assert AGENTS in json.dumps(sent)
    assert "tides" in json.dumps(sent)
    losses = json.loads(answer.headers.get("x-vibe-losses", "[]"))
    told = [loss for loss in losses if "sent as text of the user" in loss]
    assert len(told) == ROLES[model].count("user") - 2, losses


@pytest.mark.slow
@pytest.mark.parametrize("model", ["claude-opus-5", "claude-opus-4-8", "claude-sonnet-4-5"])
@pytest.mark.parametrize("place", range(1, 6))
async def test_a_client_of_openai_says_them_anywhere_before_anthropic(
    simulator: Simulator, tmp_path: Path, model: str, place: int
) -> None:
    """Anthropic takes them of new models alone, and at few places."""
    said: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "Hello to you."},
        {"role": "user", "content": "When is high water?"},
        {"role": "user", "content": "At Wick."},
    ]
    said[place:place] = [{"role": "developer", "content": AGENTS}] * 2
    simulator.enqueue(Say("At noon."))
    async with (
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="sk-client") as client,
    ):
        answer = await client.responses.create(model=f"anthropic:{model}", input=said)

    assert answer.output_text == "At noon."
    assert json.dumps(simulator.requests[-1].body).count(AGENTS) == 2
