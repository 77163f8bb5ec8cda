"""Engines and functions, found by their names, can be the work of a batch on every runner."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.batches.batching import (
    BASES,
    NEEDS_DBOS,
    FakeQueue,
    choose_url,
    start_program,
    start_worker,
)
from support.runs.acting import invoke, say
from support.runs.scripting import write_script
from vibe_llms.agents.batches import open_batches
from vibe_llms.application import Application
from vibe_llms.batches.batch_specs import decode_spec
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.batches.databases import BatchDatabase, open_database
from vibe_llms.batches.executors import ChunkExecutor
from vibe_llms.batches.row_chunks import TakenChunk, take
from vibe_llms.batches.work_makers import EnginePerformer, WorkMaker, gather_functions
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.exceptions import RequestError, StoreError, UnknownNameError
from vibe_llms.instruments.engines import Engine
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow
from vibe_llms.invocables.ensembles import FunctionsEnsemble

PROGRAM = Path(__file__).parents[1] / "support" / "batches" / "paying_batch_runner.py"
RUNNERS = [
    "local",
    pytest.param("sqlite", marks=NEEDS_DBOS),
    pytest.param("postgresql", marks=[NEEDS_DBOS, pytest.mark.postgresql]),
]


def convert(amount: float, rate: float = 2.0) -> float:
    """Converts an amount."""
    return amount * rate


async def invert(number: float) -> float:
    return 1 / number


async def describe(value: dict[str, Any]) -> dict[str, Any]:
    return {"words": value["text"].split(), "length": len(value["text"])}


def produce_money(*tools: Any) -> FunctionsEnsemble:
    return FunctionsEnsemble("money", tools or (convert,))


async def produce_tools(names: Sequence[str]) -> list[Any]:
    assert tuple(names) == ("money",)
    return [produce_money()]


def load(folder: Path) -> Application:
    path = write_script(
        folder,
        {"contents": [invoke("convert", amount=21.0)], "usage": {"input_tokens": 7}},
        {"contents": [say("For {input}: 42.")], "usage": {"input_tokens": 9}},
    )
    (folder / "config.toml").write_text(f'model = "scripted:{path}"\n')
    environment = {"VIBE_LLMS_CONFIG": str(folder / "config.toml"), "HOME": str(folder)}
    return Application(load_configuration(environment=environment, working_directory=folder))


@pytest.fixture
def application(tmp_path: Path) -> Application:
    return load(tmp_path)


def show(report: Any) -> list[Any]:
    return [
        [each.index, each.value, each.text, None if each.usage is None else each.usage.input_tokens]
        for each in report.results
    ]


@pytest.mark.slow
@pytest.mark.parametrize("base", RUNNERS)
async def test_the_same_work_gives_the_same_on_every_runner(
    tmp_path: Path, application: Application, base: str
) -> None:
    """Only the URL changes; failures have the same messages everywhere."""
    url = "local:" if base == "local" else choose_url(base, tmp_path)
    lent: Any = {"functions": [invert, describe], "produce_tools": produce_tools}
    async with open_batches(url, application=application, chunk=3, **lent) as runner:
        engine = Engine("", [produce_money()], application=application)
        acted = await BatchChannel(engine, runner=runner).collect([f"Q{n}" for n in range(5)])
        named: Any = {"runner": runner, "key": "numbers", "priority": 5}
        called = await BatchChannel(invert, **named).collect([2, 0, 4])
        report = await BatchChannel(describe, runner=runner).collect([{"text": "a b"}])
    assert show(acted) == [[n, f"For Q{n}: 42.", f"For Q{n}: 42.", 16] for n in range(5)]
    assert [each.value for each in called.results] == [0.5, 0.25]
    assert [str(each.error) for each in called.failures] == ["ZeroDivisionError: division by zero"]
    assert report.values == ({"words": ["a", "b"], "length": 3},)
    if runner is not None:  # what is done is let go of
        store = application.store if base == "sqlite" else None
        assert store is None or not list(store.survey())
    await application.close()


@asynccontextmanager
async def run_work_here(
    folder: Path, application: Application, **lent: Any
) -> AsyncIterator[Batches]:
    """Performs batches in this process."""
    url, value = choose_url("sqlite", folder), {"produce_tools": produce_tools, **lent}
    async with open_batches(url, application=application, chunk=8, **value) as runner:
        assert runner is not None
        yield runner


@pytest.mark.slow
async def test_work_that_a_worker_cannot_load_is_rejected_in_one_line(
    tmp_path: Path, application: Application
) -> None:
    """It is rejected before anything is queued; each message tells how to fix it."""

    async def nothing(names: Sequence[str]) -> list[Any]:
        return [FunctionsEnsemble("money", (produce_invoker(convert, name="exchange"),))]

    async with run_work_here(tmp_path, application, functions=[invert]) as runner:
        produce: Any = partial(BatchChannel, runner=runner)
        with pytest.raises(TypeError, match=r"A lambda has no name .*: define it as `async def"):
            produce(lambda number: invert(number))
        with pytest.raises(TypeError, match="partial has no name"):
            produce(partial(invert, 1))
        with pytest.raises(TypeError, match=r"the engine's approver, store: make an engine"):
            produce(Engine("", approver=allow, store=MemoryStore(), application=application))
        for kind in (produce, BatchChannel):
            with pytest.raises(TypeError, match="remove cap"):
                kind(invert, cap=Decimal(1))
        with pytest.raises(RequestError, match="as JSON"):
            await produce(invert).collect([object()])
        with pytest.raises(UnknownNameError, match=r"no function 'describe' .*Pass the function"):
            await produce(describe).collect([{"text": ""}])
        assert not await runner.survey()
    async with run_work_here(tmp_path, application, produce_tools=nothing) as runner:
        engine = Engine("", [produce_money()], application=application)
        with pytest.raises(RequestError, match=r"other tools .*: convert, exchange differ"):
            await BatchChannel(engine, runner=runner).collect(["?"])
    async with run_work_here(tmp_path, application, produce_tools=None) as runner:
        with pytest.raises(UnknownNameError, match=r"nsemble 'money'.*\[ensembles.money\]"):
            await BatchChannel(engine, runner=runner).collect(["?"])
        loose = Engine("", convert, application=application)
        with pytest.raises(UnknownNameError, match="put these functions into an ensemble"):
            await BatchChannel(loose, runner=runner).collect(["?"])
        assert not await runner.survey()
    with pytest.raises(ValueError, match="Two functions for batches are called 'invert'"):
        gather_functions([invert, rename(describe, "invert")])


@NEEDS_DBOS
@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
async def test_a_worker_started_from_the_command_line_provides_functions(
    tmp_path: Path, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inverting.py").write_text("async def invert(number):\n    return 1 / number\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    application = load(tmp_path)
    url = choose_url(base, tmp_path)
    worker = start_worker(tmp_path, url, "--functions", "inverting:invert")
    try:
        lent: Any = {"functions": [invert], "queues": ()}
        async with open_batches(url, application=application, **lent) as runner:
            report = await BatchChannel(invert, runner=runner).collect([2, 0, 4])
        assert report.values == (0.5, 0.25)
    finally:
        worker.kill()
        worker.communicate()
        await application.close()


def rename(function: Any, name: str) -> Any:
    async def named(value: Any) -> Any:
        return await function(value)

    named.__name__ = name
    return named


@pytest.mark.slow
async def test_the_limits_of_an_engine_apply_to_each_item(
    tmp_path: Path, application: Application
) -> None:
    """A failed run leaves nothing behind."""
    async with run_work_here(tmp_path, application) as runner:
        limits = attrs.evolve(application.configuration.limits, run_steps=1)
        engine = Engine("", [produce_money()], limits=limits, application=application)
        report = await BatchChannel(engine, runner=runner).collect(["?", "!"])
    assert all("run_steps" in str(each.error) for each in report.failures)
    assert [each.usage.input_tokens for each in report.failures if each.usage] == [7, 7]
    assert len(report.failures) == 2
    assert not list(application.store.survey())


@NEEDS_DBOS
@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
async def test_a_tool_that_must_run_once_needs_approval_after_its_worker_was_killed(
    tmp_path: Path, base: str
) -> None:
    """The other items continue where they were; after the approval this item continues, too, and
    each is paid for once.
    """
    url = choose_url(base, tmp_path)
    (tmp_path / "config.toml").touch()
    for turn in range(3):
        process = start_program(tmp_path, PROGRAM.read_text("utf-8"), url, tmp_path, turn)
        out, err = await asyncio.to_thread(process.communicate, timeout=60)
        assert process.returncode == (-signal.SIGKILL if turn == 0 else 0), err
        if turn == 1:
            assert json.loads(out) == [[0, 2], "awaits approval"]
    assert json.loads(out) == [[0, 1, 2], ""]
    paid = (tmp_path / "paid").read_text().splitlines()
    assert sorted(paid) == ["Q0", "Q1", "Q2"]


async def test_an_input_of_another_worker_is_skipped(
    tmp_path: Path, application: Application
) -> None:
    """The input has not failed, and the result of the other worker is not computed again."""
    converted: list[float] = []

    def count(amount: float, rate: float = 2.0) -> float:
        """Converts an amount."""
        converted.append(amount)
        return amount * rate

    async def produce(_: Sequence[str]) -> list[Any]:
        return [produce_money(produce_invoker(count, name="convert", effect="once"))]

    database = open_database(choose_url("sqlite", tmp_path))
    maker = WorkMaker(application=application, store=application.store, produce_tools=produce)
    executor = ChunkExecutor(database, maker, FakeQueue())
    batches = Batches(database, FakeQueue(), maker=maker)
    engine = Engine("", await produce(()), application=application)
    batch = await BatchChannel(engine, runner=batches).submit(["Q0", "Q1"])
    stale = reclaim(database, batch)
    runs = await maker.produce(batch, decode_spec(stale.spec))
    assert isinstance(runs, EnginePerformer)
    name = runs.name(stale.rows[0])
    await asyncio.to_thread(application.store.create, name, ConversationMetadata())
    log = application.store.open_log(name)
    log.claim()
    with pytest.raises(StoreError):
        await executor.perform(stale)
    assert (await batches.find(batch)).done == 1
    log.close()
    application.store.delete(name)
    await executor.perform(reclaim(database, batch))
    assert (await batches.find(batch)).done == 2
    assert converted == [21.0, 21.0]
    with pytest.raises(StoreError, match="Another worker has already stored"):
        await executor.perform(stale)
    assert converted == [21.0, 21.0]
    assert not list(application.store.survey())
    await runs.close()
    await executor.close()
    database.close()
    await application.close()


@pytest.mark.parametrize("asks", [False, True])
async def test_runs_that_a_dead_worker_left_are_removed_unless_they_wait_for_an_answer(
    tmp_path: Path, application: Application, monkeypatch: pytest.MonkeyPatch, *, asks: bool
) -> None:
    """The worker died after the result was written, and before its run was removed."""

    async def produce(_: Sequence[str]) -> list[Any]:
        return [produce_money(produce_invoker(convert, needs_approval=asks))]

    database = open_database(choose_url("sqlite", tmp_path))
    maker = WorkMaker(application=application, store=application.store, produce_tools=produce)
    dying, living = (ChunkExecutor(database, maker, FakeQueue()) for _ in range(2))
    engine = Engine("", await produce(()), application=application)
    batches = Batches(database, FakeQueue(), maker=maker)
    batch = await BatchChannel(engine, runner=batches).submit(["Q0", "Q1"])
    taken = reclaim(database, batch)
    runs = await maker.produce(batch, decode_spec(taken.spec))
    assert isinstance(runs, EnginePerformer)
    names = [runs.name(each) for each in taken.rows]
    await asyncio.to_thread(application.store.create, names[0], ConversationMetadata())
    log = application.store.open_log(names[0])
    log.claim()
    with monkeypatch.context() as patch:
        patch.setattr(type(application.store), "delete", lambda *_: None)
        with pytest.raises(StoreError):
            await dying.perform(taken)
    assert set(application.store.survey()) == set(names)
    log.close()
    application.store.delete(names[0])
    await living.perform(reclaim(database, batch))
    assert (await batches.find(batch)).done == 2
    assert set(application.store.survey()) == (set(names) if asks else set())
    for each in (runs, dying, living):
        await each.close()
    database.close()
    await application.close()


def reclaim(database: BatchDatabase, batch: str) -> TakenChunk:
    taken = take(database, batch, 0)
    assert taken is not None
    return taken
