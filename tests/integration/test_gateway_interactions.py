"""Interactions of the google-genai library through the gateway, with state, tools and errors."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import types

from support.gateways.gateways import produce_application, serve_gateway
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


@pytest.fixture
async def interactions(simulator: Simulator, tmp_path: Path) -> AsyncIterator[Any]:
    """The library's interactions, of a client of a gateway."""
    application = produce_application(tmp_path, simulator.url)
    async with serve_gateway(application) as address:
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to read all authorities takes long
        arguments = {"verify": trust, "ssl": trust}
        options = types.HttpOptions(
            base_url=address, client_args=arguments, async_client_args=arguments
        )
        client = genai.Client(api_key="k", http_options=options)
        try:
            yield client.aio.interactions
        finally:
            await client.aio.aclose()


def join(interaction: Any) -> str:
    """Return the text of an interaction."""
    steps = [step for step in interaction.steps if step.type == "model_output"]
    return "".join(content.text for step in steps for content in step.content)


async def test_the_gateway_waits_for_an_interaction_in_the_background(
    simulator: Simulator, interactions: Any
) -> None:
    """The client gets it complete, as it cannot retrieve it."""
    whole = await interactions.create(model=OWN, input="Hello.", background=True)
    assert (whole.status, join(whole)) == ("completed", "Hello.")
    methods = [each.method for each in simulator.requests]
    assert methods == ["POST", "GET", "GET", "GET"]
    events = [
        event
        async for event in await interactions.create(
            model=OWN, input="Hello.", background=True, stream=True
        )
    ]
    assert events[-1].event_type == "interaction.completed"
    assert len(simulator.requests) == 5


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
