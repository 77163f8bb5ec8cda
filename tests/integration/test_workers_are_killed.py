"""Workers that share a runner are killed, or paused: the others go on, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, closing
from importlib.util import find_spec
from pathlib import Path

import attrs
import pytest

from support.network.namespaces import ADDRESSES, open_cable
from support.runs.acting import invoke, say
from support.runs.hosted import Premises
from support.stores.postgresql_server import Server, produce_url
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, UserCanister
from vibe_llms.runs.replaying import replay_run

pytestmark = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")

VICTIM = Path(__file__).with_name("host_victims.py")
NOTES = 8


@attrs.define
class Crew:
    """Whoever asks, and the workers."""

    premises: Premises
    url: str
    workers: list[Process] = attrs.field(factory=list)

    async def hire(self, *within: str, url: str = "") -> Process:
        """Begins a worker, perhaps by a command that it is to run within."""
        command = (*within, sys.executable, VICTIM, self.premises.folder, url or self.url)
        process = await asyncio.create_subprocess_exec(*command)
        self.workers.append(process)
        return process

    async def ask(self, notes: int = NOTES) -> str:
        """Asks for a run of so many calls; returns its id."""
        turns = [[invoke("note", f"n{number}", number=number)] for number in range(notes)]
        spec = self.premises.spec(*turns, [say("Done.")])
        return (await self.premises.runs.start(spec, [UserCanister("Do it.")])).id

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
        async with asyncio.timeout(300), premises:
            yield crew
    finally:
        for process in crew.workers:
            if process.returncode is None:
                process.kill()
            await process.wait()
        if shared is not None:
            shared.database.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "base", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
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


def wait_for_death(file: Path, process: int) -> None:
    """Waits until the others take a worker for dead."""
    asked = "SELECT COUNT(*) FROM vibe_heartbeats WHERE worker LIKE ?"
    with closing(sqlite3.connect(file)) as database:
        while database.execute(asked, (f"%-{process}-%",)).fetchone() != (0,):
            time.sleep(0.1)


@pytest.mark.slow
async def test_a_paused_worker_of_a_file_has_its_runs_yet_when_it_wakes(tmp_path: Path) -> None:
    """The log of a run is a file that it keeps locked: nobody else goes on with it meanwhile."""
    async with gathered(tmp_path, f"sqlite:///{tmp_path}/runner.db") as crew:
        paused = await crew.hire()
        run_id = await crew.ask(40)
        await crew.reach(run_id, 20)
        paused.send_signal(signal.SIGSTOP)
        await crew.hire()
        await asyncio.to_thread(wait_for_death, tmp_path / "runner.db", paused.pid)
        paused.send_signal(signal.SIGCONT)
        await crew.check(run_id, 40)
        kinds = crew.premises.read_kinds(run_id)
        assert kinds.count("run.started") == kinds.count("run.ended") == 1


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces")
async def test_a_worker_that_is_cut_off_loses_its_runs_and_comes_back(tmp_path: Path) -> None:
    """Packets vanish between it and the database: another goes on with its run, nothing is written
    twice, and when it is reached again it has lost that run and performs others."""
    with open_cable() as cable:
        server = Server(within=cable.enter(0), address=ADDRESSES[0])
        try:
            async with gathered(tmp_path, produce_socket_url(server)) as crew:
                url = f"postgresql://vibe@{ADDRESSES[0]}:{server.port}/postgres"
                far = await crew.hire(*cable.enter(1), url=url)
                run_id = await crew.ask(40)
                await crew.reach(run_id, 20)
                cable.cut()
                begun = len(crew.premises.read_kinds(run_id))
                near = await crew.hire()
                await crew.check(run_id, 40)
                kinds = crew.premises.read_kinds(run_id)
                assert kinds[begun:].count("run.started") == 1
                assert kinds.count("run.ended") == 1
                # What it was cut off in the middle of was begun twice at most, as its tool bears.
                assert kinds.count("invocation.started") - kinds.count("invocation.finished") <= 1
                before = crew.premises.store.open_log(run_id).read()
                cable.repair()
                near.kill()
                await crew.check(await crew.ask(40), 40)  # only the far one is left
                assert crew.premises.store.open_log(run_id).read() == before
                assert (await replay_run(crew.premises.store, run_id)).difference is None
                assert far.returncode is None
        finally:
            server.close()


def produce_socket_url(server: Server) -> str:
    """Returns the URL by which it is reached from any network of this machine."""
    return f"postgresql://vibe@/postgres?host={server.folder}&port={server.port}"
