"""Interactions of the google-genai library through the gateway, with state, tools and errors."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from google import genai
from google.genai import types

from support.gateways.accounts import Account
from support.gateways.gateways import produce_application, serve_gateway
from vibe_llms.plugins.specification.daemons import Arrival
from vibe_llms.testing.simulator import Invoke, Say, ScriptedAnswer, Simulator, Think

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]

OWN = "google_interactions:gemini-3.8-flash"
OTHERS = ["anthropic:claude-sonnet-5-5", "openai_responses:gpt-5.5", "google:gemini-3.8-flash"]
CLOCK: dict[str, Any] = {
    "type": "function",
    "name": "clock",
    "description": "Tells the time.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """What stands behind the gateway."""
    async with Simulator("background_polls=2") as running:
        yield running


class KeyAccount(Account):
    """Admits all keys; each is a client of its own."""

    async def authorize(self, arrival: Arrival) -> Account:
        return Account(subject=arrival.credential)


@asynccontextmanager
async def connect(address: str, key: str = "k") -> AsyncIterator[Any]:
    """Yield the interactions of the library's client."""
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to read all authorities takes long
    arguments = {"verify": trust, "ssl": trust}
    options = types.HttpOptions(
        base_url=address, client_args=arguments, async_client_args=arguments
    )
    client = genai.Client(api_key=key, http_options=options)
    try:
        yield client.aio.interactions
    finally:
        await client.aio.aclose()


@pytest.fixture
async def interactions(simulator: Simulator, tmp_path: Path) -> AsyncIterator[Any]:
    """The library's interactions, of a client of a gateway."""
    application = produce_application(tmp_path, simulator.url)
    async with serve_gateway(application) as address, connect(address) as client:
        yield client


def join(interaction: Any) -> str:
    """Return the text of an interaction."""
    steps = [step for step in interaction.steps if step.type == "model_output"]
    return "".join(content.text for step in steps for content in step.content)


async def test_an_interaction_in_the_background_is_retrieved(
    simulator: Simulator, interactions: Any
) -> None:
    begun = await interactions.create(model=OWN, input="Hello.", background=True)
    assert begun.status != "completed"
    statuses = []
    while not statuses or statuses[-1] == "in_progress":
        found = await interactions.get(begun.id)
        statuses.append(found.status)
    assert statuses == ["in_progress", "in_progress", "completed"]
    assert (found.id, join(found)) == (begun.id, "Hello.")
    assert simulator.requests[-1].path == f"/v1beta/interactions/{begun.id}"


async def test_the_events_of_an_interaction_are_streamed_again(
    simulator: Simulator, interactions: Any
) -> None:
    stream = await interactions.create(model=OWN, input="Hello.", background=True, stream=True)
    events = [event async for event in stream]
    assert events[-1].event_type == "interaction.completed"
    identity, after = events[0].interaction.id, events[1].event_id
    again = await interactions.get(identity, stream=True, last_event_id=after)
    repeated = [event async for event in again]
    assert [each.event_id for each in repeated] == [each.event_id for each in events[2:]]
    assert simulator.requests[-1].query == {"stream": "true", "last_event_id": after}


async def test_an_interaction_is_cancelled_and_deleted(
    simulator: Simulator, interactions: Any
) -> None:
    begun = await interactions.create(model=OWN, input="Hello.", background=True)
    assert (await interactions.cancel(begun.id)).status == "cancelled"
    await interactions.delete(begun.id)
    count = len(simulator.requests)
    for read in (interactions.get, interactions.cancel, interactions.delete):
        with pytest.raises(Exception, match=begun.id) as raised:
            await read(begun.id)
        assert type(raised.value).__name__ == "NotFoundError"
    assert len(simulator.requests) == count  # the gateway knows


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_interaction_belongs_to_its_client(
    simulator: Simulator, tmp_path: Path, is_streamed: bool
) -> None:
    application = produce_application(tmp_path, simulator.url)
    async with (
        serve_gateway(application, authorizer=KeyAccount()) as address,
        connect(address, "own") as own,
        connect(address, "other") as other,
    ):
        if is_streamed:
            stream = await own.create(model=OWN, input="Hello.", stream=True)
            events = [event async for event in stream]
            identity = events[0].interaction.id
        else:
            identity = (await own.create(model=OWN, input="Hello.")).id
        count = len(simulator.requests)
        for read in (other.get, other.cancel, other.delete):
            with pytest.raises(Exception, match=identity):
                await read(identity)
        with pytest.raises(Exception, match=identity):
            await other.create(model=OWN, input="Go on.", previous_interaction_id=identity)
        assert len(simulator.requests) == count
        assert join(await own.get(identity)) == "Hello."
    # It is also known after a restart.
    async with (
        serve_gateway(application, authorizer=KeyAccount()) as address,
        connect(address, "own") as own,
    ):
        assert join(await own.get(identity)) == "Hello."


async def test_a_model_of_another_provider_cannot_continue_it(
    simulator: Simulator, interactions: Any
) -> None:
    first = await interactions.create(model=OWN, input="Hello.")
    with pytest.raises(Exception, match="another provider"):
        await interactions.create(model=OTHERS[0], input="Go on.", previous_interaction_id=first.id)
    assert len(simulator.requests) == 1


async def test_what_is_not_stored_cannot_be_retrieved(
    simulator: Simulator, interactions: Any
) -> None:
    for fields in ({"model": OWN, "store": False}, {"model": OTHERS[0]}):
        answer = await interactions.create(input="Hello.", **fields)
        assert join(answer) == "Hello."
        with pytest.raises(Exception, match=r"404|not found|Unknown"):
            await interactions.get(answer.id or "none")


async def test_a_response_is_not_an_interaction(simulator: Simulator, tmp_path: Path) -> None:
    application = produce_application(tmp_path, simulator.url)
    async with serve_gateway(application) as address, connect(address) as interactions:
        library = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="k", max_retries=0)
        async with library as client:
            response = await client.responses.create(model=OTHERS[0], input="Hello.")
            with pytest.raises(Exception, match=response.id):
                await interactions.get(response.id)
            interaction = await interactions.create(model=OWN, input="Hello.")
            with pytest.raises(openai.BadRequestError):
                await client.responses.retrieve(interaction.id)


async def test_stored_interactions_are_not_cached(simulator: Simulator, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    file.write_text(f'[models.quick]\ntargets = ["{OWN}"]\ncache = {{ seconds = 600 }}\n')
    application = produce_application(tmp_path, simulator.url)
    async with (
        serve_gateway(application, file=file) as address,
        connect(address) as interactions,
    ):
        for fields, count in (({}, 2), ({"background": True}, 2), ({"store": False}, 1)):
            before = len(simulator.requests)
            for _ in range(2):
                await interactions.create(model="quick", input="Hello.", **fields)
            assert len(simulator.requests) - before == count


async def test_a_stored_interaction_is_continued_by_its_vendor(
    simulator: Simulator, interactions: Any
) -> None:
    first = await interactions.create(model=OWN, input="Hello.", store=True)
    again = await interactions.create(
        model=OWN, input="Go on.", store=True, previous_interaction_id=first.id
    )
    assert join(again) == "Go on."
    assert simulator.requests[-1].body["previous_interaction_id"] == first.id


@pytest.mark.parametrize("model", [OWN, *OTHERS])
async def test_steps_go_back_to_the_vendor_with_their_signatures(
    simulator: Simulator, interactions: Any, model: str
) -> None:
    simulator.enqueue(
        ScriptedAnswer(parts=(Think("The clock."), Invoke("clock", {"city": "Bonn"}))),
        ScriptedAnswer(parts=(Say("It is noon."),)),
    )
    question = {"type": "user_input", "content": [{"type": "text", "text": "Time?"}]}
    fields: dict[str, Any] = {"model": model, "tools": [CLOCK], "store": False}
    first = await interactions.create(input=[question], **fields)
    assert first.status == "requires_action"
    (call,) = (step for step in first.steps if step.type == "function_call")
    result = {"type": "function_result", "call_id": call.id, "name": "clock", "result": "12:00"}
    steps = [step.model_dump(exclude_none=True) for step in first.steps]
    answer = await interactions.create(input=[question, *steps, result], **fields)
    assert join(answer) == "It is noon."
    said = simulator.requests[-1].data
    assert b"12:00" in said
    assert b"vibe" not in said  # envelopes were opened for the vendor


async def test_errors_have_the_librarys_classes(simulator: Simulator, interactions: Any) -> None:
    with pytest.raises(Exception, match="does-not-exist") as raised:
        await interactions.create(model="nowhere:does-not-exist", input="Hello.")
    assert type(raised.value).__name__ == "NotFoundError"
    simulator.switch("rate_limit=9")
    with pytest.raises(Exception, match="too many requests") as limited:
        await interactions.create(model=OTHERS[0], input="Hello.")
    assert type(limited.value).__name__ == "RateLimitError"
