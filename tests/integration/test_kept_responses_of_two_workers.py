"""Two workers of one gateway: what one keeps, the other reads, goes on from, and cancels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import openai
import pytest

from support.gateways.gateways import produce_application, serve_gateway, wait_until
from vibe_llms.daemons.gateway.responses import background
from vibe_llms.testing.simulator import Say, Simulator

CARRIED = "openai_responses:gpt-5.5"
TRANSLATED = "anthropic:claude-sonnet-5"
BOTH = pytest.mark.parametrize("model", [CARRIED, TRANSLATED])
LONG = "All the water of the sea, which is deep, and cold, and grey. " * 20


@attrs.frozen
class Workers:
    """Two gateways with one home, each with a client; the simulator stands behind both."""

    simulator: Simulator
    one: openai.AsyncOpenAI
    other: openai.AsyncOpenAI


@pytest.fixture
async def workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workers]:
    """As ``--workers 2`` has them, but for the processes: they share nothing but the disk."""
    monkeypatch.setattr(background, "_POLL_SECONDS", 0.02)
    async with AsyncExitStack() as stack:
        simulator = await stack.enter_async_context(Simulator())
        clients = []
        for _ in range(2):
            application = produce_application(tmp_path, simulator.url)
            address = await stack.enter_async_context(serve_gateway(application))
            made = openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="sk-x", max_retries=0)
            clients.append(await stack.enter_async_context(made))
        yield Workers(simulator, *clients)


@pytest.mark.slow
@BOTH
async def test_a_chain_goes_on_at_the_other(workers: Workers, model: str) -> None:
    for text in ("The North Sea.", "Deep.", "Cold."):
        workers.simulator.enqueue(Say(text))
    first = await workers.one.responses.create(model=model, input="Name a sea.")
    second = await workers.other.responses.create(
        model=model, input="How deep?", previous_response_id=first.id
    )
    third = await workers.one.responses.create(
        model=model, input="How cold?", previous_response_id=second.id
    )

    asked = str(workers.simulator.requests[2].body)
    assert [each in asked for each in ("The North Sea.", "How deep?", "Deep.")] == [True] * 3
    for client in (workers.one, workers.other):
        read = await client.responses.retrieve(third.id)
        assert (read.output_text, read.previous_response_id) == ("Cold.", second.id)
    await workers.other.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        await workers.one.responses.retrieve(first.id)
    assert (await workers.one.responses.retrieve(third.id)).output_text == "Cold."


@pytest.mark.slow
@BOTH
async def test_a_conversation_is_one_at_both(workers: Workers, model: str) -> None:
    workers.simulator.enqueue(Say("The North Sea."))
    workers.simulator.enqueue(Say("Deep."))
    begun = await workers.one.conversations.create()
    for client, asked in ((workers.other, "Name a sea."), (workers.one, "How deep?")):
        await client.responses.create(model=model, input=asked, conversation=begun.id)

    assert "The North Sea." in str(workers.simulator.requests[1].body)
    listed = await workers.other.conversations.items.list(begun.id, order="asc")
    assert len(listed.data) == 4


@pytest.mark.slow
@BOTH
async def test_what_is_in_the_background_is_cancelled_from_the_other(
    workers: Workers, model: str
) -> None:
    """Its upstream hears of it, too."""
    workers.simulator.enqueue(Say(LONG), simulate="stall_at_chunk=8")
    begun = await workers.one.responses.create(model=model, input="Talk.", background=True)
    await wait_until(lambda: workers.simulator.requests)
    running = await workers.other.responses.retrieve(begun.id)
    assert running.status in ("queued", "in_progress")

    cancelled = await workers.other.responses.cancel(begun.id)

    assert cancelled.status == "cancelled"
    await wait_until(lambda: workers.simulator.requests[0].disconnected_at)
    for client in (workers.one, workers.other):
        assert (await client.responses.retrieve(begun.id)).status == "cancelled"


@pytest.mark.slow
@BOTH
async def test_what_is_in_the_background_is_followed_at_the_other(
    workers: Workers, model: str
) -> None:
    """Its events come there when it has ended; to whoever asked before, too."""
    workers.simulator.enqueue(Say("The North Sea."), simulate="slow=30")
    stream = await workers.one.responses.create(
        model=model, input="Name a sea.", background=True, stream=True
    )
    known = (await anext(stream)).response.id

    async def follow(client: openai.AsyncOpenAI) -> list[Any]:
        events = await client.responses.retrieve(known, stream=True)
        return [event async for event in events]

    async with asyncio.timeout(60):
        early = await follow(workers.other)
        heard = [event async for event in stream]
        late = await follow(workers.other)
    assert early[1:] == heard
    assert late == early
    assert early[-1].response.output_text == "The North Sea."


@pytest.mark.slow
@BOTH
async def test_a_socket_goes_on_from_what_the_other_keeps(workers: Workers, model: str) -> None:
    workers.simulator.enqueue(Say("The North Sea."))
    workers.simulator.enqueue(Say("Deep."))
    first = await workers.one.responses.create(model=model, input="Name a sea.")
    async with workers.other.responses.connect() as connection, asyncio.timeout(60):
        await connection.response.create(
            model=model, input="How deep?", previous_response_id=first.id
        )
        async for event in connection:
            assert event.type != "error", event
            if event.type == "response.completed":
                break

    assert "The North Sea." in str(workers.simulator.requests[1].body)
    read = await workers.one.responses.retrieve(event.response.id)
    assert read.output_text == "Deep."
