"""The providers of Chat Completions against servers as odd as their vendors', and a real one."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.vendors.llama_servers import serve_weights
from support.vendors.remoting import produce_context
from vibe_llms.exceptions import ContextOverflowError
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent, ReasoningContent, TextualContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import usage_of
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.testing.simulator import Cite, Invoke, Say, ScriptedAnswer, Simulator, Think
from vibe_llms.testing.simulator.behaviour import produce_png

COMPATIBLE = "vibe_llms.providers.openai_compatible"
THINKING = {
    "deepseek": ("deepseek", COMPATIBLE),
    "groq": ("groq", COMPATIBLE),
    "llamacpp": ("llama_cpp", COMPATIBLE),
    "mistral": ("mistral", COMPATIBLE),
    "openrouter": ("openrouter", COMPATIBLE),
    "vllm": ("vllm", "vibe_llms.providers.vllm"),
    "xai": ("xai", COMPATIBLE),
}
"""From a provider whose models think aloud to its quirks in the simulator, and its module."""

CLOCK = InvocableDescription(
    name="clock",
    description="Tells the time.",
    schema={"type": "object", "properties": {"city": {"type": "string"}}},
)
CALLS = ScriptedAnswer(
    parts=(
        Think("Two cities."),
        Say("Let me look."),
        Invoke("clock", {"city": "Köln"}),
        Invoke("clock", {"city": "Bonn"}),
    )
)


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """A running server."""
    async with Simulator() as running:
        yield running


@asynccontextmanager
async def access(
    name: str, module: str, base_url: str, directory: Path, model: str = "m"
) -> AsyncIterator[RemoteModel]:
    """Gives access to a model at an address."""
    produce = importlib.import_module(module).produce_provider
    context = produce_context(name, directory, base_url=base_url, api_key="canary")
    client = produce(context).produce_client()
    try:
        yield await client.access_model(model)
    finally:
        await client.close()


def answer(canisters: tuple[AnyCanister, ...]) -> list[ResultCanister]:
    """Answers each invocation."""
    return [
        ResultCanister("noon", invocation_id=one.invocation_id, name=one.name)
        for one in canisters
        if isinstance(one, InvocationCanister)
    ]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("name", sorted(THINKING))
async def test_a_turn_of_thought_and_tools_goes_back_and_forth(
    simulator: Simulator, tmp_path: Path, name: str, stream: bool
) -> None:
    """What was thought is seen, both calls arrive, and the vendor takes all of it back."""
    quirks, module = THINKING[name]
    simulator.enqueue(CALLS, ScriptedAnswer(parts=(Say("Noon in both."),)))
    base_url = f"{simulator.access_url(quirks)}/v1"
    picture = ImageContent(mime_type="image/png", data=produce_png(8, 8))
    asked = UserCanister((TextualContent("What time is it there?"), picture))
    async with access(name, module, base_url, tmp_path) as model:
        first = await model.converse(
            Request(canisters=(asked,), invocables=(CLOCK,)), stream=stream
        )
        conversation = (*first.conversation, *answer(first.canisters))
        second = await model.converse(
            Request(canisters=conversation, invocables=(CLOCK,)), stream=stream
        )

    reasoning = [
        content
        for canister in first.canisters
        for content in canister.content
        if isinstance(content, ReasoningContent)
    ]
    assert "".join(each.text or "".join(each.summary) for each in reasoning) == "Two cities."
    calls = [each for each in first.canisters if isinstance(each, InvocationCanister)]
    assert [json.loads(call.arguments)["city"] for call in calls] == ["Köln", "Bonn"]
    assert first.metadata.stop_reason is StopReason.INVOCATION
    assert second.text == "Noon in both."
    assert usage_of(second.canisters) is not None
    assert second.losses == ()


async def test_sources_are_cited(simulator: Simulator, tmp_path: Path) -> None:
    """Annotations at OpenAI; a list beside the message at Perplexity."""
    source = Say("Water is wet.", citations=(Cite(url="https://example.org", title="Water"),))
    for name, folder, quirks in (
        ("openai_conversations", "openai_conversations", ""),
        ("perplexity", "openai_compatible", "perplexity"),
    ):
        module = f"vibe_llms.providers.{folder}"
        simulator.enqueue(ScriptedAnswer(parts=(source,)))
        base_url = f"{simulator.access_url(quirks)}/v1"
        request = Request(canisters=(UserCanister("Is water wet?"),))
        async with access(name, module, base_url, tmp_path) as model:
            response = await model.converse(request)

        cited = [c for c in response.canisters[0].content if isinstance(c, TextualContent)]
        assert [one.url for text in cited for one in text.citations] == ["https://example.org"]


@pytest.mark.parametrize("name", sorted(THINKING))
async def test_that_it_was_too_long_is_one_error(
    simulator: Simulator, tmp_path: Path, name: str
) -> None:
    """In each vendor's words."""
    quirks, module = THINKING[name]
    base_url = f"{simulator.access_url(f'{quirks},context_overflow')}/v1"
    async with access(name, module, base_url, tmp_path) as model:
        with pytest.raises(ContextOverflowError):
            await model.converse(Request(canisters=(UserCanister("long"),)))


@pytest.fixture(scope="module")
def llama(weights: Path) -> Iterator[str]:
    """The address of a real llama.cpp server in a process of its own."""
    with serve_weights(weights, "canary") as address:
        yield f"{address}/v1"


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.skipif(sys.platform == "win32", reason="the program waits for a signal")
async def test_a_real_server_answers_whole_and_streamed_alike(llama: str, tmp_path: Path) -> None:
    """Real weights: the same words, the same end, and each token counted."""
    controls: dict[str, Any] = {"max_tokens": 12, "temperature": 0, "seed": 1}
    request = Request(canisters=(UserCanister("Say hello."),), controls=controls)
    async with access("llamacpp", COMPATIBLE, llama, tmp_path) as model:
        streamed = await model.converse(request)
        whole = await model.converse(request, stream=False)

    assert streamed.text == whole.text != ""
    assert streamed.metadata.stop_reason is whole.metadata.stop_reason
    assert streamed.metadata.usage is not None
    assert streamed.metadata.usage.total_output_tokens
    assert streamed.losses == whole.losses == ()


@pytest.mark.slow
@pytest.mark.weights
@pytest.mark.skipif(sys.platform == "win32", reason="the program waits for a signal")
async def test_a_real_server_is_held_to_a_schema(llama: str, tmp_path: Path) -> None:
    """By its own grammars; of tools this small model's template knows nothing."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
    }
    asked = (UserCanister("Which colour has the sky?"),)
    async with access("llamacpp", COMPATIBLE, llama, tmp_path) as model:
        request = Request(canisters=asked, schema=schema, controls={"max_tokens": 40})
        response = await model.converse(request)

    assert json.loads(response.text)["colour"] in ("red", "blue")
