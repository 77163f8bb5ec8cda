"""Servers that speak a vendor's protocol nearly, such as other gateways, before real clients."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import web

from support.gateways.gateways import produce_application, serve_gateway

TOOL: Any = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {}}},
}
streamed = pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])


@asynccontextmanager
async def serve_answers(answer: Any) -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """Serves what a function of a request's body returns; yields the address, and the bodies."""
    bodies: list[dict[str, Any]] = []

    async def handle(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        said = answer(bodies[-1])
        if isinstance(said, dict):
            return web.json_response(said)
        data = "".join(f"data: {json.dumps(each)}\n\n" for each in said)
        return web.Response(text=data, content_type="text/event-stream")

    application = web.Application()
    application.router.add_post("/{path:.*}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", bodies
    finally:
        await runner.cleanup()


def answer_as_litellm(body: dict[str, Any]) -> Any:
    """Counts what is written to a cache under a name of its own."""
    usage = {
        "prompt_tokens": 9_888,
        "completion_tokens": 5,
        "total_tokens": 9_893,
        "prompt_tokens_details": {"cached_tokens": 6_752, "cache_creation_tokens": 1_000},
    }
    said = {"role": "assistant", "content": "Noon."}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
    if not body.get("stream"):
        return {**whole, "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}
    head = {**whole, "object": "chat.completion.chunk"}
    choice = {"index": 0, "delta": said, "finish_reason": "stop"}
    return [{**head, "choices": [choice], "usage": None}, {**head, "choices": []}]


def call_as_answered(body: dict[str, Any]) -> Any:
    """Calls a tool, and says that it has answered."""
    block = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "Wick"}}
    usage = {"input_tokens": 3, "output_tokens": 4}
    head = {"id": "m", "type": "message", "role": "assistant", "model": "c", "usage": usage}
    ending = {"stop_reason": "end_turn", "stop_sequence": None}
    if not body.get("stream"):
        return {**head, "content": [block], **ending}
    begun = {**head, "content": [], "stop_reason": None, "stop_sequence": None}
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": usage},
        {"type": "message_stop"},
    ]


@streamed
async def test_what_litellm_wrote_to_a_cache_is_counted_once(
    tmp_path: Path, is_streamed: bool
) -> None:
    """The three counts of Anthropic add up to the prompt."""
    async with (
        serve_answers(answer_as_litellm) as (upstream, _),
        serve_gateway(produce_application(tmp_path, upstream)) as address,
        anthropic.AsyncAnthropic(base_url=address, api_key="sk-client") as client,
    ):
        asked: dict[str, Any] = {
            "model": "openai_conversations:gpt-5.5",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "When?"}],
        }
        if is_streamed:
            async with client.messages.stream(**asked) as stream:
                usage = (await stream.get_final_message()).usage
        else:
            usage = (await client.messages.create(**asked)).usage

    assert usage.input_tokens == 2_136
    assert usage.cache_read_input_tokens == 6_752
    assert usage.cache_creation_input_tokens == 1_000


@streamed
async def test_a_turn_that_calls_waits_for_the_result(tmp_path: Path, is_streamed: bool) -> None:
    """Whatever the server says of it: a client's loop goes on by this word."""
    async with (
        serve_answers(call_as_answered) as (upstream, _),
        serve_gateway(produce_application(tmp_path, upstream)) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="sk-client") as client,
    ):
        asked: dict[str, Any] = {
            "model": "anthropic:claude-sonnet-5",
            "messages": [{"role": "user", "content": "Look."}],
            "tools": [TOOL],
        }
        if is_streamed:
            async with client.chat.completions.stream(**asked) as stream:
                [choice] = (await stream.get_final_completion()).choices
        else:
            [choice] = (await client.chat.completions.create(**asked)).choices

    assert choice.finish_reason == "tool_calls"
    [call] = choice.message.tool_calls or ()
    assert json.loads(call.function.arguments) == {"at": "Wick"}  # type: ignore[union-attr]


@pytest.mark.parametrize("tools", [[], [TOOL]], ids=["none is left", "one is left"])
async def test_nothing_is_said_of_calls_where_no_tool_is_left(
    tmp_path: Path, tools: list[Any]
) -> None:
    """OpenAI answers 400: 'parallel_tool_calls' is only allowed when 'tools' are specified."""
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    given = [{"name": "look", "input_schema": {"type": "object"}} for _ in tools]
    async with (
        serve_answers(answer_as_litellm) as (upstream, bodies),
        serve_gateway(produce_application(tmp_path, upstream)) as address,
        anthropic.AsyncAnthropic(base_url=address, api_key="sk-client") as client,
    ):
        answer = await client.messages.with_raw_response.create(
            model="openai_conversations:gpt-5.5",
            max_tokens=9,
            messages=[{"role": "user", "content": "When?"}],
            tools=[search, *given],  # type: ignore[list-item]
            tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        )

    assert bodies[0].get("parallel_tool_calls") == (False if tools else None)
    assert ("parallel_invocations" in answer.headers["x-vibe-losses"]) is not bool(tools)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["openai_conversations:gpt-5.5", "mistral:mistral-large-2512"])
@pytest.mark.parametrize(
    "turn",
    [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "item_reference", "id": "msg_1"},
    ],
    ids=["thoughts", "reference"],
)
async def test_a_turn_of_which_nothing_may_be_said_is_left_out(
    tmp_path: Path, model: str, turn: dict[str, Any]
) -> None:
    """Moonshot: "the message at position 1 with role 'assistant' must not be empty"."""
    said: list[Any] = [
        {"role": "user", "content": "Hello."},
        turn,
        {"role": "user", "content": "When?"},
    ]
    async with serve_answers(answer_as_litellm) as (upstream, bodies):
        tables = {"providers.mistral": f'base_url = "{upstream}/v1"\napi_key = "sk-m"'}
        async with (
            serve_gateway(produce_application(tmp_path, upstream, **tables)) as address,
            openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="sk-client") as client,
        ):
            answer = await client.responses.with_raw_response.create(model=model, input=said)

    assert [each["content"] for each in bodies[0]["messages"]] == ["Hello.", "When?"]
    assert "without content" in answer.headers["x-vibe-losses"]


@pytest.mark.parametrize("content", ["", None])
async def test_an_empty_turn_goes_to_no_vendor_that_refuses_it(
    tmp_path: Path, content: str | None
) -> None:
    """Mistral: "Assistant message must have either content or tool_calls"."""
    said: list[Any] = [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": content},
        {"role": "user", "content": "When?"},
    ]
    async with serve_answers(answer_as_litellm) as (upstream, bodies):
        tables = {"providers.mistral": f'base_url = "{upstream}/v1"\napi_key = "sk-m"'}
        async with (
            serve_gateway(produce_application(tmp_path, upstream, **tables)) as address,
            openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="sk-client") as client,
        ):
            for model in ("mistral:mistral-large-2512", "openai_conversations:gpt-5.5"):
                await client.chat.completions.create(model=model, messages=said)

    assert [each["content"] for each in bodies[0]["messages"]] == ["Hello.", "When?"]
    assert bodies[1]["messages"] == said
