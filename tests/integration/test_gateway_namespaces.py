"""Tools in namespaces, as Codex has them of MCP servers, are called by any model, and at home."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.testing.simulator import Invoke, Raw, Say, Simulator

SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}}}
LONG = "tell_when_it_is_high_water_at_a_place_of_the_north_sea"
MODELS = [
    "anthropic:claude-sonnet-5",
    "google:gemini-3.8-flash",
    "ollama:qwen3",
    "openai_conversations:gpt-5.5",
    "openai_responses:gpt-5.5",
]


def offer(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "parameters": SCHEMA, "strict": False}


TOOLS: Any = [
    offer("mcp__tides__note"),
    {
        "type": "namespace",
        "name": "mcp__tides",
        "description": "Knows the sea.",
        "tools": [offer("look_up"), offer("note"), offer(LONG)],
    },
]


def read_names(body: dict[str, Any]) -> list[str]:
    """Returns the names that a vendor without namespaces is told of."""
    tools = body["tools"]
    if "functionDeclarations" in tools[0]:
        tools = tools[0]["functionDeclarations"]
    return [tool.get("function", tool)["name"] for tool in tools]


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_calls_are_at_home(tmp_path: Path, model: str, is_streamed: bool) -> None:
    """Two turns: the names that the model sees are its own, and those of the client the client's.

    One of them is taken by a function, and one is too long.
    """
    wanted = [("mcp__tides", name) for name in ("look_up", "note", LONG)]
    wanted.append((None, "mcp__tides__note"))  # type: ignore[arg-type]
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        asked: dict[str, Any] = {"model": model, "tools": TOOLS, "store": False}
        history: list[Any] = [{"role": "user", "content": "When is it high water?"}]
        simulator.enqueue(Say("I have no tides yet."))
        await client.responses.create(**asked, input=history)
        offered = next(each.body for each in simulator.requests if "tools" in (each.body or ()))
        if model.startswith("openai_responses"):
            assert offered["tools"] == TOOLS
            calls: list[Any] = [
                Raw({"type": "function_call", "id": f"fc_{at}", "call_id": f"c{at}", "name": name,
                     "arguments": '{"place": "Wick"}', "status": "completed",
                     **({"namespace": space} if space else {})})
                for at, (space, name) in enumerate(wanted)
            ]  # fmt: skip
        else:
            plain, *names = read_names(offered)
            assert plain == "mcp__tides__note"
            assert names[0] == "mcp__tides__look_up"
            assert len({plain, *names}) == 4
            longest = {"anthropic": 128, "ollama": 200}.get(model.split(":")[0], 64)
            assert all(len(name) <= longest for name in names)
            calls = [Invoke(name, {"place": "Wick"}) for name in [*names, plain]]
        simulator.enqueue(*calls)
        simulator.enqueue(Say("At noon."))

        if is_streamed:
            begun: list[Any] = []
            async with client.responses.stream(**asked, input=history) as stream:
                async for event in stream:
                    if event.type == "response.output_item.added":
                        begun += [event.item] if event.item.type == "function_call" else []
                first = await stream.get_final_response()
            assert [(each.namespace, each.name) for each in begun] == wanted
        else:
            first = await client.responses.create(**asked, input=history)
        made = [each for each in first.output if each.type == "function_call"]
        assert [(each.namespace, each.name) for each in made] == wanted
        assert {each.arguments for each in made} <= {'{"place": "Wick"}', '{"place":"Wick"}'}

        history += [each.model_dump(exclude_none=True) for each in first.output]
        history += [
            {"type": "function_call_output", "call_id": each.call_id, "output": "At noon."}
            for each in made
        ]
        second = await client.responses.create(**asked, input=history)
        assert second.output_text == "At noon."
        last = simulator.requests[-1].body
    said = json.dumps(last)
    if model.startswith("openai_responses"):
        told = [each for each in last["input"] if each.get("type") == "function_call"]
        assert [(each.get("namespace"), each["name"]) for each in told] == wanted
    else:
        assert all(said.count(f'"{name}"') >= 2 for name in names)  # offered, and in the history


@pytest.mark.slow
@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("is_listed", [False, True])
async def test_what_is_kept_is_gone_on_from(
    tmp_path: Path, is_streamed: bool, is_listed: bool
) -> None:
    """A client that lets the gateway keep the history sends the result alone.

    Tools that stand among the items are not sent again.
    """
    listed = [{"type": "additional_tools", "role": "developer", "tools": TOOLS}]
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        asked: dict[str, Any] = {"model": MODELS[0], **({} if is_listed else {"tools": TOOLS})}
        said: list[Any] = [*(listed if is_listed else ())]
        said.append({"role": "user", "content": "When is it high water?"})
        earlier: dict[str, Any] = {}
        answer: Any
        for _ in range(2):
            simulator.enqueue(Invoke("mcp__tides__look_up", {"place": "Wick"}))
            if is_streamed:
                async with client.responses.stream(**asked, **earlier, input=said) as stream:
                    events = [event async for event in stream]
                answer = next(e.response for e in events if e.type == "response.completed")
                (begun,) = [e.item for e in events if e.type == "response.output_item.added"]
                assert (begun.namespace, begun.name) == ("mcp__tides", "look_up")
            else:
                answer = await client.responses.create(**asked, **earlier, input=said)
            (call,) = answer.output
            assert (call.type, call.namespace, call.name) == (
                "function_call",
                "mcp__tides",
                "look_up",
            )
            earlier = {"previous_response_id": answer.id}
            said = [{"type": "function_call_output", "call_id": call.call_id, "output": "At 12."}]
        body = simulator.requests[-1].body
    assert body["messages"][1]["content"][0]["name"] == "mcp__tides__look_up"
    assert "mcp__tides__look_up" in read_names(body)


SEARCH: Any = {
    "type": "tool_search",
    "execution": "client",
    "description": "Finds tools.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
}


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS[:4])
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_tools_that_the_client_finds_are_called(
    tmp_path: Path, model: str, is_streamed: bool
) -> None:
    """Codex defers tools of MCP servers: its client searches, and what it finds is offered.

    All of its tools stand among the items, as Codex has them for its newest models.
    """
    listed = {"type": "additional_tools", "role": "developer", "tools": [SEARCH]}
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0) as client,
    ):
        asked: dict[str, Any] = {"model": model, "store": False}
        history: list[Any] = [listed, {"role": "user", "content": "When is it high water?"}]
        simulator.enqueue(Invoke("tool_search", {"query": "tides"}))
        simulator.enqueue(Invoke("mcp__tides__look_up", {"place": "Wick"}))
        answer: Any

        for _ in range(2):
            if is_streamed:
                async with client.responses.stream(**asked, input=history) as stream:
                    events = [event async for event in stream]
                answer = next(e.response for e in events if e.type == "response.completed")
                begun = [e.item for e in events if e.type == "response.output_item.added"]
                assert [each.type for each in begun] == [each.type for each in answer.output]
            else:
                answer = await client.responses.create(**asked, input=history)
            (call,) = [each for each in answer.output if each.type != "reasoning"]
            history += [each.model_dump(exclude_none=True) for each in answer.output]
            if call.type == "tool_search_call":
                assert (call.execution, call.arguments) == ("client", {"query": "tides"})
                output = {"type": "tool_search_output", "call_id": call.call_id, "tools": TOOLS[1:]}
                history.append({**output, "execution": "client", "status": "completed"})
        assert call.type == "function_call"
        assert (call.namespace, call.name) == ("mcp__tides", "look_up")
        bodies = [each.body for each in simulator.requests if "tools" in (each.body or ())]
    assert read_names(bodies[0]) == ["tool_search"]
    assert read_names(bodies[1])[:2] == ["tool_search", "mcp__tides__look_up"]
