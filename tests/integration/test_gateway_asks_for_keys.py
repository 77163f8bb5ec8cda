"""A gateway that asks for keys: official clients hear why they are refused, and all is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import anthropic
import attrs
import openai
import pytest

from support.gateways.gateways import produce_application, serve_gateway
from support.gateways.key_holders import (
    ManualClocks,
    create_key,
    open_authorizer,
    open_grant,
    produce_demand,
    produce_usage,
    sum_spending,
)
from vibe_llms.daemons.keys.ledger import KeyAccount
from vibe_llms.daemons.keys.register import Register
from vibe_llms.testing.simulator import Say, Simulator
from vibe_llms.testing.simulator.speech import hide

GPT = "openai_conversations:gpt-5.5"
SERVICE = "openai_responses"
SLOW_CALLS = ("images", "speech", "transcriptions")
CLAUDE = "anthropic:claude-sonnet-4-5"


@attrs.define(eq=False)
class Door:
    """A gateway before a simulator, which asks for keys."""

    address: str
    simulator: Simulator
    folder: Path
    authorizer: Any

    async def ask(self, key: str, model: str = GPT, **more: Any) -> str:
        """Asks in OpenAI's protocol."""
        self.simulator.enqueue(Say("The North Sea."))
        client = openai.AsyncOpenAI(base_url=f"{self.address}/v1", api_key=key, max_retries=0)
        async with client:
            answer = await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": "Name a sea."}], **more
            )
        return answer.choices[0].message.content or ""

    def survey(self) -> KeyAccount:
        """Says what was spent."""
        account: KeyAccount = self.authorizer._ledger.survey()
        return account


@pytest.fixture
async def door(tmp_path: Path) -> AsyncIterator[Door]:
    """One whose authorizer is the one that ships."""
    keys = tmp_path / "keys"
    authorizer = open_authorizer(keys, ManualClocks())
    async with Simulator() as simulator:
        application = produce_application(tmp_path, simulator.url)
        async with serve_gateway(application, authorizer=authorizer) as address:
            yield Door(address, simulator, keys, authorizer)


@pytest.mark.slow
async def test_a_key_that_is_taken_back_asks_nothing_more(door: Door) -> None:
    """Over a socket that is open, neither; what was begun before ends, and counts."""
    key = create_key(door.folder)
    text = "All the water of the sea, which is deep. " * 5
    asked: Any = {"model": GPT, "messages": [{"role": "user", "content": "Talk."}]}
    async with (
        openai.AsyncOpenAI(base_url=f"{door.address}/v1", api_key=key, max_retries=0) as client,
        client.responses.connect() as socket,
    ):
        door.simulator.enqueue(Say("Yes."))
        await socket.response.create(model=GPT, input="Well?")
        assert [event.type async for event in _hear(socket)][-1] == "response.completed"
        door.simulator.enqueue(Say(text), simulate="slow=5")
        stream = await client.chat.completions.create(stream=True, **asked)
        said = (await anext(stream)).choices[0].delta.content or ""

        Register(door.folder).revoke("ada")
        await socket.response.create(model=GPT, input="Well?")
        [refused] = [event async for event in _hear(socket)]
        assert (refused.type, refused.status) == ("error", 401)
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(**asked)
        async for chunk in stream:
            said += chunk.choices[0].delta.content or "" if chunk.choices else ""
    assert said == text
    assert len(door.simulator.requests) == 2
    assert sum_spending(door.survey()).requests == 2


async def _hear(socket: Any) -> AsyncIterator[Any]:
    """Yields the events of one answer."""
    async with asyncio.timeout(60):
        async for event in socket:
            yield event
            if event.type in ("error", "response.completed"):
                return


async def test_nobody_is_answered_without_a_key(door: Door) -> None:
    """401, as of the vendor, and nothing is sent."""
    create_key(door.folder)

    with pytest.raises(openai.AuthenticationError) as caught:
        await door.ask("vk-nobody")
    async with anthropic.AsyncAnthropic(base_url=door.address, api_key="vk-x") as client:
        with pytest.raises(anthropic.AuthenticationError):
            await client.messages.create(
                model=CLAUDE, max_tokens=9, messages=[{"role": "user", "content": "Name a sea."}]
            )

    assert "Incomplete key" in str(caught.value)
    assert door.simulator.requests == []


@pytest.mark.parametrize("options", [{}, {"max_completion_tokens": 200}])
async def test_what_is_asked_is_counted_with_its_price(door: Door, options: dict[str, Any]) -> None:
    """Whether the request says how long its answer may be or not."""
    key = create_key(door.folder, cents_per_day=1000)

    answer = await door.ask(key, **options)

    ((place, spent),) = door.survey().spent.items()
    assert answer == "The North Sea."
    assert place.model == GPT
    assert (spent.requests, spent.perhaps_requests, spent.unpriced) == (1, 0, 0)
    assert spent.output_tokens > 0
    assert Decimal(0) < spent.cents < 1
    assert door.survey().under_way == {}


async def test_a_budget_that_is_reached_is_a_clear_429(door: Door) -> None:
    """In the shape of each face, with when to come again, and before anything is sent."""
    key = create_key(door.folder, cents_per_day=1)
    grant = await open_grant(door.authorizer, key)
    await (await grant.reserve(produce_demand(cents="0.9"))).settle(
        produce_usage(), Decimal("0.875")
    )

    with pytest.raises(openai.RateLimitError) as caught:
        await door.ask(key, max_completion_tokens=300)
    async with anthropic.AsyncAnthropic(
        base_url=door.address, api_key=key, max_retries=0
    ) as client:
        with pytest.raises(anthropic.RateLimitError) as other:
            await client.messages.create(
                model=CLAUDE, max_tokens=600, messages=[{"role": "user", "content": "Name a sea."}]
            )

    assert "0.875 of its 1 cents" in str(caught.value)
    assert caught.value.response.headers["retry-after"] == "43200"
    assert other.value.response.headers["retry-after"] == "43200"
    assert door.simulator.requests == []


async def test_a_rate_and_a_model_that_is_not_for_it(door: Door) -> None:
    """429 with the seconds to wait, and 403."""
    key = create_key(door.folder, requests_per_minute=1, models=("openai*",))
    await door.ask(key)

    with pytest.raises(openai.RateLimitError) as caught:
        await door.ask(key)
    with pytest.raises(openai.PermissionDeniedError):
        await door.ask(key, model=CLAUDE)

    assert 60 <= int(caught.value.response.headers["retry-after"]) <= 61
    assert sum_spending(door.survey()).requests == 1


each_call = pytest.mark.parametrize(
    "name",
    ["embeddings", *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW_CALLS)],
)


def make_call(client: openai.AsyncOpenAI, name: str) -> Any:
    """Make a call of another genus than converser."""
    match name:
        case "embeddings":
            return client.embeddings.create(model=f"{SERVICE}:text-embedding-3-small", input="sea")
        case "images":
            return client.images.generate(model=f"{SERVICE}:gpt-image-2", prompt="A sea.")
        case "speech":
            return client.audio.speech.create(
                model=f"{SERVICE}:gpt-4o-mini-tts", input="A sea.", voice="alloy"
            )
        case _:
            file = ("talk.mp3", hide("A sea.", "mp3"), "audio/mpeg")
            return client.audio.transcriptions.create(
                model=f"{SERVICE}:gpt-4o-transcribe", file=file
            )


@each_call
async def test_a_budget_and_a_rate_hold_for_all_genera(name: str, door: Door) -> None:
    """A call within the budget is answered and priced; the next exceeds the rate."""
    key = create_key(door.folder, cents_per_day=1000, requests_per_minute=1)
    async with openai.AsyncOpenAI(
        base_url=f"{door.address}/v1", api_key=key, max_retries=0
    ) as client:
        await make_call(client, name)
        with pytest.raises(openai.RateLimitError):
            await make_call(client, name)

    ((_, spent),) = door.survey().spent.items()
    # The usage of speech is unknown: then the estimate counts.
    assert (spent.requests, spent.perhaps_requests) == ((0, 1) if name == "speech" else (1, 0))
    assert spent.cents + spent.perhaps_cents > 0


@each_call
async def test_a_spent_budget_refuses_calls_of_all_genera(name: str, door: Door) -> None:
    key = create_key(door.folder, cents_per_day=1)
    grant = await open_grant(door.authorizer, key)
    await (await grant.reserve(produce_demand(cents="0.9"))).settle(produce_usage(), Decimal(1))
    async with openai.AsyncOpenAI(
        base_url=f"{door.address}/v1", api_key=key, max_retries=0
    ) as client:
        with pytest.raises(openai.RateLimitError, match="of its 1 cents"):
            await make_call(client, name)

    assert door.simulator.requests == []
