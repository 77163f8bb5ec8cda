"""Official libraries at the gateway: their cache marks work at vendors of other protocols."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Simulator

LONG = "These are the rules of the house, which everybody reads again and again. " * 100
KEPT: Any = {"type": "ephemeral"}
TOOL: Any = {
    "name": "look",
    "description": "Looks out.",
    "input_schema": {"type": "object", "properties": {}},
}

pytestmark = pytest.mark.slow


async def test_the_marks_of_anthropics_library_reach_openai(tmp_path: Path) -> None:
    """Its second request reads what the first wrote; the vendor gets breakpoints."""
    from anthropic import AsyncAnthropic

    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        AsyncAnthropic(base_url=address, api_key="none") as client,
    ):
        usages = []
        for question in ("May I?", "Must I?"):
            message = await client.messages.create(
                model="openai_responses:gpt-5.6-sol",
                max_tokens=999,
                system=[{"type": "text", "text": LONG, "cache_control": KEPT}],
                messages=[{"role": "user", "content": question}],
            )
            usages.append(message.usage)
        body = simulator.requests[-1].body
    assert not usages[0].cache_read_input_tokens
    assert (usages[1].cache_read_input_tokens or 0) > 1024
    (part,) = body["input"][0]["content"]
    assert part["prompt_cache_breakpoint"] == {"mode": "explicit"}


async def test_the_key_of_openais_library_reaches_anthropic(tmp_path: Path) -> None:
    """As a mark for the whole conversation, which OpenAI caches without one."""
    from openai import AsyncOpenAI

    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        AsyncOpenAI(base_url=f"{address}/v1", api_key="none") as client,
    ):
        cached = []
        messages: list[Any] = [{"role": "system", "content": LONG}]
        for question in ("May I?", "Must I?"):
            messages.append({"role": "user", "content": question})
            completion = await client.chat.completions.create(
                model="anthropic:claude-sonnet-4-6",
                messages=messages,
                prompt_cache_key="rules",
                prompt_cache_retention="24h",
            )
            assert completion.usage is not None
            details = completion.usage.prompt_tokens_details
            cached.append(details.cached_tokens if details else None)
            messages.append({"role": "assistant", "content": completion.choices[0].message.content})
        body = simulator.requests[-1].body
    assert not cached[0]
    assert (cached[1] or 0) > 1024
    assert body["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert "prompt_cache_key" not in body


async def test_the_breakpoints_of_openais_library_reach_anthropic(tmp_path: Path) -> None:
    from openai import AsyncOpenAI

    text: Any = {
        "type": "input_text",
        "text": LONG,
        "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"},
    }
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        AsyncOpenAI(base_url=f"{address}/v1", api_key="none") as client,
    ):
        cached = []
        for question in ("May I?", "Must I?"):
            response = await client.responses.create(
                model="anthropic:claude-sonnet-4-6",
                input=[
                    {"role": "developer", "content": [text]},
                    {"role": "user", "content": question},
                ],
            )
            assert response.usage is not None
            cached.append(response.usage.input_tokens_details.cached_tokens)
        body = simulator.requests[-1].body
    assert cached[0] == 0
    assert cached[1] > 1024
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


async def test_anthropics_library_is_passed_through(tmp_path: Path) -> None:
    """At Anthropic, its request is unchanged, and the vendor's rules hold."""
    from anthropic import AsyncAnthropic, BadRequestError

    marked: Any = {"type": "text", "text": LONG, "cache_control": KEPT}
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        AsyncAnthropic(base_url=address, api_key="none", max_retries=0) as client,
    ):
        asked: dict[str, Any] = {
            "model": "anthropic:claude-sonnet-4-6",
            "max_tokens": 999,
            "tools": [{**TOOL, "cache_control": {**KEPT, "ttl": "1h"}}],
        }
        for _ in range(2):
            message = await client.messages.create(
                **asked, messages=[{"role": "user", "content": [marked]}]
            )
        assert (message.usage.cache_read_input_tokens or 0) > 1024
        body = simulator.requests[-1].body
        assert body["messages"][0]["content"] == [marked]
        assert body["tools"][0]["cache_control"] == {**KEPT, "ttl": "1h"}
        with pytest.raises(BadRequestError, match="maximum of 4"):
            await client.messages.create(
                **asked, messages=[{"role": "user", "content": [marked] * 5}]
            )
