"""A gateway is killed while it runs a client's batch: nothing is lost or submitted twice."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from contextlib import suppress
from pathlib import Path

import openai
import pytest

from integration.gateway_batch_victims import GATEWAY_POINTS
from support.batches.vendor_batching import advance_all, is_submission
from support.gateways.gateway_files import RoutedGateway
from support.gateways.gateway_processes import run_gateway
from vibe_llms.daemons.gateway.batches.running import CONCURRENCY
from vibe_llms.testing.simulator import Simulator

KILLS, REQUESTS = 3, 60
CHAT = "/v1/chat/completions"


VICTIM = Path(__file__).with_name("gateway_batch_victims.py")
TARGETS = {
    "openai": "second:gpt-5.5",
    "anthropic": "claude:claude-sonnet-4-5",
    "google": "gemini:gemini-3.8-flash",
}


def compose_lines(model: str = "first:gpt-5.5", count: int = REQUESTS) -> bytes:
    lines = [
        {
            "custom_id": str(number),
            "method": "POST",
            "url": CHAT,
            "body": {
                "model": model,
                "messages": [{"role": "user", "content": f"Question {number}"}],
            },
        }
        for number in range(count)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.slow
async def test_a_killed_gateway_continues_a_batch_where_it_was(tmp_path: Path) -> None:
    dice, counted, identity = random.Random(5), 0, ""
    async with Simulator() as vendor, asyncio.timeout(300):
        RoutedGateway(tmp_path, vendor, vendor)  # writes the configuration
        vendor.switch("slow=40,no_batches")
        for kills_left in range(KILLS, -1, -1):
            async with (
                run_gateway(tmp_path) as (process, address),
                openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x") as client,
            ):
                if not identity:
                    file = await client.files.create(file=("a", compose_lines()), purpose="batch")
                    batch = await client.batches.create(
                        input_file_id=file.id, endpoint=CHAT, completion_window="24h"
                    )
                    identity = batch.id
                if kills_left:
                    await client.batches.retrieve(identity)
                    await asyncio.sleep(dice.uniform(0.1, 0.4))
                    process.kill()
                    await process.wait()
                    continue
                while (batch := await client.batches.retrieve(identity)).completed_at is None:
                    counts = batch.request_counts
                    assert counts is not None
                    assert counts.completed >= counted, "counted results are lost"
                    counted = counts.completed
                    await asyncio.sleep(0.05)
                assert batch.output_file_id is not None
                text = (await client.files.content(batch.output_file_id)).text
        requests = sum(each.path.endswith("/completions") for each in vendor.requests)
    results = [json.loads(line) for line in text.splitlines()]
    assert sorted(int(each["custom_id"]) for each in results) == list(range(REQUESTS))
    for each in results:
        answer = each["response"]["body"]["choices"][0]["message"]["content"]
        assert answer == f"Question {each['custom_id']}"
    assert REQUESTS <= requests <= REQUESTS + KILLS * CONCURRENCY


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("point", GATEWAY_POINTS)
async def test_a_batch_at_a_vendor_is_neither_submitted_twice_nor_lost(
    tmp_path: Path, target: str, point: str
) -> None:
    count = 5
    async with Simulator() as vendor, asyncio.timeout(180):
        RoutedGateway(tmp_path, vendor, vendor)  # writes the configuration
        async with run_gateway(tmp_path, VICTIM, point) as (process, address):
            with suppress(openai.APIConnectionError):
                await start_batch(address, compose_lines(TARGETS[target], count))
            await process.wait()
        assert process.returncode == -signal.SIGKILL
        async with (
            run_gateway(tmp_path, VICTIM) as (_, address),
            openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x") as client,
        ):
            (batch,) = [each async for each in client.batches.list()]
            while (batch := await client.batches.retrieve(batch.id)).completed_at is None:
                await asyncio.to_thread(advance_all, vendor.url)  # else no batch is found again
                await asyncio.sleep(0.05)
            assert batch.output_file_id is not None
            text = (await client.files.content(batch.output_file_id)).text
        made = [each.path for each in vendor.requests if each.method == "POST"]
        submitted = sum(map(is_submission, vendor.requests))
    results = [json.loads(line) for line in text.splitlines()]
    assert sorted(int(each["custom_id"]) for each in results) == list(range(count))
    for each in results:
        answer = each["response"]["body"]["choices"][0]["message"]["content"]
        assert answer == f"Question {each['custom_id']}"
    assert submitted == 1
    assert not any(
        path.endswith(("/completions", "/messages", ":generateContent")) for path in made
    )


async def start_batch(address: str, data: bytes) -> None:
    """Starts a batch at a gateway."""
    async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="x", max_retries=0) as client:
        file = await client.files.create(file=("a", data), purpose="batch")
        await client.batches.create(input_file_id=file.id, endpoint=CHAT, completion_window="24h")
