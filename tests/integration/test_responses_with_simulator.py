"""The provider of OpenAI's Responses against the simulated vendor, directly and as Azure."""

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
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.providers.openai_responses import produce_provider
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.behaviour import produce_png

MODEL = "gpt-5"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS = [
    InvocableDescription(name=name, description="d", schema=SCHEMA) for name in ("weather", "tides")
]
Access = Callable[..., Awaitable[ConverserModel]]


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """The vendor."""
    async with Simulator() as running:
        yield running


@pytest.fixture
async def access_model(tmp_path: Path) -> AsyncIterator[Access]:
    """Gives access to models of the provider, and closes their clients at the end."""
    clients = []

    async def access(name: str = MODEL, **settings: Any) -> ConverserModel:
        settings.setdefault("api_key", "canary")
        provider = produce_provider(produce_context("openai_responses", tmp_path, **settings))
        clients.append(provider.produce_client())
        return await clients[-1].access_model(name)

    yield access
    for client in clients:
        await client.close()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("cloud", ["", "azure"])
async def test_a_conversation_with_thoughts_tools_and_pictures(
    simulator: Simulator, access_model: Access, stream: bool, cloud: str
) -> None:
    """The vendor, which stores nothing, takes its signed thoughts back, with nothing lost."""
    settings = {"base_url": f"{simulator.url}/v1"}
    if cloud:
        settings = {
            "transport": "sdk",
            "azure_endpoint": simulator.url,
            "azure_api_version": "2026-01-01",
        }
    model = await access_model(**settings)
    picture = ImageContent(mime_type="image/png", data=produce_png(4, 5))
    request = Request(
        canisters=[UserCanister(("Please think, and use tools.", picture))], invocables=TOOLS
    )
    first = await model.converse(request, stream=stream)
    assert first.metadata.stop_reason is StopReason.INVOCATION
    thoughts = [
        content
        for canister in first.canisters
        for content in canister.content
        if isinstance(content, ReasoningContent)
    ]
    assert thoughts
    assert all(thought.signature for thought in thoughts)
    calls = [item for item in first.canisters if isinstance(item, InvocationCanister)]
    assert {call.name for call in calls} <= {"weather", "tides"}
    results = [ResultCanister("fine", invocation_id=call.invocation_id) for call in calls]
    second = await model.converse(
        attrs.evolve(request, canisters=(*first.conversation, *results)), stream=stream
    )
    assert second.text
    third = await model.converse(
        attrs.evolve(request, canisters=(*second.conversation, UserCanister("Now search."))),
        stream=stream,
    )
    last = await model.converse(
        attrs.evolve(request, canisters=(*third.conversation, UserCanister("Thanks."))),
        stream=stream,
    )
    assert last.losses == third.losses == second.losses == ()
    assert text_of(last.canisters)
    executed = [item for item in third.canisters if getattr(item, "owner", None) is Owner.VENDOR]
    assert executed or third.text


async def test_a_forged_signature_is_found_out_by_the_vendor(
    simulator: Simulator, access_model: Access
) -> None:
    """Which shows that the signatures of the test above were the vendor's own."""
    model = await access_model(base_url=f"{simulator.url}/v1")
    first = await model.converse(Request(canisters=[UserCanister("Please think.")]))
    forged = [
        attrs.evolve(
            canister,
            content=[
                attrs.evolve(each, signature="forged")
                if isinstance(each, ReasoningContent)
                else each
                for each in canister.content
            ],
        )
        for canister in first.canisters
    ]
    again = Request(canisters=[UserCanister("Please think."), *forged, UserCanister("And?")])
    with pytest.raises(ProviderError):
        await model.converse(again)


async def test_requests_are_counted_and_models_listed(
    simulator: Simulator, access_model: Access
) -> None:
    """By the vendor's own calls."""
    model = await access_model(base_url=f"{simulator.url}/v1")
    request = Request(canisters=[UserCanister("Hello")])
    count = await model.tokenizer.count_request(request, model.descriptor)
    response = await model.converse(request)
    assert response.metadata.usage is not None
    assert count.tokens == response.metadata.usage.total_input_tokens
