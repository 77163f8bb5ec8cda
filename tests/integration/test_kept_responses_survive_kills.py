"""A gateway is killed at random under load: each response whose id a client has seen is there."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import aiohttp
import msgspec
import pytest

from support.gateways.gateway_processes import run_gateway
from support.gateways.gateways import produce_application
from vibe_llms.testing.simulator import Say, Simulator

ROUNDS = 6
CLIENTS = 6
ENDED = {"completed", "incomplete", "cancelled", "failed"}
MODELS = ("openai_responses:gpt-5.5", "anthropic:claude-sonnet-5")


async def hammer(address: str, seen: dict[str, str], number: int) -> None:
    """Asks until the gateway is gone, going on from what was answered; notes each id it reads."""
    previous: str | None = None
    turn = 0
    async with aiohttp.ClientSession() as session:
        while True:
            turn += 1
            body = {
                "model": MODELS[number % 2],
                "input": f"Client {number}, turn {turn}.",
                "previous_response_id": previous,
                "stream": turn % 2 == 0,
            }
            try:
                async with session.post(f"{address}/v1/responses", json=body) as answer:
                    assert answer.status == 200, await answer.text()
                    previous = await read(answer, seen, streamed=turn % 2 == 0)
            except (aiohttp.ClientError, ConnectionError):
                return


async def read(
    answer: aiohttp.ClientResponse, seen: dict[str, str], *, streamed: bool
) -> str | None:
    if not streamed:
        told = msgspec.json.decode(await answer.read())
        seen[told["id"]] = told["status"]
        return str(told["id"])
    identity = None
    async for line in answer.content:
        if line.startswith(b"data: {"):
            response = msgspec.json.decode(line[6:]).get("response")
            if isinstance(response, dict):
                identity = response["id"]
                seen[identity] = response["status"]
    return identity


@pytest.mark.slow
async def test_what_a_client_was_told_is_there_after_the_gateway_was_killed(
    tmp_path: Path,
) -> None:
    dice = random.Random(12)
    seen: dict[str, str] = {}
    cut = 0
    async with Simulator(simulate="slow=5") as simulator:
        produce_application(tmp_path, simulator.url)
        for _ in range(ROUNDS):
            async with run_gateway(tmp_path) as (process, address):
                clients = [asyncio.create_task(hammer(address, seen, n)) for n in range(CLIENTS)]
                enough = len(seen) + dice.randrange(5, 40)
                async with asyncio.timeout(120):  # against a gateway that says nothing more
                    while len(seen) < enough and not any(map(asyncio.Task.done, clients)):  # noqa: ASYNC110
                        await asyncio.sleep(dice.random() / 50)
                assert process.returncode is None, "The gateway has died."
            await asyncio.gather(*clients)
        async with run_gateway(tmp_path) as (_, address), aiohttp.ClientSession() as session:
            for identity, status in seen.items():
                url = f"{address}/v1/responses/{identity}"
                async with session.get(url) as answer:
                    assert answer.status == 200, (identity, status)
                    kept = msgspec.json.decode(await answer.read())
                assert kept["status"] in ENDED
                if status == "completed":
                    assert kept["status"] == "completed"
                    assert kept["output"]
                else:
                    cut += 1
                async with session.get(f"{url}/input_items") as answer:
                    assert msgspec.json.decode(await answer.read())["data"]
    assert len(seen) > ROUNDS * 5
    assert cut


@pytest.mark.slow
async def test_events_that_a_kill_has_taken_are_said_to_be_lost(tmp_path: Path) -> None:
    async with Simulator() as simulator:
        simulator.enqueue(Say("All the water of the sea. " * 50), simulate="stall_at_chunk=8")
        produce_application(tmp_path, simulator.url)
        body = {"model": MODELS[1], "input": "Talk.", "background": True, "stream": True}
        seen: dict[str, str] = {}
        async with (
            run_gateway(tmp_path) as (_, address),
            aiohttp.ClientSession() as session,
            session.post(f"{address}/v1/responses", json=body) as answer,
        ):
            async for line in answer.content:
                if line.startswith(b"data: {") and b"output_text.delta" in line:
                    break
                if line.startswith(b"data: {") and b'"response":{' in line:
                    response = msgspec.json.decode(line[6:])["response"]
                    seen[response["id"]] = response["status"]
        [identity] = seen
        async with run_gateway(tmp_path) as (_, address), aiohttp.ClientSession() as session:
            url = f"{address}/v1/responses/{identity}"
            async with session.get(url) as answer:
                assert (await answer.json())["status"] == "incomplete"
            async with session.get(f"{url}?stream=true") as answer:
                assert answer.status == 400
                assert "its events are lost" in await answer.text()
