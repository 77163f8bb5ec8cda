"""One contract for every runner: runs have the same outcome, whichever runner performs them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import attrs
import psycopg
import pytest

from support.runs.acting import invoke, say
from support.runs.hosted import FAST, Premises, produce_application, write_event
from support.runs.scripting import write_script
from support.stores.postgresql_server import Server, produce_url
from vibe_llms.agents.batches import access_batches, open_batches
from vibe_llms.agents.local import LocalRuns
from vibe_llms.agents.queues import Queue
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.agents.runners import LOCAL, open_runner
from vibe_llms.agents.workers import RunWorker
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.conversations.run_logs import claims, database_log
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.events.engine import RunStartedEvent
from vibe_llms.exceptions import StoreError, StoreUnavailableError
from vibe_llms.instruments.models import Model
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow, deny
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of
from vibe_llms.runs.patience import retry_for
from vibe_llms.runs.replaying import replay_run

LACKING = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
T = TypeVar("T")
DONE = [say("Done.")]
ON_POSTGRESQL = [LACKING, pytest.mark.postgresql]
Build = Callable[..., Premises]


@pytest.fixture(
    params=[
        "local",
        pytest.param("sqlite", marks=[LACKING, pytest.mark.slow]),
        # The same as SQLite, but for the journal; the first test of all has that, too.
        pytest.param("postgresql", marks=[*ON_POSTGRESQL, pytest.mark.slow]),
    ]
)
def build(request: pytest.FixtureRequest, tmp_path: Path) -> Build:
    """Make environments with this runner; all of them share their runs."""
    return produce_build(request.param, tmp_path)


@pytest.fixture(
    params=[
        pytest.param("sqlite", marks=LACKING),
        pytest.param("postgresql", marks=[*ON_POSTGRESQL, pytest.mark.slow]),
    ]
)
def build_queue(request: pytest.FixtureRequest, tmp_path: Path) -> Build:
    """Make the same, with a runner that has queues."""
    return produce_build(request.param, tmp_path)


def produce_build(base: str, folder: Path, server: Server | None = None) -> Build:
    """Make the function that makes environments."""
    if base == "postgresql":
        url = produce_url(folder, server)
        return lambda tools=(), **more: Premises(
            folder, tools, runner=url, shared=PostgresqlStore(url), **more
        )
    url = LOCAL if base == "local" else f"sqlite:///{folder}/runner.db"
    return lambda tools=(), **more: Premises(folder, tools, runner=url, **more)


@asynccontextmanager
async def opened(premises: Premises) -> AsyncIterator[Premises]:
    """Perform runs, and close what was opened."""
    try:
        async with asyncio.timeout(180), premises:
            yield premises
    finally:
        if premises.shared is not None:
            premises.shared.database.close()  # type: ignore[attr-defined]


def look(where: str) -> str:
    """Look."""
    return f"seen: {where}"


def fail() -> str:
    """Fails."""
    raise ValueError("it is broken")


def pay() -> str:
    """Pays."""
    return "paid"


PAY = produce_invoker(pay, effect="once", needs_approval=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "base",
    [
        "local",
        pytest.param("sqlite", marks=LACKING),
        pytest.param("postgresql", marks=ON_POSTGRESQL),
    ],
)
async def test_the_history_is_the_same(tmp_path: Path, base: str) -> None:
    """Parallel calls, a fault, an approval, a message: the conversation and the events are the
    same.
    """
    build = produce_build(base, tmp_path)
    turns = (
        [invoke("look", "a", where="x"), invoke("look", "b", where="y"), invoke("fail", "c")],
        [invoke("pay", "d")],
        [say("Paid.")],
        DONE,
    )
    async with opened(build([look, fail, PAY])) as premises:
        run_id = await premises.start(premises.spec(*turns))
        await premises.wait(run_id, "waiting")
        (waiting,) = await premises.runs.survey_approvals(run_id)
        await premises.runs.approve(run_id, allow(waiting.request))
        ended = await premises.wait(run_id, "ended")
        await premises.runs.send(run_id, UserCanister("And?"))
        ended = await premises.wait(run_id, "ended", after=ended.sequence)
        messages = [(each.role, text_of(each)) for each in premises.store.read(run_id).canisters]
        kinds = premises.read_kinds(run_id)
        replayed = await replay_run(premises.store, run_id)

    assert (ended.steps, ended.invocations, ended.reason) == (4, 4, "answered")
    assert replayed.difference is None
    roles = ["user", *["invocation"] * 3, *["result"] * 3, "invocation", "result", "assistant"]
    assert [role for role, _ in messages] == [*roles, "user", "assistant"]
    results = [text for role, text in messages if role == "result"]
    assert results[:2] == ["seen: x", "seen: y"]
    assert "it is broken" in results[2]
    assert results[3:] == ["paid"]
    assert [kind for kind in kinds if not kind.startswith(("run.state", "invocation."))] == [
        "run.requested",
        "run.started",
        *("generation.started", "generation.finished") * 2,
        "approval.requested",
        "run.suspended",
        "approval.answered",
        "run.started",
        *("generation.started", "generation.finished"),
        "run.ended",
        "message.received",
        "run.started",
        *("generation.started", "generation.finished"),
        "run.ended",
    ]
    assert kinds.count("invocation.started") == kinds.count("invocation.finished") == 4


async def test_a_run_can_be_stopped_in_the_middle_of_a_step(build: Build) -> None:
    """Once resumed, the step is repeated if its tool allows that."""
    begun, is_held = asyncio.Event(), True

    async def work() -> str:
        """Works."""
        begun.set()
        if is_held:
            await asyncio.Event().wait()
        return "worked"

    async with opened(build([produce_invoker(work, effect="pure")])) as premises:
        run_id = await premises.start(premises.spec([invoke("work")], DONE))
        await begun.wait()
        await premises.runs.stop(run_id, reason="Enough.")
        await premises.wait(run_id, "stopped")
        await premises.host.interrupt(run_id)
        is_held = False
        await premises.runs.resume(run_id)
        assert (await premises.wait(run_id, "ended")).reason == "answered"
        texts = [text_of(each) for each in premises.store.read(run_id).canisters]
    assert texts[-2:] == ["worked", "Done."]


async def test_a_function_is_called_once_and_without_a_model(build: Build) -> None:
    """Once for its key, on any runner; its return value is the answer."""
    started: list[float] = []

    def convert(amount: float, rate: float) -> float:
        """Converts."""
        started.append(amount)
        return round(amount * rate, 2)

    task = {
        "goal": {"description": "Convert"},
        "prompts": [],
        "resource_llm": {"provider": "scripted", "model": "echo"},
        "resource_registry": {"entries": []},
        "flow_diagram": {
            "mermaid": 'flowchart TD\n START --> A[/"convert amount={{amount}} rate=0.92"/] --> END'
        },
        "variables": {"amount": 1},
    }
    async with opened(build([produce_invoker(convert, effect="once")])) as premises:
        spec = RunSpec(task=task, ensembles=("any",), variables={"amount": 12.5})
        for _ in range(2):
            found = await premises.runs.start(spec, key="invoice-7")
            assert (await premises.wait(found.id, "ended")).reason == "ended"
        texts = [text_of(each) for each in premises.store.read(found.id).canisters]
        kinds = premises.read_kinds(found.id)
    assert (texts[-1], started) == ("11.5", [12.5])
    assert not [kind for kind in kinds if kind.startswith("generation.")]


async def test_a_run_is_performed_once_however_often_it_is_woken(build: Build) -> None:
    """It is requested under one key, and woken by everyone who knows it."""
    calls: list[str] = []

    async def note(text: str) -> str:
        """Notes."""
        calls.append(text)
        await asyncio.sleep(0.05)
        return text

    tool = produce_invoker(note, effect="once")
    async with opened(build([tool])) as premises:
        spec = premises.spec([invoke("note", "a", text="a")], [invoke("note", "b", text="b")], DONE)
        messages = [UserCanister("Do it.")]
        started = await asyncio.gather(
            *(premises.runs.start(spec, messages, key="k") for _ in range(5))
        )
        (run_id,) = {each.id for each in started}
        for _ in range(20):
            premises.host.wake(run_id)
            await asyncio.sleep(0.01)
        assert (await premises.wait(run_id, "ended")).reason == "answered"
        kinds = premises.read_kinds(run_id)
    assert calls == ["a", "b"]
    assert kinds.count("run.started") == kinds.count("run.requested") == 1


async def test_a_run_that_keeps_crashing_is_set_aside_with_a_reason(build: Build) -> None:
    """After five attempts without progress; the other runs are performed."""
    premises = build()
    poison = await premises.start(premises.spec(DONE))
    await premises.host.close()
    begun = RunStartedEvent(run_id="r", conversation_id=poison, length=1)
    for _ in range(5):
        write_event(premises.store, poison, begun)
    async with opened(premises):
        other = await premises.start(premises.spec(DONE))
        ended = await premises.wait(poison, "ended")
        assert (await premises.wait(other, "ended")).reason == "answered"
    assert ended.reason == "failed"
    assert "started 5 times" in ended.detail


@pytest.mark.slow
async def test_logs_are_repaired_while_other_runs_continue(
    build_queue: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was requested by a process that died since is found, however long that takes."""
    begun, go_on = threading.Event(), threading.Event()

    def tidy(self: RunWorker) -> None:
        begun.set()
        go_on.wait()

    monkeypatch.setattr(RunWorker, "tidy", tidy)
    premises = build_queue()
    try:
        async with opened(premises):
            await asyncio.to_thread(begun.wait)
            alone = LocalRuns(premises.store, premises.runs.application)  # which wakes nobody
            started = await alone.start(premises.spec(DONE), [UserCanister("Do it.")])
            assert (await premises.wait(started.id, "ended")).reason == "answered"
            go_on.set()
    finally:
        go_on.set()


@pytest.mark.slow
async def test_a_worker_that_shuts_down_returns_its_runs_and_claims_no_more(
    build_queue: Build,
) -> None:
    """Also runs that are queued during the shutdown: the next worker finishes all of them."""
    begun = asyncio.Event()

    async def hang() -> str:
        """Hangs."""
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    def answer() -> str:
        """Answers."""
        return "done"

    asker = build_queue(queues=())
    settings = attrs.evolve(FAST, grace_seconds=0.0)
    leaving = build_queue([produce_invoker(hang, effect="pure")], settings=settings)
    async with opened(asker):
        async with opened(leaving):
            spec = asker.spec([invoke("hang", "h")], DONE)
            ids = [await asker.start(spec) for _ in range(3)]
            await begun.wait()
            closing = asyncio.create_task(leaving.host.close())
            ids += [await asker.start(spec) for _ in range(3)]
            await closing
        kinds = [asker.read_kinds(each) for each in ids]
        async with opened(
            build_queue(
                [produce_invoker(lambda: "done", name="hang", description="Ends.", effect="pure")]
            )
        ):
            reasons = [(await asker.wait(each, "ended")).reason for each in ids]
    assert reasons == ["answered"] * 6
    assert [each.count("run.started") for each in kinds[3:]] == [0] * 3


@pytest.mark.slow
async def test_a_queued_run_can_be_stopped(build_queue: Build) -> None:
    """No worker performs it, not even a later one; and the stop can be undone."""
    asker = build_queue(queues=())
    async with opened(asker):
        run_id = await asker.start(asker.spec(DONE))
        assert (await asker.runs.find(run_id)).state == "queued"
        await asker.runs.stop(run_id, reason="Not needed.")
        assert (await asker.runs.find(run_id)).state == "stopped"
    async with opened(build_queue()) as worker:
        other = await worker.start(worker.spec(DONE))
        await worker.wait(other, "ended")
        assert (await worker.runs.find(run_id)).state == "stopped"
        assert "run.started" not in worker.read_kinds(run_id)
        await worker.runs.resume(run_id)
        assert (await worker.wait(run_id, "ended")).reason == "answered"


@pytest.mark.slow
async def test_urgent_runs_come_first(build_queue: Build) -> None:
    """In one queue that performs one run at a time; other queues are not affected."""
    asker = build_queue(queues=())
    async with opened(asker):
        ids = {}
        for priority in (0, -5, 7, 3):
            spec = asker.spec(DONE, priority=priority, queue="few")
            ids[priority] = await asker.start(spec)
        other = await asker.start(asker.spec(DONE, queue="nobody"))
        await _wait_for_queue(asker)
    async with opened(build_queue(queues=(Queue("few", each=1, total=1),))) as worker:
        ended = {each: await worker.wait(run_id, "ended") for each, run_id in ids.items()}
        assert (await worker.runs.find(other)).state == "queued"
    assert sorted(ended, key=lambda each: ended[each].updated) == [7, 3, 0, -5]


async def _wait_for_queue(premises: Premises) -> None:
    """Wait until all requested runs are queued."""
    waking = premises.host._waking  # type: ignore[attr-defined]
    await asyncio.gather(*waking)


@attrs.define
class Outage:
    """A server that may be unreachable, and a run that uses it."""

    server: Server
    build: Build

    def cut(self) -> None:
        """Close all connections, like a network failure."""
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )


@pytest.mark.postgresql
@pytest.mark.slow
@LACKING
async def test_runs_survive_an_outage_of_the_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections are closed in each step, and the server is killed in one.

    Every result is right; steps are repeated if that is allowed, and otherwise need an approval.
    """
    for module in (claims, database_log):  # a claim that could not be given back runs out
        monkeypatch.setattr(module, "LEASE_SECONDS", 1.0)
    server = Server()
    around = Outage(server, produce_build("postgresql", tmp_path, server))
    paid: list[str] = []

    async def note(number: int) -> str:
        """Notes, and has lost the database meanwhile."""
        if number in noted:
            return f"noted {number}"
        noted.append(number)
        if number == 2:
            server.kill()
            asyncio.get_running_loop().call_later(0.5, server.start)
        else:
            around.cut()
        return f"noted {number}"

    async def pay_once() -> str:
        """Pay, while the database is unreachable."""
        paid.append("paid")
        server.kill()
        asyncio.get_running_loop().call_later(0.5, server.start)
        return "paid"

    noted: list[int] = []
    tools = [produce_invoker(note, effect="pure"), produce_invoker(pay_once, effect="once")]
    turns = [[invoke("note", f"n{number}", number=number)] for number in range(4)]
    settings = attrs.evolve(FAST, attempts=50, starts=50)
    try:
        async with opened(around.build(tools, settings=settings)) as premises:
            run_id = await premises.start(premises.spec(*turns, [invoke("pay_once")], DONE))
            await _wait(premises, run_id, "waiting")
            (waiting,) = await premises.runs.survey_approvals(run_id)
            assert waiting.request.in_doubt
            await premises.runs.approve(run_id, deny(waiting.request, "It was paid."))
            await _wait(premises, run_id, "ended")
            texts = [text_of(each) for each in premises.store.read(run_id).canisters]
            replayed = await replay_run(premises.store, run_id)
    finally:
        server.close()
    assert paid == ["paid"]
    assert [each for each in texts if each.startswith("noted")] == [
        f"noted {number}" for number in range(4)
    ]
    assert texts[-1] == "Done."
    assert replayed.difference is None
    assert {*noted} == {0, 1, 2, 3}


async def _wait(premises: Premises, run_id: str, state: str) -> None:
    from vibe_llms.exceptions import StoreError

    while True:
        try:
            await premises.wait(run_id, state)
        except StoreError:  # it is away just now
            await asyncio.sleep(0.05)
        else:
            return


@LACKING
@pytest.mark.postgresql
async def test_callers_survive_an_outage_of_the_database(tmp_path: Path) -> None:
    """Starting and waiting work again, as workers do; a requested run is started once."""
    server = Server()
    script = write_script(tmp_path, {"contents": DONE})
    spec = RunSpec(model=f"scripted:{script}")
    url = produce_url(tmp_path, server)
    try:
        async with open_runner(
            url, application=produce_application(tmp_path), hosting=FAST
        ) as runs:
            server.kill()
            starting = asyncio.create_task(runs.start(spec, [UserCanister("Go.")], key="k"))
            waiting = None
            await asyncio.sleep(1)
            assert not starting.done()
            server.start()
            async with asyncio.timeout(60):
                run_id = (await starting).id
                waiting = asyncio.create_task(runs.wait(run_id))
                await asyncio.sleep(0)
                server.kill()
                await asyncio.sleep(1)
                server.start()
                assert (await waiting).reason == "answered"
            assert len(await runs.survey()) == 1
            kinds = [each.event.type for each in runs.store.open_log(run_id).read()]
            assert kinds.count("run.requested") == 1
    finally:
        server.close()


@LACKING
@pytest.mark.postgresql
async def test_runners_and_batches_are_opened_when_the_database_is_back(tmp_path: Path) -> None:
    """A batch that is submitted or inspected during an outage is so once."""
    server = Server()
    script = write_script(tmp_path, {"contents": DONE})
    url = produce_url(tmp_path, server)
    application = produce_application(tmp_path)

    async def open_run() -> str:
        async with open_runner(url, application=application, hosting=FAST) as runs:
            spec = RunSpec(model=f"scripted:{script}")
            run = await runs.start(spec, [UserCanister("Go.")])
            return (await runs.wait(run.id)).reason

    async def during_outage(work: Coroutine[Any, Any, T]) -> T:
        server.kill()
        working = asyncio.create_task(work)
        await asyncio.sleep(1)
        assert not working.done()
        server.start()
        return await working

    try:
        async with asyncio.timeout(120):
            assert await during_outage(open_run()) == "answered"
            opening = open_batches(url, application=application)
            runner = await during_outage(opening.__aenter__())
            try:
                channel = BatchChannel(
                    Model(f"scripted:{script}", application=application), runner=runner
                )
                batch = await during_outage(channel.submit([f"{n}?" for n in range(5)]))
                async with aclosing(runner.follow(batch)) as outcomes:
                    assert len([each async for each in outcomes]) == 5
                assert await during_outage(runner.resolve(batch[:12])) == batch
                (found,) = await runner.survey()
                assert (found.total, found.done, found.failed) == (5, 5, 0)
            finally:
                await opening.__aexit__(None, None, None)
            async with access_batches(url, patience_seconds=60) as looking:
                assert await during_outage(looking.resolve(batch[:12])) == batch
            server.kill()
            async with access_batches(url) as looking:
                with pytest.raises(StoreUnavailableError):
                    await looking.resolve(batch[:12])
    finally:
        await application.close()
        server.close()


@LACKING
@pytest.mark.postgresql
async def test_a_missing_role_or_database_is_reported_at_once(tmp_path: Path) -> None:
    server = Server()
    address, _, _ = produce_url(tmp_path, server).rpartition("/")
    try:
        with pytest.raises(StoreError, match="does not exist") as caught:
            async with open_batches(f"{address}/nowhere"):
                pass
        assert not isinstance(caught.value, StoreUnavailableError)
        with pytest.raises(StoreError, match="does not exist") as caught:
            async with open_runner(f"{address}/nowhere", queues=()):
                pass
        assert not isinstance(caught.value, StoreUnavailableError)
    finally:
        server.close()


async def test_without_patience_an_outage_is_reported_at_once() -> None:
    tries = 0

    async def fail() -> None:
        nonlocal tries
        tries += 1
        raise StoreUnavailableError(detail="Nobody is there.")

    with pytest.raises(StoreUnavailableError):
        await retry_for(0.0, fail)
    assert tries == 1
