"""A gateway is killed at random under load: each response whose id a client has seen is there."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

import aiohttp
import msgspec

from gateways import produce_application
from vibe_llms.testing.simulator import Simulator

ROUNDS = 6
CLIENTS = 6
ENDED = {"completed", "incomplete", "cancelled", "failed"}
MODELS = ("openai_responses:gpt-5.5", "anthropic:claude-sonnet-5")


async def start(folder: Path) -> tuple[asyncio.subprocess.Process, str]:
    """Starts a gateway in a process of its own; returns its address."""
    environment = {
        **os.environ,
        "HOME": str(folder),
        "VIBE_LLMS_CONFIG": str(folder / "vibe.toml"),
        "PYTHONUNBUFFERED": "1",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "vibe_llms", "serve", "gateway", "--port", "0", "--yes"),
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=folder,
    )
    assert process.stderr is not None
    async with asyncio.timeout(60):
        while line := (await process.stderr.readline()).decode():
            if "answers at " in line:
                return process, line.split("answers at ")[1].split()[0]
    raise AssertionError("The gateway has not started.")


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
                    if answer.status != 200:
                        return
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


async def test_what_a_client_was_told_is_there_after_the_gateway_was_killed(
    tmp_path: Path,
) -> None:
    dice = random.Random(12)
    seen: dict[str, str] = {}
    cut = 0
    async with Simulator(simulate="slow=5") as simulator:
        produce_application(tmp_path, simulator.url)
        for _ in range(ROUNDS):
            process, address = await start(tmp_path)
            clients = [asyncio.create_task(hammer(address, seen, n)) for n in range(CLIENTS)]
            try:
                enough = len(seen) + dice.randrange(5, 40)
                async with asyncio.timeout(60):
                    while len(seen) < enough:  # noqa: ASYNC110  # the moment is to be any
                        await asyncio.sleep(dice.random() / 50)
            finally:
                process.send_signal(signal.SIGKILL)
                await process.wait()
                await asyncio.gather(*clients)
        process, address = await start(tmp_path)
        try:
            async with aiohttp.ClientSession() as session:
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
        finally:
            process.terminate()
            await process.wait()
    assert len(seen) > ROUNDS * 5
    assert cut
