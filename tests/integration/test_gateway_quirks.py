"""Clients in OpenAI's words before vendors that take others: translated where known to matter."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from support.gateways.gateway_files import RoutedGateway
from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator

TOOL: Any = {
    "type": "function",
    "function": {
        "name": "clock",
        "description": "Tells the time.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
ASKED: list[Any] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "What time is it in Köln?"},
]
VENDORS = {"mistral": "mistral", "deepseek": "deepseek", "groq": "groq", "perplexity": "perplexity"}
"""From a provider to its quirks in the simulator."""


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator() as running:
        yield running


def produce_tables(simulator: Simulator) -> dict[str, Any]:
    tables = {}
    for name, quirks in VENDORS.items():
        url = f"{simulator.access_url(quirks)}/v1"
        tables[f"providers.{name}"] = f'base_url = "{url}"\napi_key = "sk-{name}"'
    own = 'module = "vibe_llms.providers.openai_compatible"\napi_key = "k"\n'
    own += f'base_url = "{simulator.url}/v1"'
    return {**tables, "providers.mine": own}


def produce_client(address: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="sk-client", max_retries=0)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["mistral:mistral-large-2512", "deepseek:deepseek-chat"])
async def test_a_session_in_the_words_of_openai_is_taken(
    simulator: Simulator, tmp_path: Path, model: str, stream: bool
) -> None:
    records: list[CallRecord] = []
    application = produce_application(tmp_path, simulator.url, **produce_tables(simulator))
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("clock", {"city": "Köln"}),)),
        ScriptedAnswer(parts=(Say("Noon."),)),
    )
    async with serve_gateway(application, records) as address, produce_client(address) as client:
        asked: dict[str, Any] = {"model": model, "max_completion_tokens": 500, "tools": [TOOL]}
        first = await client.chat.completions.create(messages=ASKED, **asked)
        [call] = first.choices[0].message.tool_calls or ()
        said: Any = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{**call.to_dict(), "id": "call_Zq3x8mVb1kP0sT7uW2yN4aLd"}],
        }
        told: Any = {
            "role": "tool",
            "tool_call_id": "call_Zq3x8mVb1kP0sT7uW2yN4aLd",
            "content": "noon",
        }
        messages = [*ASKED, said, told]
        text = ""
        if stream:
            async for chunk in await client.chat.completions.create(
                messages=messages, stream=True, **asked
            ):
                text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        else:
            second = await client.chat.completions.create(messages=messages, **asked)
            text = second.choices[0].message.content or ""
    assert text == "Noon."
    for request in simulator.requests:
        assert "max_completion_tokens" not in request.body
        assert request.body["max_tokens"] == 500
        assert request.body["messages"][0]["role"] == "system"
    assert [record.way for record in records] == ["translate", "translate"]


OWN: dict[str, Any] = {
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}],
    "max_tokens": 50,
}


@pytest.mark.parametrize(
    ("model", "body"),
    [
        ("mistral:mistral-large-2512", {**OWN, "random_seed": 4, "safe_prompt": True}),
        ("deepseek:deepseek-chat", {**OWN, "thinking": {"type": "disabled"}}),
        ("mine:anything", {**OWN, "messages": ASKED, "max_completion_tokens": 9, "top_k": 4}),
        ("openai_conversations:gpt-4o", {**OWN, "messages": ASKED, "seed": 4}),
    ],
    ids=["mistral", "deepseek", "unknown", "openai"],
)
async def test_what_touches_no_known_quirk_is_carried(
    simulator: Simulator, tmp_path: Path, model: str, body: dict[str, Any]
) -> None:
    records: list[CallRecord] = []
    application = produce_application(tmp_path, simulator.url, **produce_tables(simulator))
    simulator.enqueue(Say("Hello."))
    async with serve_gateway(application, records) as address, produce_client(address) as client:
        await client.post("/chat/completions", body={"model": model, **body}, cast_to=object)
    assert [record.way for record in records] == ["passthrough"]
    assert simulator.requests[0].body == {"model": model.partition(":")[2], **body}


def call_with(arguments: str) -> list[dict[str, Any]]:
    """Makes a conversation with a call that has such arguments."""
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "clock", "arguments": arguments},
    }
    return [
        {"role": "user", "content": "What time is it?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "That is not JSON."},
    ]


TOUCHING: dict[str, tuple[str, dict[str, Any]]] = {
    "seed": ("mistral:mistral-large-2512", {"seed": 4}),
    "choice": ("mistral:mistral-large-2512", {"tools": [TOOL], "max_completion_tokens": 9}),
    "schema": (
        "deepseek:deepseek-chat",
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": {"type": "object", "properties": {}}},
            }
        },
    ),
    "strict": (
        "deepseek:deepseek-chat",
        {"tools": [{**TOOL, "function": {**TOOL["function"], "strict": True}}]},
    ),
    "two_users": (
        "perplexity:sonar",
        {"messages": [{"role": "user", "content": "Hi."}, {"role": "user", "content": "You?"}]},
    ),
    "refusal": (
        "groq:llama-3.3-70b-versatile",
        {
            "messages": [
                {"role": "user", "content": "Hi."},
                {"role": "assistant", "content": "", "refusal": "No."},
                {"role": "user", "content": "Why?"},
            ]
        },
    ),
    "broken_arguments": ("groq:llama-3.3-70b-versatile", {"messages": call_with('{"city": ')}),
    "no_arguments": ("groq:llama-3.3-70b-versatile", {"messages": call_with("")}),
    "seed_of_another": ("openai_conversations:gpt-4o", {"random_seed": 4}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", TOUCHING)
async def test_what_touches_a_known_quirk_goes_in_the_vendors_words(
    simulator: Simulator, tmp_path: Path, case: str
) -> None:
    model, body = TOUCHING[case]
    records: list[CallRecord] = []
    application = produce_application(tmp_path, simulator.url, **produce_tables(simulator))
    simulator.enqueue(Say("{}"))
    asked = {"model": model, "messages": OWN["messages"], "repetition_penalty": 1.2, **body}
    async with serve_gateway(application, records) as address, produce_client(address) as client:
        await client.post("/chat/completions", body=asked, cast_to=object)
    assert [record.way for record in records] == ["translate"]
    for message in simulator.requests[0].body["messages"]:
        for call in message.get("tool_calls", ()):
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
    # What the model's data do not know as a control of it, its vendor may know nevertheless.
    assert simulator.requests[0].body["repetition_penalty"] == 1.2


async def test_a_fallback_is_asked_in_its_own_words(tmp_path: Path) -> None:
    async with Simulator() as first, Simulator() as second:
        url = f"{second.access_url('mistral')}/v1"
        mistral = f'[providers.mistral]\nbase_url = "{url}"\napi_key = "sk-m"\n'
        routed = RoutedGateway(tmp_path, first, second, providers=mistral)
        tables = '[models.quick]\ntargets = ["first:gpt-5.5"]\n'
        tables += 'fallback = ["mistral:mistral-large-2512"]\n'
        async with routed.run(tables):
            first.switch("server_error")
            second.enqueue(Say("Noon."))
            async with produce_client(routed.address) as client:
                answer = await client.chat.completions.create(
                    model="quick", messages=ASKED, max_completion_tokens=500
                )
    assert answer.choices[0].message.content == "Noon."
    assert first.requests[0].body["max_completion_tokens"] == 500
    assert second.requests[0].body["max_tokens"] == 500
    assert second.requests[0].body["messages"][0]["role"] == "system"


@pytest.mark.parametrize(
    ("model", "field", "way"),
    [
        ("openai_conversations:gpt-5.5", "max_tokens", "translate"),
        ("openai_conversations:gpt-5.5", "max_completion_tokens", "passthrough"),
        ("openai_conversations:gpt-4o", "max_tokens", "passthrough"),
        ("mine:gpt-5.5", "max_tokens", "passthrough"),
    ],
)
async def test_the_older_limit_suits_a_model_that_reasons(
    simulator: Simulator, tmp_path: Path, model: str, field: str, way: str
) -> None:
    """opencode says ``max_tokens`` to every model, which OpenAI's newer ones refuse."""
    records: list[CallRecord] = []
    application = produce_application(tmp_path, simulator.url, **produce_tables(simulator))
    async with serve_gateway(application, records) as address, produce_client(address) as client:
        asked: dict[str, Any] = {"model": model, "messages": ASKED, field: 500}
        if model.startswith("mine"):  # what it is, nobody knows, and it judges by itself
            with pytest.raises(openai.BadRequestError, match="max_completion_tokens"):
                await client.chat.completions.create(**asked)
        else:
            await client.chat.completions.create(**asked)
    (record,) = records
    assert record.way == way
    sent = simulator.requests[-1].body
    limits = {name: sent[name] for name in sent if name.startswith("max")}
    assert limits == {"max_completion_tokens" if way == "translate" else field: 500}
