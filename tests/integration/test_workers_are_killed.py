"""Workers that share a runner are killed, or paused: the others go on, and nothing is lost."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest

from acting import invoke, say
from hosted import Premises
from postgresql_server import produce_url
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, UserCanister
from vibe_llms.runs.log import LoggedEvent

pytestmark = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")

VICTIM = Path(__file__).with_name("host_victims.py")
NOTES = 8


@attrs.define
class Crew:
    """Whoever asks, and the workers."""

    premises: Premises
    url: str
    workers: list[Process] = attrs.field(factory=list)

    async def hire(self) -> Process:
        """Begins a worker."""
        command = (sys.executable, VICTIM, self.premises.folder, self.url)
        process = await asyncio.create_subprocess_exec(*command)
        self.workers.append(process)
        return process

    async def ask(self, notes: int = NOTES) -> str:
        """Asks for a run of so many calls; returns its id."""
        turns = [[invoke("note", f"n{number}", number=number)] for number in range(notes)]
        order = self.premises.order(*turns, [say("Done.")])
        return (await self.premises.runs.start(order, [UserCanister("Do it.")])).id

    async def reach(self, run_id: str, events: int) -> None:
        """Waits until a run has written so many events."""
        async with aclosing(self.premises.runs.watch(run_id)) as told:
            async for event in told:
                if isinstance(event, LoggedEvent) and event.sequence >= events:
                    return

    async def check(self, run_id: str, notes: int = NOTES) -> None:
        """Waits for the end, and sees that each call is there once, with its result."""
        summary = await self.premises.runs.wait(run_id)
        assert (summary.state, summary.reason) == ("ended", "answered"), summary
        canisters = self.premises.store.read(run_id).canisters
        wanted = [f"n{number}" for number in range(notes)]
        for kind in (InvocationCanister, ResultCanister):
            assert [each.invocation_id for each in canisters if isinstance(each, kind)] == wanted


@asynccontextmanager
async def gathered(folder: Path, url: str) -> AsyncIterator[Crew]:
    """Lends whoever asks; the workers are gone at the end."""
    shared = PostgresqlStore(url) if url.startswith("postgresql") else None
    premises = Premises(folder, runner=url, shared=shared, queues=())
    crew = Crew(premises, url)
    try:
        async with asyncio.timeout(120), premises:
            yield crew
    finally:
        for process in crew.workers:
            if process.returncode is None:
                process.kill()
            await process.wait()
        if shared is not None:
            shared.database.close()


@pytest.mark.parametrize(
    "base",
    [
        "sqlite",
        pytest.param("postgresql", marks=[pytest.mark.postgresql, pytest.mark.slow]),
    ],
)
async def test_the_others_go_on_with_what_a_killed_one_had_begun(tmp_path: Path, base: str) -> None:
    url = produce_url(tmp_path) if base == "postgresql" else f"sqlite:///{tmp_path}/runner.db"
    async with gathered(tmp_path, url) as crew:
        first = await crew.hire()
        ids = [await crew.ask() for _ in range(3)]
        for death in range(2):
            await crew.reach(ids[0], 5 + 10 * death)
            await crew.hire()
            crew.workers[death].kill()
        for run_id in ids:
            await crew.check(run_id)
        assert await first.wait() == -signal.SIGKILL


@pytest.mark.postgresql
@pytest.mark.slow
async def test_a_paused_worker_has_lost_its_runs_when_it_wakes(tmp_path: Path) -> None:
    async with gathered(tmp_path, produce_url(tmp_path)) as crew:
        paused = await crew.hire()
        run_id = await crew.ask(40)
        await crew.reach(run_id, 20)
        paused.send_signal(signal.SIGSTOP)
        await crew.hire()
        await crew.check(run_id, 40)
        before = crew.premises.read_kinds(run_id)
        paused.send_signal(signal.SIGCONT)
        crew.workers[1].kill()  # who is left shows that it works again
        await crew.check(await crew.ask(40), 40)
        assert crew.premises.read_kinds(run_id) == before
        assert paused.returncode is None
