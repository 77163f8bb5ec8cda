"""A batch goes on when its workers are killed or cut off, and its database is killed, too."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from support.batches.batching import NEEDS_DBOS, run_vendor, start_worker
from support.network.namespaces import ADDRESSES, open_cable
from support.stores.postgresql_server import Server, produce_url
from vibe_llms.agents.batches import open_batches
from vibe_llms.application import Application
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.instruments.models import Model

pytestmark = [NEEDS_DBOS, pytest.mark.postgresql, pytest.mark.slow]

COUNT = 20_000
WORKERS = 4
UNDER_WAY = 64
"""How many inputs a worker has under way; as many results may wait for the database, in each of
the chunks that it has."""


async def test_each_is_in_the_output_once(tmp_path: Path) -> None:
    """And nothing is asked twice but what a killed worker had under way, which is told."""
    server = Server()
    with run_vendor() as vendor:
        path = vendor.write_configuration(tmp_path)
        environment = {"VIBE_LLMS_CONFIG": str(path), "HOME": str(tmp_path)}
        application = Application(load_configuration(environment=environment))
        url = produce_url(tmp_path, server)
        workers = [start_worker(tmp_path, url) for _ in range(WORKERS)]
        seen: list[int] = []
        try:
            async with open_batches(url, application=application, queues=()) as runner:
                model = Model("openai_conversations:gpt-4o-mini", application=application)
                output = tmp_path / "answers.jsonl"
                channel = BatchChannel(
                    model, runner=runner, concurrency=UNDER_WAY, key="k", journal=output
                )
                items = channel.run(f"Number {number}" for number in range(COUNT))
                async with aclosing(items), asyncio.timeout(500):
                    async for item in items:
                        assert item.text == f"Echo: Number {item.index}"
                        seen.append(item.index)
                        if len(seen) % (COUNT // WORKERS) == COUNT // 8:
                            await asyncio.to_thread(workers[0].kill)
                            workers.append(await asyncio.to_thread(start_worker, tmp_path, url))
                            workers.append(workers.pop(0))  # another one is next
                        if len(seen) == COUNT // 4:
                            await asyncio.to_thread(server.kill)
                            await asyncio.to_thread(server.start)
                assert runner is not None
                doubted = (await runner.find(channel.batch)).doubted
        finally:
            for each in workers:
                each.kill()
                each.communicate()
            await application.close()
            await asyncio.to_thread(server.close)
        lines = [json.loads(line) for line in output.read_bytes().splitlines()]
        assert sorted(seen) == list(range(COUNT))
        assert [line["index"] for line in lines] == list(range(COUNT))
        assert [line["text"] for line in lines] == [f"Echo: Number {n}" for n in range(COUNT)]
        assert len(vendor.request_counts) == COUNT
        again = sum(vendor.request_counts.values()) - COUNT
        assert 0 < again <= doubted <= WORKERS * 2 * 3 * UNDER_WAY  # each had two chunks


SLOWLY = """
import asyncio

async def echo(number):
    with open(__file__ + ".asked", "a") as file:
        file.write(f"{number}\\n")
    await asyncio.sleep(0.05)
    return number
"""


async def echo(number: int) -> int:
    return number


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces")
async def test_a_worker_that_is_cut_off_from_the_database_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others do what it had taken, and when it is reached again it works on."""
    (tmp_path / "config.toml").touch()
    (tmp_path / "slowly.py").write_text(SLOWLY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lent = ("--functions", "slowly:echo")
    application = Application(load_configuration(environment={"HOME": str(tmp_path)}))
    with open_cable() as cable:
        server = Server(within=cable.enter(0), address=ADDRESSES[0])
        far_url = f"postgresql://vibe@{ADDRESSES[0]}:{server.port}/postgres"
        # By its socket it is reached from any network of this machine.
        near_url = f"postgresql://vibe@/postgres?host={server.folder}&port={server.port}"
        far = start_worker(tmp_path, far_url, *lent, within=cable.enter(1))
        workers = [far]
        seen: list[int] = []
        try:
            own: Any = {"application": application, "functions": [echo], "queues": (), "chunk": 200}
            async with open_batches(near_url, **own) as runner, asyncio.timeout(300):
                channel = BatchChannel(echo, runner=runner, concurrency=16)
                async for item in channel.run(range(2_000)):
                    seen.append(item.value)
                    if len(seen) == 300:
                        cable.cut()
                        workers.append(start_worker(tmp_path, near_url, *lent))
                assert sorted(seen) == list(range(2_000))
                assert runner is not None
                doubted = (await runner.find(channel.batch)).doubted
                asked = (tmp_path / "slowly.py.asked").read_text().splitlines()
                assert 0 < doubted <= 2 * 3 * 16  # it had two chunks
                assert 0 <= len(asked) - 2_000 <= doubted
                cable.repair()
                workers[1].kill()
                report = await BatchChannel(echo, runner=runner).collect(range(50))
                assert report.values == tuple(range(50))
                assert far.poll() is None
                assert (await runner.find(channel.batch)).done == 2_000
        finally:
            for each in workers:
                each.kill()
                each.communicate()
            await application.close()
            server.close()
