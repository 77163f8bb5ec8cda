"""A custom tool of an OpenAI client is called by any model, and in the client's form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Invoke, Say, Simulator

PATCH = '*** Begin Patch\n*** Add File: tide "é" 🌊.txt\n+High at noon.\\\n*** End Patch\n'
GRAMMAR = {"syntax": "lark", "definition": 'start: "*** Begin Patch" LF'}
MODELS = [
    "anthropic:claude-sonnet-5",
    "google:gemini-3.8-flash",
    "ollama:qwen3",
    "openai_conversations:gpt-5.5",
    "openai_responses:gpt-5.5",
]
OPENAI = MODELS[3:]
RESPONSES_TOOL: Any = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", **GRAMMAR},
}
CHAT_TOOL: Any = {
    "type": "custom",
    "custom": {
        "name": "apply_patch",
        "description": "Edits files.",
        "format": {"type": "grammar", "grammar": GRAMMAR},
    },
}

models = pytest.mark.parametrize("model", MODELS)
streamed = pytest.mark.parametrize("is_streamed", [False, True])


def script(simulator: Simulator, model: str) -> None:
    """Has the model edit a file, and say so."""
    is_custom = model in OPENAI
    arguments: Any = PATCH if is_custom else {"input": PATCH}
    simulator.enqueue(Invoke("apply_patch", arguments, custom=is_custom))
    simulator.enqueue(Say("Done."))


def check_offer(model: str, body: dict[str, Any]) -> None:
    """Holds that the vendor was told of the tool and of its grammar, as it has such tools."""
    if model == "openai_responses:gpt-5.5":
        assert body["tools"] == [RESPONSES_TOOL]
    elif model == "openai_conversations:gpt-5.5":
        assert body["tools"] == [CHAT_TOOL]
    else:
        told = json.dumps(body["tools"])
        assert json.dumps(GRAMMAR["definition"])[1:-1] in told
        assert "apply_patch" in told


@pytest.mark.slow
@models
@streamed
async def test_over_responses(tmp_path: Path, model: str, is_streamed: bool) -> None:
    """By the official library: the call, its pieces, and the turn after it."""
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        script(simulator, model)
        history: list[Any] = [{"role": "user", "content": "Note the tide."}]
        asked: dict[str, Any] = {"model": model, "tools": [RESPONSES_TOOL], "store": False}
        choice: Any = {"type": "custom", "name": "apply_patch"}
        if is_streamed:
            pieces, done = [], []
            async with client.responses.stream(
                **asked, input=history, tool_choice=choice
            ) as stream:
                async for event in stream:
                    if event.type == "response.custom_tool_call_input.delta":
                        pieces.append(event.delta)
                    if event.type == "response.custom_tool_call_input.done":
                        done.append(event.input)
                first = await stream.get_final_response()
            assert "".join(pieces) == PATCH
            assert done == [PATCH]
        else:
            first = await client.responses.create(**asked, input=history, tool_choice=choice)
        (call,) = [each for each in first.output if each.type == "custom_tool_call"]
        assert (call.name, call.input) == ("apply_patch", PATCH)

        history += [each.model_dump(exclude_none=True) for each in first.output]
        output = {"type": "custom_tool_call_output", "call_id": call.call_id, "output": "Noted."}
        second = await client.responses.create(**asked, input=[*history, output])
        assert second.output_text == "Done."
        bodies = [each.body for each in simulator.requests if "tools" in (each.body or ())]
    check_offer(model, bodies[0])
    said = json.dumps(bodies[1])
    assert "Noted." in said
    assert "apply_patch" in said
    assert "High at noon." in said


@pytest.mark.slow
@models
@streamed
async def test_over_chat_completions(tmp_path: Path, model: str, is_streamed: bool) -> None:
    """Here a call is whole in the last of its pieces."""
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        script(simulator, model)
        history: list[Any] = [{"role": "user", "content": "Note the tide."}]
        asked: dict[str, Any] = {"model": model, "tools": [CHAT_TOOL]}
        choice: Any = {"type": "custom", "custom": {"name": "apply_patch"}}
        if is_streamed:
            call: dict[str, Any] = {"id": None, "type": None, "name": "", "input": ""}
            stream = await client.chat.completions.create(
                **asked, messages=history, tool_choice=choice, stream=True
            )
            async for chunk in stream:
                for choice_ in chunk.choices:
                    for delta in choice_.delta.tool_calls or ():
                        told = delta.model_dump(exclude_none=True)
                        call |= {name: told[name] for name in ("id", "type") if name in told}
                        call["name"] += told["custom"].get("name", "")
                        call["input"] += told["custom"].get("input", "")
        else:
            first = await client.chat.completions.create(
                **asked, messages=history, tool_choice=choice
            )
            (told,) = first.model_dump(exclude_none=True)["choices"][0]["message"]["tool_calls"]
            call = {"id": told["id"], "type": told["type"], **told["custom"]}
        assert call["type"] == "custom"
        assert (call["name"], call["input"]) == ("apply_patch", PATCH)

        made = {"id": call["id"], "type": "custom", "custom": {"name": call["name"]}}
        made["custom"]["input"] = call["input"]
        history += [
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": call["id"], "content": "Noted."},
        ]
        second = await client.chat.completions.create(**asked, messages=history)
        assert second.choices[0].message.content == "Done."
        bodies = [each.body for each in simulator.requests if "tools" in (each.body or ())]
    check_offer(model, bodies[0])
    assert "Noted." in json.dumps(bodies[1])
    assert "High at noon." in json.dumps(bodies[1])
