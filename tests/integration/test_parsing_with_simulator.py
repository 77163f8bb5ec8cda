"""Structured output at every vendor, in each mode, against simulated vendors."""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.vendors.remoting import produce_context
from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.instruments.parsers.dialogue import Dialogue
from vibe_llms.instruments.parsers.modes import Mode
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.instruments.parsers.partials import Partial
from vibe_llms.instruments.parsers.sessions import Following
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator

PLACES = {
    "anthropic": ("anthropic", "", "", "claude-sonnet-4-5"),
    "deepseek": ("openai_compatible", "deepseek", "/v1", "m"),
    "google": ("google", "", "", "gemini-2.5-flash"),
    "groq": ("openai_compatible", "groq", "/v1", "m"),
    "mistral": ("openai_compatible", "mistral", "/v1", "m"),
    "ollama": ("ollama", "", "", "m"),
    "openai_conversations": ("openai_conversations", "", "/v1", "gpt-5"),
    "openai_responses": ("openai_responses", "", "/v1", "gpt-5"),
    "vllm": ("vllm", "vllm", "/v1", "m"),
}
"""From each provider to its module, its quirks in the simulator, the path, and a model."""


@attrs.frozen
class City:
    """A place where many live."""

    name: str
    people: int
    twins: list[str] = attrs.field(factory=list)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A running server."""
    async with Simulator() as running:
        yield running


@pytest.fixture(params=sorted(PLACES))
async def model(
    request: pytest.FixtureRequest, simulator: Simulator, tmp_path: Path
) -> AsyncIterator[ConverserModel]:
    """A model of each vendor."""
    module, quirks, path, name = PLACES[request.param]
    url = simulator.access_url(quirks) if quirks else simulator.url
    produce = importlib.import_module(f"vibe_llms.providers.{module}").produce_provider
    settings = {"base_url": f"{url}{path}", "api_key": "canary"}
    if request.param == "ollama":
        del settings["api_key"]
    client = produce(produce_context(request.param, tmp_path, **settings)).produce_client()
    yield await client.access_model(name)
    await client.close()


def answer(mode: str, **fields: Any) -> Invoke | Say:
    """Says a city in the way of a mode."""
    if mode == "tool":
        return Invoke("City", fields)
    text = json.dumps(fields)
    return Say(f"Here it is:\n```json\n{text}\n```" if mode == "prompt" else text)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
async def test_an_answer_is_mended_and_taken(
    simulator: Simulator, model: ConverserModel, mode: Any
) -> None:
    """The vendor takes the request, the fault goes back to it, and all of it is accounted for."""
    simulator.enqueue(
        ScriptedAnswer(parts=(answer(mode, name="Paris"),)),
        ScriptedAnswer(parts=(answer(mode, name="Paris", people=2102650),)),
    )
    parser = Parser(City, mode=mode)
    request = Request(canisters=[UserCanister("Paris?")], model=str(model.descriptor))
    composed, choice = parser.compose(request, model.descriptor.attributes)

    parsed = await Dialogue(parser=parser, request=composed, choice=choice).converse(model.converse)

    assert parsed.value == City("Paris", 2102650)
    assert parsed.choice.mode is Mode(mode)
    assert parsed.usage is not None
    assert (parsed.usage.total_output_tokens or 0) > 0
    told = str(simulator.requests[-1].body)
    assert "people: is required" in told


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["native", "tool", "prompt"])
async def test_a_value_is_followed_while_it_arrives(
    simulator: Simulator, model: ConverserModel, mode: Any
) -> None:
    """However a vendor cuts its streams."""
    simulator.enqueue(
        ScriptedAnswer(parts=(answer(mode, name="São Paulo", people=12, twins=["Milan"]),))
    )
    parser = Parser(City, mode=mode)
    request = Request(canisters=[UserCanister("São Paulo?")], model=str(model.descriptor))
    composed, choice = parser.compose(request, model.descriptor.attributes)
    following = Following(Dialogue(parser=parser, request=composed, choice=choice), model.stream)

    *partials, value = [each async for each in following]

    assert value == City("São Paulo", 12, ["Milan"])
    assert all(isinstance(each, Partial) for each in partials)
    assert partials[-1].twins == ["Milan"]
    names = [each.name for each in partials if each.name]
    assert all(value.name.startswith(name) for name in names)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["native", "tool"])
async def test_a_channel_takes_it_after_a_tool(
    simulator: Simulator, model: ConverserModel, mode: Any
) -> None:
    """A tool is executed, then the answer comes in its form."""

    def weather(place: str) -> str:
        """Tells the weather at a place."""
        return f"sunny in {place}"

    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("weather", {"place": "Paris"}),)),
        ScriptedAnswer(parts=(answer(mode, name="Paris", people=1),)),
    )
    channel = AsyncChannel(model, parser=Parser(City, mode=mode), tools=[weather])

    reply = await channel.ask("Paris?")

    assert reply.value == City("Paris", 1)
