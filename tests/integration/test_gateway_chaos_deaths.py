"""A gateway that is killed, whose disk is full, whose clock jumps: accounts of keys add up."""

from __future__ import annotations

import asyncio
import random
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
import psutil
import pytest

from support.gateways.crowds import CLIENTS, ClientCrowd, find_faults, survey
from support.gateways.gateways import produce_application, serve_gateway
from support.gateways.hostile_upstreams import find_key_folder, gateway_process, start
from support.gateways.key_holders import ManualClocks, create_key, open_authorizer, sum_spending
from vibe_llms.testing.simulator import Say, Simulator


@pytest.mark.slow
@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param({}, id="free"),
        pytest.param({"requests_per_minute": 10**6}, id="bounded"),
    ],
)
async def test_kills_under_load_lose_nothing_and_hide_nothing(
    tmp_path: Path, bounds: dict[str, int]
) -> None:
    """Workers and then all of it, at random moments; what comes next is answered each time."""
    dice = random.Random(7)
    async with gateway_process(tmp_path, workers=2) as process:
        process.key = create_key(process.keys, "bob", **bounds)
        crowd = ClientCrowd(process)
        asking = [asyncio.create_task(crowd.keep_asking(number)) for number in range(CLIENTS)]
        for _ in range(3):
            await crowd.wait_for_answers(dice.randint(5, 25))
            workers = psutil.Process(process.running.pid).children()
            with suppress(psutil.NoSuchProcess):
                dice.choice(workers).kill()
        await crowd.wait_for_answers(10)
        port = int(process.url.rpartition(":")[2])
        workers = psutil.Process(process.running.pid).children()
        for each in [psutil.Process(process.running.pid), *workers]:
            each.kill()
        await process.running.wait()
        again = await start(tmp_path, process.upstream, key=process.key, workers=2, port=port)
        try:
            await crowd.wait_for_answers(20)
            crowd.is_over = True
            await asyncio.gather(*asking)
        finally:
            await again.end()
        upstream = process.survey_upstream()

    account = survey(find_key_folder(tmp_path))
    assert not find_faults(account, crowd.acknowledged, upstream, deaths=5)


@pytest.mark.slow
async def test_a_full_disk_refuses_and_sends_nothing(tmp_path: Path) -> None:
    """What cannot be written down is not asked; with room again, all goes on."""
    async with gateway_process(tmp_path) as process:
        crowd = ClientCrowd(process)
        bounded = create_key(process.keys, "bob", requests_per_minute=1000)
        assert [await crowd.ask(), await crowd.ask(bounded)] == [200, 200]
        before = process.count_upstream()
        running = psutil.Process(process.running.pid)
        _, most = running.rlimit(psutil.RLIMIT_FSIZE)

        running.rlimit(psutil.RLIMIT_FSIZE, (1, most))
        refused = [await crowd.ask(key) for key in ("", bounded, "", bounded)]
        assert process.count_upstream() == before
        running.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, most))

        assert refused == [500] * 4
        assert [await crowd.ask(), await crowd.ask(bounded)] == [200, 200]
        await process.end()
        whole = sum_spending(survey(process.keys))
        assert (whole.requests, whole.perhaps_requests) == (4, 0)


def jump_ahead(clocks: ManualClocks) -> None:
    clocks.wall += 3_600


def jump_back(clocks: ManualClocks) -> None:
    clocks.wall -= 86_400 * 400


@pytest.mark.parametrize("jump", [jump_ahead, jump_back])
async def test_a_clock_that_jumps_opens_no_door(
    tmp_path: Path, jump: Callable[[ManualClocks], None]
) -> None:
    """Nor keeps one closed: a minute is one that has passed."""
    clocks = ManualClocks()
    authorizer = open_authorizer(tmp_path / "keys", clocks)
    key = create_key(tmp_path / "keys", requests_per_minute=1)
    async with Simulator() as simulator:
        application = produce_application(tmp_path, simulator.url)
        async with (
            serve_gateway(application, authorizer=authorizer) as address,
            aiohttp.ClientSession(headers={"authorization": f"Bearer {key}"}) as session,
        ):

            async def ask() -> int:
                simulator.enqueue(Say("The North Sea."))
                body = {
                    "model": "openai_conversations:m",
                    "messages": [{"role": "user", "content": "A sea?"}],
                }
                url = f"{address}/v1/chat/completions"
                async with session.post(url, json=body) as told:
                    return told.status

            heard = [await ask()]
            jump(clocks)
            heard.append(await ask())
            clocks.steady += 61
            heard.append(await ask())

    assert heard == [200, 429, 200]
