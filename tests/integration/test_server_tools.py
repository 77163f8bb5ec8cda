"""Server tools over real sockets: from Python, through an engine and through the gateway."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.gateways.gateways import produce_application
from support.vendors.shipped import SHIPPED
from vibe_llms.exceptions import TranslationLossError
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.models import Model
from vibe_llms.invocables.invokers import invocable
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister
from vibe_llms.messages.server_tools import ServerTool
from vibe_llms.messages.views import text_of
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator

pytestmark = pytest.mark.slow


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """The vendors."""
    async with Simulator() as running:
        yield running


MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "google": "gemini-3.8-flash",
    "openai_responses": "gpt-5.5",
}


@contextlib.asynccontextmanager
async def produce_model(simulator: Simulator, directory: Path, vendor: str) -> AsyncIterator[Model]:
    """A model of a simulated vendor."""
    application = produce_application(directory, simulator.url)
    model = Model(f"{vendor}:{MODELS[vendor]}", application=application)
    yield model
    await model.close()


@pytest.mark.parametrize(
    ("vendor", "tool"),
    [
        ("anthropic", {"type": "web_search_20250305", "name": "web_search"}),
        ("openai_responses", {"type": "web_search"}),
        ("google", {"googleSearch": {}}),
    ],
)
async def test_a_model_offers_its_vendors_own(
    simulator: Simulator, tmp_path: Path, vendor: str, tool: dict[str, Any]
) -> None:
    async with produce_model(simulator, tmp_path, vendor) as model:
        response = await model.ask("Hello.", tools=[ServerTool("web_search")])

    assert simulator.requests[-1].body["tools"] == [tool]
    assert [loss for loss in response.losses if "invocables" in loss.path] == []


async def test_with_strict_a_missing_tool_is_an_error(simulator: Simulator, tmp_path: Path) -> None:
    async with produce_model(simulator, tmp_path, "openai_responses") as model:
        with pytest.raises(TranslationLossError, match="no memory"):
            await model.ask("Hello.", tools=ServerTool("memory"), strict=True)
    assert simulator.requests == []


@pytest.mark.parametrize("vendor", ["anthropic", "openai_responses"])
async def test_an_engine_executes_the_tools_of_the_caller(
    simulator: Simulator, tmp_path: Path, vendor: str
) -> None:
    """The vendor's own tool at Anthropic, and a function in its place at OpenAI."""

    @invocable(source=ServerTool("memory"))
    def memory(command: str, path: str) -> str:
        """Read and write notes."""
        return f"{command} {path}"

    arguments = {"command": "view", "path": "/memories"}
    simulator.enqueue(
        ScriptedAnswer(parts=(Invoke("memory", arguments),)), ScriptedAnswer(parts=(Say("Done."),))
    )
    model = await SHIPPED[vendor].access(simulator.url, tmp_path)

    outcome = await Engine(model, [memory, ServerTool("web_search")]).answer("Remember this.")

    call, result, _ = outcome.canisters
    assert isinstance(call, InvocationCanister)
    assert isinstance(result, ResultCanister)
    assert text_of(result) == "view /memories"
    offered, searching = simulator.requests[0].body["tools"]
    assert offered["type"] == ("memory_20250818" if vendor == "anthropic" else "function")
    assert searching["type"].startswith("web_search")
    await model._client.close()  # type: ignore[attr-defined]
