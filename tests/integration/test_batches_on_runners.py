"""A batch that workers perform over a database gives what one gives that is performed here."""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
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
    Vendor,
    choose_url,
    run_vendor,
    start_program,
)
from support.network.ports import find_port
from vibe_llms.agents.batches import access_batches, open_batches
from vibe_llms.agents.durable.database import open_database as open_durable
from vibe_llms.agents.queues import BATCHES, Queue
from vibe_llms.application import Application
from vibe_llms.batches import direct_backend
from vibe_llms.batches.batch_specs import decode_spec
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.budgets import RowLedger
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.batches.databases import BatchDatabase, open_database
from vibe_llms.batches.executors import ChunkExecutor
from vibe_llms.batches.items import BatchInput
from vibe_llms.batches.row_chunks import begin_alone, take
from vibe_llms.batches.work_makers import EnginePerformer, WorkMaker
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    DependencyError,
    LimitError,
    ProviderError,
    RequestError,
    StoreError,
)
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.estimates import Estimator, read_money
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.prompts import Prompt

pytestmark = NEEDS_DBOS

ADDRESS = "openai_conversations:gpt-4o-mini"
LEASE_SECONDS = 3.0
"""Of workers of which one is killed: slow ones must not be taken for dead."""

WORKER = """
import asyncio, os, signal, sys
from vibe_llms.batches import direct_backend
from vibe_llms.agents.durable.runner import DurableRunner
from vibe_llms.agents.executing import RunExecutor
from vibe_llms.agents.queues import BATCHES
from vibe_llms.application import Application

plain = direct_backend.attempt

async def attempt(work, due):
    item = await plain(work, due)
    if "poison" in str(item.text):
        os.kill(os.getpid(), signal.SIGKILL)
    return item

async def main(url, lease_seconds):
    direct_backend.attempt = attempt
    application = Application.load()
    executor = RunExecutor(store=application.store, application=application)
    runner = DurableRunner(url, executor, queues=(BATCHES,), lease_seconds=float(lease_seconds))
    await runner.start()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def vendor() -> Iterator[Vendor]:
    with run_vendor() as vendor:
        yield vendor


@pytest.fixture(autouse=True)
def anew(vendor: Vendor) -> None:
    vendor.request_counts.clear()
    vendor.request_times.clear()
    vendor.status, vendor.delay_seconds, vendor.min_open, vendor.max_open = 200, 0.0, 1, 0


@attrs.define
class Place:
    """Where batches are performed in this process."""

    application: Application
    runner: Batches
    folder: Path

    def channel(self, **settings: Any) -> BatchChannel[Any]:
        model = Model(ADDRESS, application=self.application)
        produce: Any = BatchChannel
        channel: BatchChannel[Any] = produce(model, **{"runner": self.runner, **settings})
        return channel


def load(vendor: Vendor, folder: Path, **settings: Any) -> Application:
    path = vendor.write_configuration(folder, **settings)
    environment = {"VIBE_LLMS_CONFIG": str(path), "HOME": str(folder)}
    return Application(load_configuration(environment=environment, working_directory=folder))


@asynccontextmanager
async def working(
    vendor: Vendor,
    folder: Path,
    base: str = "sqlite",
    *,
    queues: Sequence[Queue] = (BATCHES,),
    **settings: Any,
) -> AsyncIterator[Place]:
    """Performs batches in this process."""
    application = load(vendor, folder, **settings)
    url = choose_url(base, folder)
    async with open_batches(url, application=application, queues=queues, chunk=8) as runner:
        assert runner is not None
        yield Place(application, runner, folder)
    await application.close()


def produce_executor(database: BatchDatabase, application: Application) -> ChunkExecutor:
    maker = WorkMaker(application=application, store=application.store)
    return ChunkExecutor(database, maker, FakeQueue())


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
async def test_it_gives_what_a_batch_gives_here_and_asks_once(
    tmp_path: Path, vendor: Vendor, base: str
) -> None:
    """In the order of the inputs, also in its file; asked for again, it is there already."""
    inputs = [BatchInput(f"Who is {number}?", id=f"n{number}") for number in range(30)]
    async with working(vendor, tmp_path, base) as place:
        here = await place.channel(runner=None, system="Be brief.").collect(inputs)
        assert set(vendor.request_counts.values()) == {1}
        vendor.request_counts.clear()
        settings = {"system": "Be brief.", "key": "k", "journal": tmp_path / "out.jsonl"}
        there = await place.channel(**settings).collect(inputs)
        again = await place.channel(**settings).collect(inputs)
        more = await place.channel(**settings).collect([*inputs, "One more?"])

        told = [
            [(item.index, item.id, item.value, item.text) for item in report.results]
            for report in (here, there, again, more)
        ]
        assert told[1:3] == [told[0]] * 2
        assert told[3][:-1] == told[0]
        assert vendor.request_counts == {**{each.value: 1 for each in inputs}, "One more?": 1}
        assert (there.tally.done, there.tally.stored) == (30, 0)
        assert (again.tally.done, again.tally.stored) == (0, 30)
        assert (more.tally.done, more.tally.stored) == (1, 30)
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [line["index"] for line in lines] == list(range(31))
        (found,) = await place.runner.survey()
        assert (found.state, found.done, found.failed, found.total) == ("done", 31, 0, 31)
        assert (found.input_tokens, found.output_tokens) == (310, 155)
        assert not found.unpriced
        assert found.cost > 0
        with pytest.raises(RequestError, match="for another input"):
            await place.channel(**settings).collect(["Something else?"])
        with pytest.raises(RequestError, match="has 31 inputs, but 4 were given"):
            await place.channel(**settings).collect(inputs[:4])


@pytest.mark.slow
async def test_a_prompt_and_a_schema_go_along(tmp_path: Path, vendor: Vendor) -> None:
    """What is said is made where the batch is asked for; what comes becomes a value there, too."""
    async with working(vendor, tmp_path) as place:
        channel = place.channel(prompt=Prompt("Who wrote {{ title }}?", system="A name."))
        report = await channel.collect([{"title": "Emma"}])
        assert report.values == ("Echo: Who wrote Emma?",)
        schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
        failed = await place.channel(parser=schema).collect(["What?"])
        assert failed.failures[0].error is not None
        assert failed.failures[0].error.WORD == "parse"
        # Each of its answers was billed, though none of them fits.
        asked = sum(vendor.request_counts.values()) - 1
        assert asked > 1
        assert failed.tally.usage.input_tokens == 10 * asked
        found = max(await place.runner.survey(), key=lambda each: each.failed)
        assert found.cost == Decimal("0.0000045") * asked


@pytest.mark.slow
async def test_what_failed_and_may_pass_is_asked_again_by_policy(
    tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what still fails is told, and asked again when somebody wants it."""
    monkeypatch.setattr(direct_backend, "_PAUSE_SECONDS", 0.0)
    vendor.status = 500
    async with working(vendor, tmp_path) as place:
        report = await place.channel(key="k", retries=2).collect(["One?", "Two?"])
        assert [type(item.error) for item in report.failures] == [ProviderError] * 2
        assert vendor.request_counts == {"One?": 3, "Two?": 3}
        vendor.status = 200
        stored = await place.channel(key="k", retries=2).collect(["One?", "Two?"])
        assert stored.tally.stored_failed == 2
        again = place.channel(key="k", retries=2, retry_failed=True)
        mended = await again.collect(["One?", "Two?"])
        assert mended.values == ("Echo: One?", "Echo: Two?")
        (found,) = await place.runner.survey()
        assert (found.done, found.failed) == (2, 0)


@pytest.mark.slow
async def test_a_cap_is_kept_whatever_is_on_its_way(tmp_path: Path, vendor: Vendor) -> None:
    """It stops with an error before it would be passed; with a higher one it goes on."""
    texts = [f"{n}?" for n in range(200)]
    async with working(vendor, tmp_path) as place:
        settings: dict[str, Any] = {"key": "k", "controls": {"max_tokens": 10}}
        with pytest.raises(LimitError, match="could exceed its cap") as caught:
            await place.channel(cap=Decimal("0.0005"), **settings).collect(texts)
        assert caught.value.limit == "cap"
        (found,) = await place.runner.survey()
        assert found.state == "capped"
        # Each answer costs 10 tokens at $0.15, and 5 at $0.60, a million.
        assert found.cost == Decimal("0.0000045") * sum(vendor.request_counts.values())
        assert Decimal("0.0004") < found.cost <= Decimal("0.0005")
        report = await place.channel(cap=Decimal(1), **settings).collect(texts)
        assert len(report.results) == 200
        assert set(vendor.request_counts.values()) == {1}


async def test_a_cap_that_was_raised_while_it_was_met_is_not_met(
    tmp_path: Path, vendor: Vendor
) -> None:
    """A worker that has looked at the one before stops nothing: who looks next finds room."""
    async with working(vendor, tmp_path, queues=()) as place:
        database = place.runner.database
        channel = place.channel(cap=Decimal(1), controls={"max_tokens": 10})
        batch = await channel.submit(["One?"])
        taken = await asyncio.to_thread(take, database, batch, 0)
        assert taken is not None
        executor = produce_executor(database, place.application)
        await place.runner.resume(batch, cap=Decimal(2))
        await executor._stop(taken, "capped")
        assert (await place.runner.find(batch)).state == "open"
        again = await asyncio.to_thread(take, database, batch, 0)
        assert again is not None
        await executor._stop(again, "capped")
        assert (await place.runner.find(batch)).state == "capped"


LOCAL: dict[str, Any] = {"runner": None}


async def note_all(channel: BatchChannel[Any], inputs: Any, seen: list[int]) -> None:
    async for item in channel.run(inputs):
        seen.append(item.index)


async def test_a_cap_is_kept_by_this_process_alone_too(tmp_path: Path, vendor: Vendor) -> None:
    """What the journal has counts; inputs without end are not gone through."""
    numbers = itertools.count()

    async def endless() -> AsyncIterator[str]:
        for number in itertools.count():
            yield f"{number}?"

    async with working(vendor, tmp_path, queues=()) as place:
        settings: dict[str, Any] = {**LOCAL, "controls": {"max_tokens": 10}}
        kept: dict[str, Any] = {**settings, "journal": tmp_path / "answers.jsonl"}
        sources: list[Any] = [
            (f"{number}?" for number in numbers),
            endless(),
            [f"{number}?" for number in range(200)],
        ]
        asked = 0
        for inputs in sources:
            channel = place.channel(cap=Decimal("0.0005"), **kept)
            seen: list[int] = []
            with pytest.raises(LimitError, match="could exceed its cap") as caught:
                await note_all(channel, inputs, seen)
            assert caught.value.limit == "cap"
            assert len(seen) == len({*seen}) == channel.tally.done + channel.tally.stored
            assert len(seen) == (asked or channel.tally.done)  # what is there is told, too
            asked = asked or sum(vendor.request_counts.values())
            # Each answer costs 10 tokens at $0.15, and 5 at $0.60, a million.
            assert Decimal("0.0004") < Decimal("0.0000045") * asked <= Decimal("0.0005")
            assert sum(vendor.request_counts.values()) == asked
        assert next(numbers) < 200 + 2 * 64 * 4
        report = await place.channel(cap=Decimal(1), **kept).collect(sources[-1])
        assert len(report.results) == 200
        assert set(vendor.request_counts.values()) == {1}
        request = Model(ADDRESS, application=place.application).request("?")
        with pytest.raises(RequestError, match="must not be a whole request"):
            await place.channel(cap=Decimal(1), **settings).collect([request])
        said = [{"variables": "without a prompt"}]
        (failure,) = (await place.channel(cap=Decimal(1), **settings).collect(said)).failures
        assert "without a prompt" in str(failure.error)


@pytest.mark.slow
@pytest.mark.parametrize("where", [LOCAL, {}], ids=["local", "sqlite"])
async def test_of_each_run_of_an_engine_its_limit_is_put_down(
    tmp_path: Path, vendor: Vendor, where: dict[str, Any]
) -> None:
    """So as many run at once as the cap bears; what each has cost replaces that."""
    vendor.delay_seconds = 0.002
    async with working(vendor, tmp_path) as place:
        limits = attrs.evolve(place.application.configuration.limits, run_cents=1)
        model = Model(ADDRESS, application=place.application)
        produce: Any = partial(
            BatchChannel,
            Engine(model, limits=limits),
            **{"runner": place.runner, **where},
        )
        texts = [f"{n}?" for n in range(50)]
        with pytest.raises(ConfigurationError, match=r"more than the cap .* run_cents \(now 1\)"):
            await produce(cap=Decimal("0.005")).collect(texts)
        assert not vendor.request_counts
        vendor.min_open = 2
        assert len((await produce(cap=Decimal("0.0202")).collect(texts[:9])).results) == 9
        assert vendor.max_open == 2
        vendor.request_counts.clear()
        with pytest.raises(LimitError, match="could exceed its cap"):
            await produce(cap=Decimal("0.0102")).collect(texts)
        # What is left beside one more run is the cost of 44, at $0.0000045 each.
        assert sum(vendor.request_counts.values()) == 45


async def test_for_a_run_that_another_worker_has_nothing_stays_put_down(
    tmp_path: Path, vendor: Vendor
) -> None:
    """However often it is come by: that one has put it down."""
    async with working(vendor, tmp_path, queues=()) as place:
        database, store = place.runner.database, place.application.store
        engine = Engine(Model(ADDRESS, application=place.application))
        produce: Any = partial(BatchChannel, engine, runner=place.runner)
        batch = await produce(cap=Decimal(100)).submit(["One?"])
        executor = produce_executor(database, place.application)
        taken = await asyncio.to_thread(take, database, batch, 0)
        assert taken is not None
        runs = await executor._maker.produce(batch, decode_spec(taken.spec))
        assert isinstance(runs, EnginePerformer)
        name = runs.name(taken.rows[0])
        await asyncio.to_thread(store.create, name, ConversationMetadata())
        log = store.open_log(name)
        log.claim()
        with pytest.raises(StoreError):
            await executor.perform(taken)
        log.close()
        with database.transact(reading=True) as transaction:
            assert transaction.fetch("SELECT committed FROM vibe_batches") == [(0,)]
        await runs.close()
        await executor.close()


@pytest.mark.slow
@pytest.mark.parametrize("where", [LOCAL, {}], ids=["local", "sqlite"])
@pytest.mark.parametrize("retries", [0, 1])
async def test_a_cap_counts_what_did_not_fit_before_a_refusal(
    tmp_path: Path,
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
    retries: int,
    where: dict[str, Any],
) -> None:
    """The first answer was billed, though the second try at it is refused, and is free."""
    monkeypatch.setattr(direct_backend, "_PAUSE_SECONDS", 0.0)
    plain, billed = Vendor.compose, 0

    def refuse_second(self: Vendor, text: str) -> bytes:
        nonlocal billed
        is_second = text.startswith("Your answer is invalid")
        self.status = 500 if is_second else 200
        billed += not is_second
        return plain(self, text)

    monkeypatch.setattr(Vendor, "compose", refuse_second)
    cap = Decimal("0.0006")
    async with working(vendor, tmp_path) as place:
        channel = place.channel(
            parser={"type": "object"},
            cap=cap,
            retries=retries,
            controls={"max_tokens": 10},
            **where,
        )
        with pytest.raises(LimitError, match="could exceed its cap") as caught:
            await channel.collect([f"{n}?" for n in range(200)])
    cost = Decimal("0.0000045") * billed
    assert 0 < cost <= cap
    assert retries or (f"${cost:,.4f}" in str(caught.value) and cost > Decimal("0.0002"))


@pytest.mark.slow
@pytest.mark.parametrize("where", [LOCAL, {}], ids=["local", "sqlite"])
@pytest.mark.parametrize("end", ["broken off", "refused", "answered"])
async def test_a_cap_counts_each_try_that_broke_off(
    tmp_path: Path,
    vendor: Vendor,
    monkeypatch: pytest.MonkeyPatch,
    end: str,
    where: dict[str, Any],
) -> None:
    """Each may have been billed, whatever came of the last one."""
    most, cost, cap = 10_000, 4_500, 100_000
    monkeypatch.setattr(Estimator, "estimate", lambda self, said: most)
    monkeypatch.setattr("vibe_llms.providers.retries._FIRST_SECONDS", 0.0)
    monkeypatch.setattr(vendor, "code", "invalid_value")  # which no further try mends
    plain, spent = Vendor.compose, 0

    def break_off(self: Vendor, text: str) -> bytes:
        nonlocal spent
        if end == "broken off" or self.request_counts[text] == 1:
            spent += most
            raise ConnectionError
        spent += cost if end == "answered" else 0
        self.status = 400 if end == "refused" else 200
        return plain(self, text)

    monkeypatch.setattr(Vendor, "compose", break_off)
    async with working(vendor, tmp_path, attempts=3) as place:
        channel = place.channel(
            cap=read_money(cap), concurrency=1, controls={"max_tokens": 10}, **where
        )
        with pytest.raises(LimitError, match="could exceed its cap"):
            await channel.collect([f"{n}?" for n in range(40)])
    assert cap - 3 * most < spent <= cap


@pytest.mark.slow
@pytest.mark.parametrize("where", [LOCAL, {}], ids=["local", "sqlite"])
async def test_a_vendor_that_is_not_reached_costs_nothing(
    tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch, where: dict[str, Any]
) -> None:
    """However often it was tried: all fail for that, and what is left of the cap is for others."""
    monkeypatch.setattr("vibe_llms.providers.retries._FIRST_SECONDS", 0.0)
    path = {"base_url": f"http://127.0.0.1:{find_port()}/v1"}
    async with working(vendor, tmp_path, attempts=3, **path) as place:
        settings: dict[str, Any] = {"controls": {"max_tokens": 10}, **where}
        channel = place.channel(cap=Decimal("0.0005"), **settings)
        report = await channel.collect([f"{n}?" for n in range(20)])
    assert {str(each.error) for each in report.failures} == {str(report.failures[0].error)}
    assert "cannot be reached" in str(report.failures[0].error)
    assert len(report.failures) == 20


@pytest.mark.slow
async def test_a_cap_needs_a_price(tmp_path: Path, vendor: Vendor) -> None:
    async with working(vendor, tmp_path) as place:
        model = Model("openai_conversations:nobody-knows-it", application=place.application)
        channel = BatchChannel(
            model, runner=place.runner, cap=Decimal(1), controls={"max_tokens": 10}
        )
        with pytest.raises(ConfigurationError, match="the price of the model is unknown"):
            await channel.collect(["x"])
        assert not vendor.request_counts
        assert not await place.runner.survey()


@pytest.mark.slow
async def test_a_batch_that_nobody_can_perform_says_so(tmp_path: Path, vendor: Vendor) -> None:
    """It ends, with the error that every input would meet; and goes on when that is mended."""
    vendor.status, vendor.code = 401, "invalid_api_key"
    async with working(vendor, tmp_path) as place:
        with pytest.raises(ProviderError, match="not now"):
            await place.channel(key="k").collect([f"{n}?" for n in range(100)])
        (found,) = await place.runner.survey()
        assert found.state == "failed"
        vendor.status = 200
        report = await place.channel(key="k").collect([f"{n}?" for n in range(100)])
        assert len(report.results) == 100


@pytest.mark.slow
async def test_it_is_stopped_and_goes_on_from_there(tmp_path: Path, vendor: Vendor) -> None:
    vendor.delay_seconds = 0.1
    texts = [f"{n}?" for n in range(60)]
    async with working(vendor, tmp_path) as place:
        channel = place.channel(key="k", concurrency=1)
        running = asyncio.create_task(channel.collect(texts))
        await until(lambda: vendor.request_counts["5?"])
        await place.runner.stop(channel.batch)
        with pytest.raises(ConverseError, match="was stopped"):
            await running
        done = sum(vendor.request_counts.values())
        assert done < 60
        async with access_batches(choose_url("sqlite", tmp_path)) as others:
            assert (await others.find(channel.batch)).state == "stopped"
        report = await place.channel(key="k", concurrency=1).collect(texts)
        assert len(report.results) == 60
        assert set(vendor.request_counts.values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["answers.jsonl", pytest.param("answers.parquet", marks=pytest.mark.parquet)]
)
async def test_what_is_no_result_of_it_is_not_written_over(
    tmp_path: Path, vendor: Vendor, name: str
) -> None:
    """Neither the inputs, named by mistake, nor a batch with other settings; nobody is asked."""
    journal = tmp_path / name
    async with working(vendor, tmp_path) as place:
        for there in ('"One?"\n', '{"batch":"0123456789abcdef","index":0}\n'):
            journal.write_text(there)
            with pytest.raises(StoreError, match="does not hold results"):
                await place.channel(journal=journal).collect(["One?"])
            assert journal.read_text() == there
        assert not vendor.request_counts
        assert not await place.runner.survey()


@pytest.mark.slow
async def test_a_table_that_cannot_be_written_is_refused_before_anything_is_paid_for(
    tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as where it is not installed
    async with working(vendor, tmp_path) as place:
        with pytest.raises(DependencyError, match="pyarrow"):
            await place.channel(journal=tmp_path / "answers.parquet").collect(["One?"])
        assert not vendor.request_counts
        assert not await place.runner.survey()


@pytest.mark.slow
async def test_who_has_waited_for_room_begins_nothing_that_nobody_wants(
    tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two chunks ask one input at a time: when the worker leaves, one is under way and no more."""
    begun, leave = asyncio.Event(), asyncio.Event()
    plain = direct_backend.attempt

    async def attempt(work: Any, due: Any) -> Any:
        begun.set()
        await leave.wait()
        return await plain(work, due)

    monkeypatch.setattr(direct_backend, "attempt", attempt)
    application = load(vendor, tmp_path)
    database, queue = open_database(choose_url("sqlite", tmp_path)), FakeQueue()
    executor = produce_executor(database, application)
    place = Place(application, Batches(database, queue, chunk=1), tmp_path)
    batch = await place.channel(concurrency=1).submit(["One?", "Two?"])
    working = [asyncio.create_task(executor.execute(batch, each.number)) for each in queue.due]
    await begun.wait()
    await until(lambda: [work.users for work in executor._works.values()] == [2])
    closing = asyncio.create_task(executor.close())
    await asyncio.sleep(0)
    leave.set()
    await closing
    assert sorted(await asyncio.gather(*working)) == ["", "done"]
    assert sum(vendor.request_counts.values()) == 1
    database.close()
    await application.close()


@pytest.mark.slow
async def test_a_database_that_is_away_breaks_off_nothing_under_a_cap(
    tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked meanwhile was paid for: it is kept, and nobody is asked twice."""
    monkeypatch.setattr(direct_backend, "_PAUSE_SECONDS", 0.0)
    is_away = asyncio.Event()
    plain, grant, asked = direct_backend.attempt, RowLedger._change, 0

    async def attempt(work: Any, due: Any) -> Any:
        item = await plain(work, due)
        if due.index == 0:
            await is_away.wait()
        return item

    loop = asyncio.get_running_loop()

    def fail_once(self: RowLedger, amounts: Sequence[int]) -> list[bool]:
        nonlocal asked
        asked += 1
        if asked == 2:
            loop.call_soon_threadsafe(is_away.set)
            raise StoreError(detail="away")
        return grant(self, amounts)

    monkeypatch.setattr(direct_backend, "attempt", attempt)
    monkeypatch.setattr(RowLedger, "_change", fail_once)
    async with working(vendor, tmp_path) as place:
        channel = place.channel(cap=Decimal(1), concurrency=2, controls={"max_tokens": 10})
        async with asyncio.timeout(60):
            report = await channel.collect([f"{n}?" for n in range(6)])
    assert len(report.results) == 6
    assert set(vendor.request_counts.values()) == {1}


@pytest.mark.slow
async def test_after_three_deaths_inputs_are_asked_one_by_one(
    tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that was asked so twice, and never came to anything, is set aside and says so.

    What came of those before an input is kept when that is asked: it may end the worker, and they
    would be asked again with it, and be set aside as it is.
    """
    plain, kept = direct_backend.attempt, []

    async def attempt(work: Any, due: Any) -> Any:
        with database.transact(reading=True) as transaction:
            kept.append(transaction.fetch("SELECT done FROM vibe_chunks")[0][0])
        return await plain(work, due)

    async with working(vendor, tmp_path, queues=()) as place:
        database = place.runner.database
        batch = await place.channel(key="k").submit([f"{n}?" for n in range(6)])
        for _ in range(3):
            assert await asyncio.to_thread(take, database, batch, 0)
        for _ in range(2):
            await asyncio.to_thread(begin_alone, database, batch, 0, 3)
    monkeypatch.setattr(direct_backend, "attempt", attempt)
    async with working(vendor, tmp_path) as place:
        database = place.runner.database
        report = await place.channel(key="k").collect([f"{n}?" for n in range(6)])
        (failure,) = report.failures
        assert failure.index == 3
        assert kept == [*range(6)]  # the one that is set aside is journaled as the others
        assert "Skipped: it was processed alone 2 times" in str(failure.error)
        assert vendor.request_counts == {f"{n}?": 1 for n in range(6) if n != 3}
        assert vendor.max_open == 1


@pytest.mark.slow
async def test_a_worker_that_was_asleep_asks_nothing_twice(
    tmp_path: Path, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others have put back what it has, and it takes that again: the first goes on."""
    asked, woken = asyncio.Event(), asyncio.Event()
    plain = direct_backend.attempt

    async def attempt(work: Any, due: Any) -> Any:
        asked.set()
        await woken.wait()
        return await plain(work, due)

    monkeypatch.setattr(direct_backend, "attempt", attempt)
    async with working(vendor, tmp_path) as place:
        database = place.runner.database
        collecting = asyncio.create_task(place.channel().collect(["Who?"]))
        await asked.wait()
        durable = await asyncio.to_thread(open_durable, choose_url("sqlite", tmp_path))
        (found,) = durable.client.list_workflows(status="PENDING")
        durable.client.resume_workflows([found.workflow_id], queue_name="batches")
        await until(lambda: durable.client.list_workflows(status="PENDING"))
        await asyncio.sleep(0.3)  # it is executed by now
        woken.set()
        await collecting
        await until(lambda: durable.client.list_workflows(status="SUCCESS"))
        await asyncio.to_thread(durable.close)
        with database.transact(reading=True) as transaction:
            assert transaction.fetch("SELECT epoch FROM vibe_chunks") == [(1,)]
        assert vendor.request_counts == {"Who?": 1}


@pytest.mark.slow
async def test_work_that_cannot_go_elsewhere_is_refused(tmp_path: Path, vendor: Vendor) -> None:
    async with working(vendor, tmp_path) as place:
        with pytest.raises(RequestError, match="no inputs"):
            await place.channel().collect([])
        twice = [BatchInput(str(place), id=str(place % 5)) for place in range(7)]
        with pytest.raises(RequestError, match="have the id '0'"):
            await place.channel().collect(twice)
        assert not await place.runner.survey()
        with pytest.raises(RequestError, match="The priority must be between"):
            await place.channel(priority=5000).collect(["x"])
    with pytest.raises(ConfigurationError, match="not a database"):
        async with open_batches("mysql://x"):
            pass
    async with open_batches("local:") as nobody:
        assert nobody is None


def wait_for_line(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"


async def until(condition: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come so far"
        await asyncio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.postgresql
async def test_a_killed_workers_chunks_are_gone_on_with(tmp_path: Path, vendor: Vendor) -> None:
    """By another, without anybody's doing; only what was under way is asked again."""
    url = choose_url("postgresql", tmp_path)
    vendor.delay_seconds = 0.05
    application = load(vendor, tmp_path)
    texts = [f"{n}?" for n in range(80)]
    workers = [start_program(tmp_path, WORKER, url, LEASE_SECONDS) for _ in range(2)]
    try:
        for each in workers:
            await asyncio.to_thread(wait_for_line, each)
        async with open_batches(url, application=application, queues=(), chunk=10) as runner:
            model = Model(ADDRESS, application=application)
            channel = BatchChannel(model, runner=runner, concurrency=2)
            seen = []
            async for item in channel.run(texts):
                seen.append(item.index)
                if len(seen) == 12:
                    workers[0].send_signal(signal.SIGKILL)
        assert sorted(seen) == list(range(80))
        assert set(vendor.request_counts) == set(texts)
        # Of each of two chunks, of which one was ending: what was under way, and what waited to be
        # written.
        assert sum(vendor.request_counts.values()) <= 80 + 2 * (2 + 2)
    finally:
        for each in workers:
            each.kill()
            each.communicate()
        await application.close()


@pytest.mark.slow
@pytest.mark.postgresql
async def test_workers_share_what_a_vendor_allows(tmp_path: Path, vendor: Vendor) -> None:
    """Two of them send no more in a second than the setting of the provider says for all."""
    url = choose_url("postgresql", tmp_path)
    application = load(vendor, tmp_path, requests_per_minute=1_200)
    workers = [start_program(tmp_path, WORKER, url, LEASE_SECONDS) for _ in range(2)]
    try:
        for each in workers:
            await asyncio.to_thread(wait_for_line, each)
        async with open_batches(url, application=application, queues=(), chunk=20) as runner:
            model = Model(ADDRESS, application=application)
            start = time.monotonic()
            report = await BatchChannel(model, runner=runner).collect(map(str, range(120)))
        assert len(report.results) == 120
        # None comes before its time, less a second's worth of each worker; how much later, and
        # how many at once then, is for a busy machine to say.
        moments = enumerate(sorted(vendor.request_times))
        assert all(moment - start >= number / 20 - 2 * 1.0 for number, moment in moments)
    finally:
        for each in workers:
            each.kill()
            each.communicate()
        await application.close()


@pytest.mark.slow
async def test_an_input_that_kills_its_workers_is_set_aside(tmp_path: Path, vendor: Vendor) -> None:
    """After so many; and says why, while all others are done."""
    url = choose_url("sqlite", tmp_path)
    application = load(vendor, tmp_path)
    texts = [f"{'poison' if n == 13 else n}?" for n in range(20)]
    deaths = 0

    def work() -> subprocess.Popen[str]:
        return start_program(tmp_path, WORKER, url, 0.6)

    worker = work()
    try:
        async with open_batches(url, application=application, queues=(), chunk=20) as runner:
            model = Model(ADDRESS, application=application)
            channel = BatchChannel(model, runner=runner, concurrency=4)
            collecting = asyncio.create_task(channel.collect(texts))
            while not collecting.done():
                await asyncio.wait([collecting], timeout=0.05)
                if worker.poll() is not None:
                    worker.communicate()
                    deaths += 1
                    worker = work()
            report = collecting.result()
        (failure,) = report.failures
        assert (failure.index, deaths) == (13, 5)
        assert "its worker died each time" in str(failure.error)
        assert len(report.results) == 19
    finally:
        worker.kill()
        worker.communicate()
        await application.close()
