"""A gateway is killed while it runs a client's batch: each result that was counted is there."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import openai
import pytest

from support.gateways.gateway_files import RoutedGateway
from support.gateways.gateway_processes import run_gateway
from vibe_llms.daemons.gateway.batches.running import CONCURRENCY
from vibe_llms.testing.simulator import Simulator

KILLS, REQUESTS = 3, 60
CHAT = "/v1/chat/completions"


def compose_lines() -> bytes:
    lines = [
        {
            "custom_id": str(number),
            "method": "POST",
            "url": CHAT,
            "body": {
                "model": "first:gpt-5.5",
                "messages": [{"role": "user", "content": f"Question {number}"}],
            },
        }
        for number in range(REQUESTS)
    ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.slow
async def test_a_killed_gateway_continues_a_batch_where_it_was(tmp_path: Path) -> None:
    dice, counted, identity = random.Random(5), 0, ""
    async with Simulator() as vendor, asyncio.timeout(90):
        RoutedGateway(tmp_path, vendor, vendor)  # writes the configuration
        vendor.switch("slow=40")
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
        requests = len(vendor.requests)
    results = [json.loads(line) for line in text.splitlines()]
    assert sorted(int(each["custom_id"]) for each in results) == list(range(REQUESTS))
    for each in results:
        answer = each["response"]["body"]["choices"][0]["message"]["content"]
        assert answer == f"Question {each['custom_id']}"
    assert REQUESTS <= requests <= REQUESTS + KILLS * CONCURRENCY
