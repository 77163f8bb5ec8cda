"""Whole sessions of coding agents go through the gateway, whichever vendor is behind it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import pytest

from support.gateways.coding_agents import (
    AGENTS,
    PATCH,
    Agent,
    Aider,
    Call,
    ClaudeCode,
    Codex,
    GeminiCli,
    OpenCode,
)
from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.dialects.bookkeeping import is_bookkeeping
from vibe_llms.testing.simulator import Invoke, Raw, Say, Simulator, Think

MODELS = [
    "anthropic:claude-sonnet-5",
    "google:gemini-3.8-flash",
    "ollama:qwen3",
    "openai_conversations:gpt-5.5",
    "openai_responses:gpt-5.5",
]

agents = pytest.mark.parametrize("agent_class", AGENTS, ids=lambda each: each.name)
models = pytest.mark.parametrize("model", MODELS)
streamed = pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])


def call_upstream(model: str, tool: str, said: Any, number: int) -> Any:
    """Returns how a vendor's model calls a tool of an agent."""
    space, _, name = tool.rpartition("/")
    if model.startswith("openai_responses"):
        item = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
        item |= {"namespace": space} if space else {}
        if isinstance(said, str):
            return Raw({"type": "custom_tool_call", **item, "input": said, "status": "completed"})
        arguments = json.dumps(said)
        item |= {"arguments": arguments, "status": "completed"}
        return Raw({"type": "function_call", **item}) if space else Invoke(name, said)
    plain = tool.removeprefix("functions/").replace("/", "__")
    if isinstance(said, str) and not model.startswith("openai_conversations"):
        return Invoke(plain, {"input": said})
    return Invoke(plain, said, custom=isinstance(said, str))


Leaf: TypeAlias = tuple[tuple[str, ...], str]
"""A value in plain data, written in JSON, and the names of the fields that lead to it."""


def list_leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """Yields the values in plain data, and what JSON in them says in place of its text."""
    if isinstance(value, str) and value[:1] in "{[":
        with contextlib.suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, dict):
        for name, each in value.items():
            yield from list_leaves(each, (*path, name))
    elif isinstance(value, list):
        for each in value:
            yield from list_leaves(each, path)
    else:
        yield path, json.dumps(value)


class Session:
    """A session of an agent before the gateway, and what it came to at the vendor."""

    def __init__(self, agent: Agent, client: aiohttp.ClientSession, simulator: Simulator) -> None:
        self.agent, self.client, self.simulator = agent, client, simulator
        self.losses: list[str] = []
        self.asked: dict[str, Any] = {}
        self.received: dict[str, Any] = {}

    async def go_on(self, *parts: Any) -> tuple[str, list[Call]]:
        """Has the model say this to the agent's next request."""
        self.simulator.enqueue(*parts)
        self.asked = self.agent.compose()
        before = len(self.simulator.requests)
        async with self.client.post(
            self.agent.path, json=self.asked, headers=self.agent.headers
        ) as answer:
            data = await answer.read()
            assert answer.status == 200, data
            self.losses = json.loads(answer.headers.get("x-vibe-losses", "[]"))
        bodies = [each.body for each in self.simulator.requests[before:]]
        (self.received,) = [each for each in bodies if each and len(each) > 1]
        return self.agent.hear(data)


@pytest.mark.slow
@agents
@models
@streamed
async def test_a_session(
    tmp_path: Path, agent_class: type[Agent], model: str, is_streamed: bool
) -> None:
    """Looks, edits and asks an MCP server at once, fails, tries again, and goes on."""
    agent = agent_class(model, streaming=is_streamed)
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as client,
    ):
        session = Session(agent, client, simulator)
        agent.say("Note when it is high water at Wick.")
        if isinstance(agent, Aider):
            for words in ("Where is Wick?", "In Caithness."):
                assert await session.go_on(Say(words)) == (words, [])
                check(session)
                agent.say("And when?")
            return

        looked = {"command": "ls -a 'é \\ \"🌊'", "timeout_ms": 1000}
        text, calls = await session.go_on(
            Think("It may be there."), Say("I look."), call_upstream(model, agent.look, looked, 1)
        )
        assert text == "I look."
        assert calls == [Call(agent.look, looked)]
        check(session)
        agent.answer(calls[0], "tides.md is not there.")

        place = {"place": "Wick"}
        written: Any = PATCH if isinstance(agent, Codex) else {"file_path": "t", "path": "t"}
        text, calls = await session.go_on(
            call_upstream(model, agent.edit, written, 2),
            call_upstream(model, agent.other, place, 3),
        )
        assert calls == [Call(agent.edit, written), Call(agent.other, place)]
        check(session)
        agent.answer(calls[0], "The disk is full.", failed=True)
        agent.answer(calls[1], "High water at noon.")

        _, calls = await session.go_on(call_upstream(model, agent.edit, written, 4))
        assert calls == [Call(agent.edit, written)]
        check(session)
        agent.answer(calls[0], "Written.")

        assert await session.go_on(Say("It is noted.")) == ("It is noted.", [])
        check(session)
        agent.say("Thank you.")
        assert await session.go_on(Say("You are welcome.")) == ("You are welcome.", [])
        check(session)


def check(session: Session) -> None:
    """Holds that the vendor was told all that was said, or that it is told as a loss."""
    agent = session.agent
    received = {value for _, value in list_leaves(session.received)}
    whole = json.dumps(session.received)
    names = [name.rpartition("/")[2] for name in agent.list_tools()]
    assert all(name in whole for name in names)
    told = " ".join(session.losses)
    missing = {
        (path, value)
        for path, value in list_leaves(session.asked)
        if value not in received
        and value.strip('"').lower() not in whole.lower()
        and path[-1] not in WORDS
        and (path[-1], value) not in SILENT
        and not is_kept_quiet(path, value)
        and not any(each in told for name in path for each in (name, *spell(name)))
    }
    assert not missing, (missing, session.losses)


WORDS = frozenset(
    {"type", "role", "model", "id", "call_id", "tool_use_id", "tool_call_id", "name", "stream"}
)
"""What every protocol says in its own way."""


SILENT = frozenset(
    {
        ("content", '""'),
        ("parallel_tool_calls", "true"),
        ("replace_all", "false"),
        ("strict", "false"),
        ("tool_choice", '"auto"'),
    }
)
"""What silence means, too."""


def is_kept_quiet(path: tuple[str, ...], value: str) -> bool:
    """Tells whether a value is bookkeeping, whose loss stands in the log alone."""
    is_nested = len(path) > 1 and is_bookkeeping(path[-1], value)
    return is_nested or is_bookkeeping(path[0], value, is_request=True)


def spell(name: str) -> Iterator[str]:
    """Yields by which other names a field is told as a loss."""
    yield "".join(f"_{each.lower()}" if each.isupper() else each for each in name)
    if name in ("cache_control", "prompt_cache_key"):
        yield from ("cache hint", "cache.key")
    if name == "reasoning_content":
        yield from ("reasoning", "thought")


ASIDE: list[tuple[str, dict[str, Any]]] = [
    (  # Claude Code asks a small model for a title
        "/v1/messages?beta=true",
        {
            "model": "{model}",
            "max_tokens": 32_000,
            "system": [{"type": "text", "text": "Name the session."}],
            "messages": [{"role": "user", "content": "Note when it is high water at Wick."}],
            "output_config": {"format": {"type": "json_schema", "schema": {
                "type": "object", "properties": {"title": {"type": "string"}},
                "required": ["title"], "additionalProperties": False}}},
            "stream": True,
        },
    ),
    (  # Gemini CLI asks who speaks next
        "/v1beta/models/{model}:generateContent",
        {
            "contents": [{"role": "user", "parts": [{"text": "Who speaks next? Answer in JSON."}]}],
            "generationConfig": {
                "temperature": 0,
                "topP": 1,
                "responseMimeType": "application/json",
                "responseJsonSchema": {
                    "type": "object", "properties": {"title": {"type": "string"}},
                    "required": ["title"]},
            },
        },
    ),
    (  # Codex has an answer held to a schema
        "/v1/responses",
        {
            "model": "{model}",
            "instructions": "Name the session.",
            "input": [{"type": "message", "role": "user", "content": "High water at Wick."}],
            "store": False,
            "text": {"format": {"type": "json_schema", "strict": True, "name": "output_schema",
                                "schema": {
                                    "type": "object",
                                    "properties": {"title": {"type": "string"}},
                                    "required": ["title"], "additionalProperties": False}}},
        },
    ),
]  # fmt: skip


@pytest.mark.slow
@models
@pytest.mark.parametrize(("path", "body"), ASIDE, ids=["title", "speaker", "schema"])
async def test_what_is_asked_aside(
    tmp_path: Path, path: str, body: dict[str, Any], model: str
) -> None:
    """Small questions besides the session, whose answers are held to a schema."""
    if "model" in body:
        body = {**body, "model": model}
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as client,
    ):
        simulator.enqueue(Say('{"title": "Tides"}'))
        async with client.post(path.replace("{model}", model), json=body) as answer:
            text = await answer.text()
            assert answer.status == 200, text
        asked = [json.dumps(each.body) for each in simulator.requests]
    assert "Tides" in text
    assert '"title"' in asked[-1]


@models
async def test_tokens_are_counted_of_a_whole_session(tmp_path: Path, model: str) -> None:
    """Claude Code and Gemini CLI ask how full the window is, whoever counts."""
    claude, gemini = ClaudeCode(model, streaming=True), GeminiCli(model, streaming=True)
    for agent in (claude, gemini):
        agent.say("Note when it is high water at Wick.")
    body = claude.compose()
    counted = {name: body[name] for name in ("model", "messages", "system", "tools", "thinking")}
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url)) as address,
        aiohttp.ClientSession(address) as client,
    ):
        path = "/v1/messages/count_tokens?beta=true"
        async with client.post(path, json=counted, headers=claude.headers) as answer:
            told = await answer.json()
            assert answer.status == 200, told
        assert told["input_tokens"] > 20
        without = {**counted, "tools": counted["tools"][:1]}
        async with client.post(path, json=without, headers=claude.headers) as answer:
            fewer = await answer.json()
        assert fewer["input_tokens"] < told["input_tokens"]
        asked = {"contents": gemini.compose()["contents"]}
        path = f"/v1beta/models/{model}:countTokens"
        async with client.post(path, json=asked, headers=gemini.headers) as answer:
            told = await answer.json()
            assert answer.status == 200, told
        assert told["totalTokens"] > 0


LOOK_UPS = [
    ("/v1/models?client_version=0.144.1", Codex),
    ("/v1/models?limit=1000", ClaudeCode),
    ("/v1/models", OpenCode),
    ("/v1beta/models?pageSize=100", GeminiCli),
]


@pytest.mark.slow
@pytest.mark.parametrize(("path", "agent"), LOOK_UPS, ids=lambda each: str(each))
async def test_models_are_looked_up(tmp_path: Path, path: str, agent: type[Agent]) -> None:
    """By a list in the form of the agent's protocol, and each by its name."""
    tables: dict[str, Any] = {"aliases": 'harbour = "anthropic:claude-sonnet-5"'}
    async with (
        Simulator() as simulator,
        serve_gateway(produce_application(tmp_path, simulator.url, **tables)) as address,
        aiohttp.ClientSession(address) as client,
    ):
        async with client.get(path, headers=agent.headers) as answer:
            listed = await answer.json()
            assert answer.status == 200, listed
        names = [each.get("id") or each["name"] for each in listed.get("data") or listed["models"]]
        assert [name for name in names if name.endswith("harbour")]
        base = path.partition("?")[0]
        async with client.get(f"{base}/harbour", headers=agent.headers) as answer:
            one = await answer.json()
            assert answer.status == 200, one
        assert (one.get("id") or one["name"]).endswith("harbour")
