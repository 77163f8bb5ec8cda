"""The provider of Claude against the simulated vendor and its clouds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.vendors.remoting import produce_context
from vibe_llms.exceptions import ProviderError
from vibe_llms.messages.canisters import (
    InvocationCanister,
    Owner,
    ResultCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent, ReasoningContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import text_of
from vibe_llms.providers.anthropic import produce_provider
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png

MODEL = "claude-sonnet-4-5"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    InvocableDescription(name=name, description="d", schema=SCHEMA) for name in ("weather", "tides")
]


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """The vendor."""
    async with Simulator("prefix_bound_thinking") as running:
        yield running


Access = Callable[..., Awaitable[ConverserModel]]


@pytest.fixture
async def access_model(tmp_path: Path) -> AsyncIterator[Access]:
    """Gives access to models of the provider, and closes their clients at the end."""
    clients = []

    async def access(name: str = MODEL, **settings: Any) -> ConverserModel:
        settings.setdefault("api_key", "canary")
        provider = produce_provider(produce_context("anthropic", tmp_path, **settings))
        clients.append(provider.produce_client())
        return await clients[-1].access_model(name)

    yield access
    for client in clients:
        await client.close()


@pytest.mark.parametrize("stream", [True, False])
async def test_a_conversation_with_thoughts_tools_and_pictures(
    simulator: Simulator, access_model: Access, stream: bool
) -> None:
    """The vendor refuses thoughts whose signature, or what came before, has changed: none has."""
    model = await access_model(base_url=simulator.url)
    picture = ImageContent(mime_type="image/png", data=produce_png(4, 5))
    request = Request(
        canisters=[UserCanister(("Please think, and use tools.", picture))],
        invocables=TOOLS,
        controls={"reasoning_budget_tokens": 1024, "max_tokens": 4096},
    )
    first = await model.converse(request, stream=stream)
    assert first.metadata.stop_reason is StopReason.INVOCATION
    calls = [item for item in first.canisters if isinstance(item, InvocationCanister)]
    assert [call.name for call in calls] == ["weather", "tides"]
    results = [ResultCanister("fine", invocation_id=call.invocation_id) for call in calls]
    second = await model.converse(
        attrs.evolve(request, canisters=(*first.conversation, *results)), stream=stream
    )
    assert second.text
    third = await model.converse(
        attrs.evolve(request, canisters=(*second.conversation, UserCanister("Now search."))),
        stream=stream,
    )
    executed = [item for item in third.canisters if getattr(item, "owner", None) is Owner.VENDOR]
    last = await model.converse(
        attrs.evolve(request, canisters=(*third.conversation, UserCanister("Thanks."))),
        stream=stream,
    )
    assert last.losses == third.losses == ()
    assert text_of(last.canisters)
    assert executed or text_of(third.canisters)


async def test_a_changed_beginning_is_found_out_by_the_vendor(
    simulator: Simulator, access_model: Access
) -> None:
    """Which shows that the test above could fail."""
    model = await access_model(base_url=simulator.url)
    request = Request(
        canisters=[UserCanister("Please think.")],
        controls={"reasoning_budget_tokens": 1024, "max_tokens": 4096},
    )
    first = await model.converse(request)
    assert any(isinstance(part, ReasoningContent) for part in first.canisters[0].content)
    forged = (UserCanister("Please sink."), *first.canisters, UserCanister("And?"))
    with pytest.raises(ProviderError):
        await model.converse(attrs.evolve(request, canisters=forged))


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("cloud", ["", "bedrock", "vertex", "foundry"])
async def test_the_official_clients_carry_the_same_requests(
    simulator: Simulator, access_model: Access, cloud: str, stream: bool
) -> None:
    """Signed, addressed and rewritten as their clouds want it; the answer is the same."""
    settings: dict[str, Any] = {"transport": "sdk", "base_url": simulator.url}
    if cloud:
        settings |= {"cloud": cloud, "region": "eu-central-1", "project": "p"}
    if cloud == "vertex":
        settings["base_url"] += "/v1"
    model = await access_model(**settings)
    request = Request(canisters=[UserCanister("Hello there")], controls={"max_tokens": 64})
    response = await model.converse(request, stream=stream)
    assert "Hello there" in response.text
    assert response.metadata.stop_reason is StopReason.ANSWERED
