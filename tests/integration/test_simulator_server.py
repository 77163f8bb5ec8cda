"""The simulator as others start it: from synchronous tests, as a command, behind a cloud's path."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.request
from typing import Any

import openai
import pytest

from vibe_llms.testing.simulator import Say, ScriptedAnswer, Simulator, SynchronousSimulator, Think


def post(url: str, body: Any) -> Any:
    """Sends JSON with a library that knows nothing of asyncio; returns the body as it came."""
    headers = {"authorization": "Bearer k", "content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read()


HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def test_a_synchronous_test_has_the_same_simulator() -> None:
    """It runs in a thread; scripts, requests and the SDK's synchronous client work."""
    with SynchronousSimulator() as simulator:
        simulator.enqueue(Say("scripted"))
        with openai.OpenAI(base_url=f"{simulator.url}/v1", api_key="k", max_retries=0) as client:
            completion = client.chat.completions.create(**HELLO)
        assert completion.choices[0].message.content == "scripted"
        (request,) = simulator.requests
        assert request.body == HELLO
        assert request.headers["authorization"] == "Bearer k"
        assert request.answered
    with pytest.raises(OSError, match="refused"):
        post(f"{simulator.url}/v1/chat/completions", HELLO)


@pytest.mark.slow
def test_the_command_prints_its_address_and_serves() -> None:
    """Its first line is its URL; it ends when it is interrupted."""
    command = [sys.executable, "-m", "vibe_llms.testing.simulator", "--simulate", "vllm"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            answer = json.loads(post(f"{url}/v1/chat/completions", HELLO))
        finally:
            process.terminate()
    assert answer["choices"][0]["message"]["content"] == "hello"
    assert "token_ids" in answer["choices"][0]


def test_bedrock_paths_answer_messages_in_amazons_framing() -> None:
    """Whole and streamed; the model is named by the path."""
    body = {"anthropic_version": "bedrock-2023-05-31", "max_tokens": 9, **HELLO}
    del body["model"]
    with SynchronousSimulator() as simulator:
        whole = json.loads(post(f"{simulator.url}/model/anthropic.claude/invoke", body))
        path = "/model/anthropic.claude/invoke-with-response-stream"
        streamed = post(simulator.url + path, body)
    assert (whole["model"], whole["content"][0]["text"]) == ("anthropic.claude", "hello")
    events, at = [], 0
    while at < len(streamed):
        total, headers = (int.from_bytes(streamed[at + i : at + i + 4], "big") for i in (0, 4))
        payload = json.loads(streamed[at + 12 + headers : at + total - 4])
        events.append(json.loads(base64.b64decode(payload["bytes"])))
        at += total
    assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]


async def test_a_response_follows_one_that_is_kept() -> None:
    """previous_response_id brings the earlier items; a response that was deleted is not found."""
    tools: Any = [{"type": "function", "name": "f", "parameters": {}, "strict": False}]
    async with (
        Simulator() as simulator,
        openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="k", max_retries=0) as client,
    ):
        first = await client.responses.create(model="m", input="call f", tools=tools)
        output: Any = {
            "type": "function_call_output",
            "call_id": first.output[0].call_id,
            "output": "sun",
        }
        second = await client.responses.create(
            model="m", input=[output], previous_response_id=first.id, tools=tools
        )
        assert second.output_text == "f said: sun"
        await client.responses.delete(first.id)
        with pytest.raises(openai.BadRequestError, match="not found"):
            await client.responses.create(model="m", input="x", previous_response_id=first.id)


async def test_a_refused_request_uses_no_turn_up() -> None:
    """What was enqueued is said to the next request that the vendor would answer."""
    async with (
        Simulator() as simulator,
        openai.AsyncOpenAI(base_url=f"{simulator.url}/v1", api_key="k", max_retries=0) as client,
    ):
        simulator.enqueue(ScriptedAnswer(parts=(Think("hidden"), Say("kept")), stop="length"))
        with pytest.raises(openai.BadRequestError):
            await client.chat.completions.create(model="m", messages=[])
        completion = await client.chat.completions.create(**HELLO)
    assert completion.choices[0].message.content == "kept"
    assert completion.choices[0].finish_reason == "length"
