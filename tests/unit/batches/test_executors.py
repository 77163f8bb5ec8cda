"""Executing chunks: what ends an execution without asking anything."""

from __future__ import annotations

from pathlib import Path

from support.batches.batching import FakeQueue, ask, choose_url, spec
from vibe_llms.application import Application
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.databases import open_database
from vibe_llms.batches.executors import ChunkExecutor
from vibe_llms.batches.handovers import BatchHandover
from vibe_llms.batches.work_makers import WorkMaker
from vibe_llms.configuration.sources import load_configuration

STOPPED, OTHER = "a" * 32, "b" * 32


async def test_the_chunks_of_a_stopped_batch_leave_the_queue(tmp_path: Path) -> None:
    """With the first that a worker takes, rather than one by one."""
    application = Application(load_configuration(environment={"HOME": str(tmp_path)}))
    database, queue = open_database(choose_url("sqlite", tmp_path)), FakeQueue()
    for batch in (STOPPED, OTHER):
        await BatchHandover(database, queue, batch, spec(), 1).perform(ask("1", "2", "3"))
    await Batches(database, queue).stop(STOPPED)
    maker = WorkMaker(application=application, store=application.store)
    executor = ChunkExecutor(database, maker, queue)
    assert await executor.execute(STOPPED, 0) == "not due"
    assert [(each.batch, each.number) for each in queue.due] == [(OTHER, n) for n in range(3)]
    await Batches(database, queue).resume(STOPPED)
    assert len(queue.due) == 6
    await executor.close()
    assert await executor.execute(OTHER, 0) == ""  # it is for another worker
    database.close()
    await application.close()
