"""A vendor's refusal is the second sign that a conversation exceeds the window."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibe_llms.exceptions import ContextOverflowError
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.testing.contracts.worlds import World
from vibe_llms.testing.simulator import Simulator

VENDORS = {
    "openai_conversations": ("/v1", "gpt-4.1"),
    "openai_responses": ("/v1", "gpt-4.1"),
    "anthropic": ("", "claude-sonnet-4-6"),
    "google": ("", "gemini-2.5-flash"),
}


def _compose(exchanges: int) -> tuple[AnyCanister, ...]:
    said: list[AnyCanister] = []
    for number in range(exchanges):
        said.append(UserCanister(f"Question {number} " + "word " * 50))
        said.append(AssistantCanister(f"Answer {number} " + "word " * 50))
    return (*said, UserCanister("And now?"))


@pytest.mark.slow
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("vendor", VENDORS)
async def test_what_a_vendor_refuses_is_sent_without_its_oldest_turns(
    vendor: str, stream: bool, tmp_path: Path
) -> None:
    """Whatever the data say of the window, and in whichever words it is refused."""
    path, name = VENDORS[vendor]
    async with Simulator(context_tokens=1000) as simulator:
        world = World(
            module=f"vibe_llms.providers.{vendor}",
            name=vendor,
            model_name=name,
            settings={"base_url": simulator.url + path, "api_key": "key"},
            directory=tmp_path,
        )
        async with world:
            refused = Request(canisters=_compose(30))
            with pytest.raises(ContextOverflowError):
                await world.ask(refused, stream=stream)
            before = len(simulator.requests)
            request = Request(canisters=_compose(30), window="drop")

            response = await world.ask(request, stream=stream)

            assert response.text
            assert any(loss.path.startswith("canisters[0:") for loss in response.losses)
            assert 2 <= len(simulator.requests) - before <= 5
            assert response.request.canisters == request.canisters


async def test_what_cannot_be_cut_is_refused_all_the_same(tmp_path: Path) -> None:
    """A last question that is too long by itself is an error, in the vendor's words."""
    async with Simulator(context_tokens=100) as simulator:
        world = World(
            module="vibe_llms.providers.anthropic",
            model_name="claude-sonnet-4-6",
            settings={"base_url": simulator.url, "api_key": "key"},
            directory=tmp_path,
        )
        async with world:
            request = Request(canisters=[UserCanister("word " * 500)], window="drop")
            with pytest.raises(ContextOverflowError):
                await world.ask(request)
