"""What a vendor has signed comes back to it, though its client speaks another protocol."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest

from support.gateways.gateway_files import RoutedGateway
from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.daemons.records import CallRecord
from vibe_llms.dialects.signatures import MARK
from vibe_llms.messages.losses import LossKind
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator, Think

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}}
MODELS = {
    "messages": "anthropic:claude-sonnet-4-5",
    "gemini": "google:gemini-3-pro-preview",
    "responses": "openai_responses:gpt-5.5",
}
NOON = {"output": "noon"}
ASKED = "What time is it in Köln?"
CALL = ScriptedAnswer(parts=(Think("One city."), Invoke("clock", {"city": "Köln"})))


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """Vendors that sign what their models think, and look at what comes back."""
    async with Simulator() as running:
        yield running


@pytest.fixture
def records() -> list[CallRecord]:
    """What the gateway tells of requests."""
    return []


@pytest.fixture
async def address(
    simulator: Simulator, tmp_path: Path, records: list[CallRecord]
) -> AsyncIterator[str]:
    """A gateway before them."""
    async with serve_gateway(produce_application(tmp_path, simulator.url), records) as running:
        yield running


async def ask_chat(address: str, model: str, *, stream: bool) -> None:
    tool: Any = {"type": "function", "function": {"name": "clock", "parameters": SCHEMA}}
    asked: dict[str, Any] = {"model": model, "tools": [tool], "reasoning_effort": "high"}
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as client:
        for result in ("noon", None):
            if stream:
                said = await gather(client, messages, asked)
            else:
                answer = await client.chat.completions.create(messages=messages, **asked)
                said = answer.choices[0].message.to_dict()
            messages.append(said)
            for call in said.get("tool_calls") or ():
                told = {"role": "tool", "tool_call_id": call["id"], "content": result}
                messages.append(told)
    assert messages[-1]["content"] == "Noon."


async def gather(
    client: openai.AsyncOpenAI, messages: list[Any], asked: dict[str, Any]
) -> dict[str, Any]:
    """Returns the message that the chunks of a stream come to."""
    said: dict[str, Any] = {"role": "assistant", "content": ""}
    async for chunk in await client.chat.completions.create(
        messages=messages, stream=True, **asked
    ):
        delta = chunk.choices[0].delta
        said["content"] += delta.content or ""
        for name in ("reasoning_content", "reasoning_details"):
            if told := (delta.model_extra or {}).get(name):
                said[name] = said.get(name, type(told)()) + told
        for call in delta.tool_calls or ():
            calls = said.setdefault("tool_calls", [])
            if call.index == len(calls):
                function = {"name": call.function and call.function.name, "arguments": ""}
                calls.append({"id": call.id, "type": "function", "function": function})
            calls[call.index]["function"]["arguments"] += (
                call.function and call.function.arguments
            ) or ""
    return said


async def ask_responses(address: str, model: str, *, stream: bool, store: bool = False) -> None:
    tool = {"type": "function", "name": "clock", "parameters": SCHEMA, "strict": False}
    asked: dict[str, Any] = {"model": model, "tools": [tool], "reasoning": {"effort": "high"}}
    asked |= {"store": store}
    given: list[Any] = [{"role": "user", "content": ASKED}]
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as client:
        for asked["model"] in (model.split() * 2)[:2]:
            if stream:
                async with client.responses.stream(input=given, **asked) as events:
                    answer: Any = await events.get_final_response()
            else:
                answer = await client.responses.create(input=given, **asked)
            outputs = [
                {"type": "function_call_output", "call_id": item.call_id, "output": "noon"}
                for item in answer.output
                if item.type == "function_call"
            ]
            if store:
                asked["previous_response_id"], given = answer.id, [*outputs]
            else:
                given = [*given, *(item.to_dict() for item in answer.output), *outputs]
    assert answer.output_text == "Noon."


async def ask_messages(address: str, model: str, *, stream: bool) -> None:
    tool: Any = {"name": "clock", "input_schema": SCHEMA}
    asked: dict[str, Any] = {"model": model, "tools": [tool], "max_tokens": 3000}
    asked["thinking"] = {"type": "enabled", "budget_tokens": 2000}
    messages: list[Any] = [{"role": "user", "content": ASKED}]
    async with anthropic.AsyncAnthropic(base_url=address, api_key="x", max_retries=0) as client:
        for asked["model"] in (model.split() * 2)[:2]:
            if stream:
                async with client.messages.stream(messages=messages, **asked) as events:
                    answer: Any = await events.get_final_message()
            else:
                answer = await client.messages.create(messages=messages, **asked)
            messages.append({"role": "assistant", "content": [b.to_dict() for b in answer.content]})
            results = [
                {"type": "tool_result", "tool_use_id": block.id, "content": "noon"}
                for block in answer.content
                if block.type == "tool_use"
            ]
            messages.append({"role": "user", "content": results})
    assert "Noon." in [getattr(block, "text", "") for block in answer.content]


async def ask_gemini(address: str, model: str, *, stream: bool) -> None:
    method = "streamGenerateContent?alt=sse" if stream else "generateContent"
    declared = {"functionDeclarations": [{"name": "clock", "parameters": SCHEMA}]}
    thinking = {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": 2000}}
    contents: list[Any] = [{"role": "user", "parts": [{"text": ASKED}]}]
    said: list[Any] = []
    async with aiohttp.ClientSession(address) as session:
        for name in (model.split() * 2)[:2]:
            body = {"contents": contents, "tools": [declared], "generationConfig": thinking}
            async with session.post(f"/v1beta/models/{name}:{method}", json=body) as answer:
                text = await answer.text()
                assert answer.status == 200, text
            chunks = [
                json.loads(line.removeprefix("data: "))
                for line in (text.splitlines() if stream else [text])
                if line
            ]
            said = [part for each in chunks for part in each["candidates"][0]["content"]["parts"]]
            contents.append({"role": "model", "parts": said})
            calls = [part["functionCall"] for part in said if "functionCall" in part]
            results = [
                {
                    "functionResponse": {
                        "id": c.get("id"),
                        "name": "clock",
                        "response": {"output": "noon"},
                    }
                }
                for c in calls
            ]
            contents.append({"role": "user", "parts": results})
    assert "Noon." in "".join(part.get("text", "") for part in said)


FACES = {
    "chat": ask_chat,
    "responses": ask_responses,
    "messages": ask_messages,
    "gemini": ask_gemini,
}


def find_signatures(vendor: str, body: dict[str, Any]) -> list[str]:
    """Returns what of a request only the vendor can read."""
    if vendor == "responses":
        return [i["encrypted_content"] for i in body["input"] if i.get("type") == "reasoning"]
    if vendor == "gemini":
        parts = [part for content in body["contents"] for part in content["parts"]]
        return [part["thoughtSignature"] for part in parts if "thoughtSignature" in part]
    blocks = [block for m in body["messages"] if m["role"] == "assistant" for block in m["content"]]
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


async def ensure_return(simulator: Simulator, records: list[CallRecord], vendor: str) -> None:
    """Fails unless the second request has the signature of the first answer."""
    first, second = (each.body for each in simulator.requests)
    assert not find_signatures(vendor, first)
    signatures = find_signatures(vendor, second)
    assert signatures
    assert not any(signature.startswith(("skip_", MARK)) for signature in signatures)
    if vendor == "messages":
        assert second["thinking"] == first["thinking"]
    lost = [
        str(loss)
        for record in records
        for loss in record.losses
        if loss.kind in (LossKind.DROPPED, LossKind.WITHHELD)
    ]
    assert not [loss for loss in lost if "ignature" in loss or "effort" in loss], lost


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("face", "vendor"),
    [(face, vendor) for face in FACES for vendor in MODELS if face != vendor],
)
async def test_a_seal_comes_back_by_the_hands_of_the_client(
    simulator: Simulator,
    address: str,
    records: list[CallRecord],
    face: str,
    vendor: str,
    stream: bool,
) -> None:
    simulator.enqueue(CALL, Say("Noon."))
    await FACES[face](address, MODELS[vendor], stream=stream)  # type: ignore[operator]
    await ensure_return(simulator, records, vendor)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("vendor", ["messages", "gemini"])
async def test_a_seal_is_kept_with_the_response_that_has_it(
    simulator: Simulator, address: str, records: list[CallRecord], vendor: str, stream: bool
) -> None:
    simulator.enqueue(CALL, Say("Noon."))
    await ask_responses(address, MODELS[vendor], stream=stream, store=True)
    await ensure_return(simulator, records, vendor)


@pytest.mark.parametrize("vendor", ["responses", "messages", "gemini"])
async def test_a_seal_is_not_shown_to_a_vendor_of_the_clients_protocol(
    simulator: Simulator, address: str, records: list[CallRecord], vendor: str
) -> None:
    """Who changes from one model to another in the midst of a conversation is answered."""
    face = {"responses": ask_responses, "messages": ask_messages, "gemini": ask_gemini}[vendor]
    other = "messages" if vendor != "messages" else "gemini"
    simulator.enqueue(CALL, Say("Noon."))
    await face(address, f"{MODELS[other]} {MODELS[vendor]}", stream=False)
    assert MARK not in str(simulator.requests[1].body)
    assert records[-1].address == MODELS[vendor]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_sealed_conversation_returns_to_its_vendor_first(
    tmp_path: Path, fails: bool
) -> None:
    """Whatever is drawn; where that one fails, another answers without what it cannot read."""
    async with Simulator() as first, Simulator() as second:
        tables = '[models.quick]\ntargets = ["claude:claude-sonnet-4-5"]\n'
        tables += 'fallback = ["first:gpt-5.5"]\n[models.later]\n'
        tables += 'targets = ["first:gpt-5.5"]\nfallback = ["claude:claude-sonnet-4-5"]\n'
        routed = RoutedGateway(tmp_path, first, second)
        async with routed.run(tables):
            second.enqueue(CALL)
            asked: dict[str, Any] = {"reasoning_effort": "high", "model": "quick"}
            tool = {"type": "function", "function": {"name": "clock", "parameters": SCHEMA}}
            messages: list[Any] = [{"role": "user", "content": ASKED}]
            answer = await routed.ask(**asked, tools=[tool], messages=messages)
            said = json.loads(answer.body)["choices"][0]["message"]
            [call] = said["tool_calls"]
            messages += [said, {"role": "tool", "tool_call_id": call["id"], "content": "noon"}]
            if fails:
                second.switch("server_error=9")
            for simulator in (first, second):
                simulator.enqueue(Say("Noon."))
            again = {**asked, "model": "later", "tools": [tool], "messages": messages}
            answer = await routed.ask(**again)
    assert answer.status == 200, answer.body
    assert len(first.requests) == fails
    assert len(second.requests) == 2
    assert find_signatures("messages", second.requests[1].body)
    assert MARK not in str([each.body for each in first.requests])
