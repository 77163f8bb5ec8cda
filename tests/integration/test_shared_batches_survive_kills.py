"""A batch of 20,000 goes on when each of its workers is killed, and its database too."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path

import pytest

from batching import NEEDS_DBOS, run_vendor, start_worker
from postgresql_server import Server, produce_url
from vibe_llms.agents.batches.batches import open_batches
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.instruments.channels.batches.channel import BatchChannel
from vibe_llms.instruments.models import Model

pytestmark = [NEEDS_DBOS, pytest.mark.postgresql, pytest.mark.slow]

COUNT = 20_000
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
        workers = [start_worker(tmp_path, url) for _ in range(2)]
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
                        if len(seen) in (COUNT // 8, COUNT // 2):
                            await asyncio.to_thread(workers[0].kill)
                            workers.append(await asyncio.to_thread(start_worker, tmp_path, url))
                            workers.append(workers.pop(0))  # the other one is next
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
        assert len(vendor.asked) == COUNT
        again = sum(vendor.asked.values()) - COUNT
        assert 0 < again <= doubted <= 2 * 2 * 2 * UNDER_WAY  # two deaths, with two chunks each
