"""What a run writes grows with what is new in it, and with nothing else."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.runs.acting import script
from support.runs.hosted import Premises
from support.runs.written import CountingDisk, compose, count_rows, look, measure_new
from support.stores.postgresql_server import produce_url
from vibe_llms import Conversation, Engine
from vibe_llms.agents.workers import WorkerSettings
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister

TURNS = 200


def perform(folder: Path, turns: int) -> tuple[int, int]:
    """Performs a run; returns what it has written, and what is new in it."""
    disk = CountingDisk()
    store, conversation = DirectoryStore(folder, disk=disk), Conversation()
    conversation.add_user_message("Go.")
    limits = Limits(run_steps=turns + 1, run_invocations=turns)
    engine = Engine(script(*compose(turns)), [look], store=store, limits=limits)
    asyncio.run(engine.answer(conversation))
    return disk.written, measure_new(store, conversation.id)


@pytest.mark.slow
def test_a_run_writes_at_most_three_times_what_is_new_in_it(tmp_path: Path) -> None:
    """Its canisters, its log, and the notes of how many there are: 2.2 times, not quadratic."""
    few, _ = perform(tmp_path / "few", 20)
    many, new = perform(tmp_path / "many", TURNS)

    assert many <= 3 * new
    assert many <= few * TURNS / 20 * 1.05


@pytest.mark.postgresql
@pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
@pytest.mark.slow
@pytest.mark.parametrize("turns", [TURNS])
async def test_with_a_runner_it_writes_no_more(tmp_path: Path, turns: int) -> None:
    """The queue's rows are few, and do not grow with the run."""
    url = produce_url(tmp_path)
    (tmp_path / "none.toml").write_text(f"[limits]\nrun_steps = {turns + 1}\n")
    with_store = PostgresqlStore(url)
    premises = Premises(
        tmp_path, tools=[look], shared=with_store, runner=url, settings=WorkerSettings()
    )
    async with premises:
        before = count_rows(url)
        spec = premises.spec(*compose(turns))
        run_id = (await premises.runs.start(spec, [UserCanister("Go.")])).id
        async with asyncio.timeout(60):
            assert (await premises.runs.wait(run_id)).reason == "answered"
        written = count_rows(url) - before
    new = measure_new(with_store, run_id)
    with_store.database.close()
    assert new < written <= 3 * new
