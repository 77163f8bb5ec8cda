"""A batch does the same work on each of many inputs, loses nothing, and takes a fixed memory."""

from __future__ import annotations

import asyncio
import json
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.batches.file_journals import FileJournal
from vibe_llms.batches.items import BatchInput, BatchItem, BatchTally
from vibe_llms.batches.synchrony import SyncBatchChannel
from vibe_llms.exceptions import (
    ConfigurationError,
    ForeignError,
    LimitError,
    ProviderError,
    ProviderFault,
    RequestError,
    StoreError,
    TransportError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.models import Model
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.instruments.prompts import Prompt
from vibe_llms.logs.disk import Disk
from vibe_llms.messages.canisters import UserCanister


@attrs.define
class Worker:
    """Doubles numbers; counts how many it works on at once, and what it was given."""

    bad: frozenset[int] = frozenset()
    at_once: int = 0
    max_at_once: int = 0
    given: list[int] = attrs.field(factory=list)
    pace: Callable[[int], float] = lambda number: 0.0

    async def double(self, number: int) -> int:
        self.given.append(number)
        self.at_once += 1
        self.max_at_once = max(self.max_at_once, self.at_once)
        try:
            await asyncio.sleep(self.pace(number))
        finally:
            self.at_once -= 1
        if number in self.bad:
            raise ValueError(f"{number} is bad")
        return number * 2


async def gather(items: Any) -> list[BatchItem[Any]]:
    return [item async for item in items]


def read_lines(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text("utf-8").splitlines()]


async def test_results_come_in_order_where_that_is_asked_for() -> None:
    """However long each takes, the items come as the inputs stand."""
    worker = Worker(pace=lambda number: 0.003 * (7 - number % 8))

    items = await gather(BatchChannel(worker.double, concurrency=8).run(range(40), ordered=True))

    assert [item.index for item in items] == list(range(40))
    assert [item.value for item in items] == [number * 2 for number in range(40)]


async def test_results_come_as_they_are_done_otherwise() -> None:
    """One that is slow holds nobody up."""
    release = asyncio.Event()

    async def work(number: int) -> int:
        if number == 0:
            await release.wait()
        return number

    seen: list[int] = []
    async with aclosing(BatchChannel(work, concurrency=2).run(range(6))) as items:
        async for item in items:
            seen.append(item.index)
            if len(seen) == 5:
                release.set()

    assert seen == [1, 2, 3, 4, 5, 0]


@pytest.mark.parametrize("concurrency", [1, 3, 50])
async def test_no_more_are_worked_on_at_once_than_allowed(concurrency: int) -> None:
    """The concurrency is a bound, and it is used."""
    worker = Worker()

    await gather(BatchChannel(worker.double, concurrency=concurrency).run(range(40)))

    assert worker.max_at_once == min(concurrency, 40)
    assert sorted(worker.given) == list(range(40))


async def test_a_slow_reader_holds_the_work_up() -> None:
    """Inputs are taken only where there is room for what comes of them: memory stays flat."""
    worker = Worker()
    taken = 0

    def produce() -> Iterator[int]:
        nonlocal taken
        for number in range(10_000):
            taken += 1
            yield number

    async with aclosing(BatchChannel(worker.double, concurrency=4).run(produce())) as items:
        await anext(items)
        for _ in range(200):
            await asyncio.sleep(0)

    assert taken <= 4 * 4 + 2


async def test_what_is_held_for_the_order_is_bounded() -> None:
    """Where the first is not done, no more than the window is begun behind it."""
    release = asyncio.Event()
    begun = 0

    async def work(number: int) -> int:
        nonlocal begun
        begun += 1
        if number == 0:
            await release.wait()
        return number

    task = asyncio.ensure_future(
        gather(BatchChannel(work, concurrency=3).run(range(1_000), ordered=True))
    )
    for _ in range(300):
        await asyncio.sleep(0)
    held = begun
    release.set()

    assert len(await task) == 1_000
    assert held == 3 * 4


async def test_inputs_may_come_from_an_asynchronous_generator() -> None:
    """It is asked by one worker at a time, and closed at the end."""
    closed = False

    async def produce() -> AsyncIterator[int]:
        nonlocal closed
        try:
            for number in range(20):
                await asyncio.sleep(0)
                yield number
        finally:
            closed = True

    items = await gather(BatchChannel(Worker().double, concurrency=5).run(produce()))

    assert sorted(item.value for item in items) == [number * 2 for number in range(20)]
    assert closed


async def test_failures_are_items_and_are_listed_at_the_end() -> None:
    """An input whose work fails stops nobody else, and keeps its place and its error."""
    channel: BatchChannel[int] = BatchChannel(Worker(bad=frozenset({3, 7})).double)

    report = await channel.collect(range(10))

    assert [item.index for item in report.failures] == [3, 7]
    assert isinstance(report.failures[0].error, ForeignError)
    assert str(report.failures[0].error) == "ValueError: 3 is bad"
    assert len(report.results) == 8
    assert (report.tally.done, report.tally.failed, report.tally.total) == (10, 2, 10)


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError(detail="There is no key."),
        ProviderError(fault=ProviderFault.AUTHENTICATION),
        ProviderError(fault=ProviderFault.QUOTA),
    ],
)
async def test_what_all_would_meet_ends_the_batch(error: Exception, tmp_path: Path) -> None:
    """Without a key or money the rest is not tried, and the input can be tried again."""
    asked = []

    async def work(number: int) -> int:
        asked.append(number)
        if number == 5:
            raise error
        return number

    journal = tmp_path / "answers.jsonl"
    with pytest.raises(type(error)):
        await gather(BatchChannel(work, concurrency=1, journal=journal).run(range(100)))

    assert asked == list(range(6))
    assert len(journal.read_bytes().splitlines()) == 5


async def test_an_error_of_the_source_comes_after_what_was_under_way(tmp_path: Path) -> None:
    """What was taken before it is done, written and yielded."""

    def produce() -> Iterator[int]:
        yield from range(5)
        raise RuntimeError("the source broke")

    seen: list[int] = []

    async def read() -> None:
        async for item in BatchChannel(Worker().double, journal=journal).run(produce()):
            seen.append(item.index)

    journal = tmp_path / "answers.jsonl"
    with pytest.raises(RuntimeError, match="the source broke"):
        await read()

    assert sorted(seen) == list(range(5))
    assert len(journal.read_bytes().splitlines()) == 5


async def test_leaving_early_cancels_what_is_under_way() -> None:
    """No task is left, and nobody works for nobody."""
    worker = Worker(pace=lambda number: 0 if number == 0 else 60)
    before = asyncio.all_tasks()

    async with aclosing(BatchChannel(worker.double, concurrency=5).run(range(50))) as items:
        await anext(items)

    assert worker.at_once == 0
    assert asyncio.all_tasks() == before


async def test_cancelling_is_prompt_and_keeps_what_is_done(tmp_path: Path) -> None:
    """A cancelled batch has the lines of all that was done, whole, and gives its journal free."""
    worker = Worker(pace=lambda number: 0 if number < 10 else 60)
    journal = tmp_path / "answers.jsonl"
    enough = asyncio.Event()

    def listen(tally: BatchTally) -> None:
        if tally.done == 10:
            enough.set()

    channel = BatchChannel(worker.double, concurrency=5, journal=journal, progress=listen)
    task = asyncio.ensure_future(gather(channel.run(range(50))))
    await enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert sorted(line["index"] for line in read_lines(journal)) == list(range(10))
    again = await BatchChannel(Worker().double, journal=journal).collect(range(12))
    assert (again.tally.stored, again.tally.done) == (10, 2)


async def test_a_batch_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """What the journal has is not worked on again; its items are there all the same."""
    journal = tmp_path / "answers.jsonl"
    await BatchChannel(Worker().double, journal=journal).collect(range(10))
    worker = Worker()

    report = await BatchChannel(worker.double, journal=journal).collect(range(15))

    assert sorted(worker.given) == list(range(10, 15))
    assert report.values == tuple(number * 2 for number in range(15))
    assert [item.is_stored for item in report.results] == [True] * 10 + [False] * 5


async def test_stored_items_need_not_be_heard_of_again(tmp_path: Path) -> None:
    """Whoever reads the file anyway hears of new items only."""
    journal = tmp_path / "answers.jsonl"
    await BatchChannel(Worker().double, journal=journal).collect(range(10))

    channel: BatchChannel[int] = BatchChannel(Worker().double, journal=journal)
    items = await gather(channel.run(range(12), ordered=True, stored=False))

    assert [item.index for item in items] == [10, 11]
    assert channel.tally.stored == 10


async def test_failures_are_tried_again_when_asked(tmp_path: Path) -> None:
    """By default they stay failures; tried again, each input has one line in the end."""
    journal = tmp_path / "answers.jsonl"
    await BatchChannel(Worker(bad=frozenset({2, 4})).double, journal=journal).collect(range(6))

    left = await BatchChannel(Worker().double, journal=journal).collect(range(6))
    worker = Worker()
    mended = await BatchChannel(worker.double, journal=journal, retry_failed=True).collect(range(6))

    assert [item.index for item in left.failures] == [2, 4]
    assert (left.tally.stored, left.tally.stored_failed) == (6, 2)
    assert sorted(worker.given) == [2, 4]
    assert not mended.failures
    assert [line["index"] for line in read_lines(journal)] == list(range(6))


async def test_inputs_with_names_are_known_wherever_they_stand(tmp_path: Path) -> None:
    """An input with an id is the same one in another order, and among others."""
    journal = tmp_path / "answers.jsonl"
    inputs = [BatchInput(number, id=f"n{number}") for number in range(5)]
    await BatchChannel(Worker().double, journal=journal).collect(inputs)
    worker = Worker()

    more = [BatchInput(9, id="n9"), *reversed(inputs)]
    report = await BatchChannel(worker.double, journal=journal).collect(more)

    assert worker.given == [9]
    assert {item.id: item.value for item in report.results} == {
        **{f"n{number}": number * 2 for number in range(5)},
        "n9": 18,
    }


async def test_changed_inputs_are_refused(tmp_path: Path) -> None:
    """A result is never taken for that of another input."""
    journal = tmp_path / "answers.jsonl"
    await BatchChannel(Worker().double, journal=journal).collect([1, 2, 3])

    with pytest.raises(RequestError, match=r"item number 1, but for another input.*id"):
        await BatchChannel(Worker().double, journal=journal).collect([1, 5, 3])


async def test_changed_work_is_refused(tmp_path: Path) -> None:
    """A journal is of one function, or of one model with its options."""
    journal = tmp_path / "answers.jsonl"
    async with Model("scripted:echo") as model:
        await BatchChannel(model, journal=journal, system="Be brief.").collect(["a"])
        kept = journal.read_bytes()

        with pytest.raises(RequestError, match="other settings"):
            await BatchChannel(model, journal=journal, system="Be wordy.").collect(["a"])
        with pytest.raises(RequestError, match="other settings"):
            await BatchChannel(Worker().double, journal=journal).collect([1])

    assert journal.read_bytes() == kept


async def test_two_inputs_of_one_name_are_refused() -> None:
    """Else one would pass for the other when the batch goes on."""
    inputs = [BatchInput(1, id="a"), BatchInput(2, id="a")]

    with pytest.raises(RequestError, match="Two inputs of the batch have the id 'a'"):
        await BatchChannel(Worker().double).collect(inputs)


async def test_inputs_that_json_cannot_say_need_a_batch_without_journal(tmp_path: Path) -> None:
    """A journal knows inputs by what JSON can say of them."""

    async def work(value: object) -> str:
        return type(value).__name__

    report = await BatchChannel(work).collect([object()])
    assert report.values == ("object",)

    with pytest.raises(RequestError, match="as JSON"):
        await BatchChannel(work, journal=tmp_path / "answers.jsonl").collect([object()])


async def test_a_result_that_json_cannot_say_is_a_failure(tmp_path: Path) -> None:
    """Nothing is told of that could not be kept."""

    async def work(value: int) -> object:
        return object() if value == 1 else value

    report = await BatchChannel(work, journal=tmp_path / "answers.jsonl").collect(range(3))

    assert [item.index for item in report.failures] == [1]
    assert "as JSON" in str(report.failures[0].error)


async def test_a_model_answers_each_input(tmp_path: Path) -> None:
    """Texts, canisters and whole conversations can be asked; options hold for all."""
    journal = tmp_path / "answers.jsonl"
    channel: BatchChannel[str] = BatchChannel("scripted:echo", journal=journal, system="Echo.")

    report = await channel.collect(["one", [UserCanister("two")], UserCanister("three")])
    await channel.close()

    assert report.values == ("one", "two", "three")
    first = report.results[0]
    assert first.response is not None
    assert [canister.role for canister in first.response.request.canisters] == [
        "supervisor",
        "user",
    ]
    assert first.origin is not None
    line = read_lines(journal)[0]
    assert (line["index"], line["id"], line["text"], line["error"]) == (0, None, "one", None)
    assert line["origin"]["model"] == "echo"


async def test_a_table_of_variables_needs_a_prompt() -> None:
    """It is an item that failed, and says why."""
    channel: BatchChannel[str] = BatchChannel("scripted:echo")

    report = await channel.collect([{"name": "Ada"}])
    await channel.close()

    assert "without a prompt" in str(report.failures[0].error)


@attrs.frozen
class City:
    """A city."""

    name: str
    people: int


def produce_scripted(folder: Path, *texts: str) -> str:
    """Returns the address of a model that gives each text to the prompt that names its number."""
    script = folder / "script.toml"
    script.write_text(
        "".join(
            f"[[responses]]\nmatch = 'n{number}\\b'\ncontents = [{{ text = {json.dumps(text)} }}]\n"
            for number, text in enumerate(texts)
        )
    )
    return f"scripted:{script}"


async def test_answers_become_values_by_a_parser(tmp_path: Path) -> None:
    """Also those that the journal has; an answer that does not fit is a failure."""
    address = produce_scripted(
        tmp_path, '{"name": "Rome", "people": 2800000}', "I do not know.", '{"name": "Bari"}'
    )
    journal = tmp_path / "answers.jsonl"
    channel = BatchChannel(address, parser=Parser(City, attempts=1), journal=journal)
    report = await channel.collect(["n0", "n1", "n2"])
    again = await channel.collect(["n0", "n1", "n2"])
    await channel.close()

    assert report.values == again.values == (City("Rome", 2_800_000),)
    assert [item.index for item in report.failures] == [1, 2]
    assert again.tally.stored == 3
    assert read_lines(journal)[0]["value"] == {"name": "Rome", "people": 2_800_000}
    with pytest.raises(RequestError, match="other settings"):
        await BatchChannel(address, journal=journal).collect(["n0"])


async def test_a_prompt_makes_questions_of_variables(tmp_path: Path) -> None:
    """Another prompt, or an input that does not go with it, is noticed."""
    journal = tmp_path / "answers.jsonl"
    inputs: list[Any] = [{"name": "Ada"}, {"name": "Grace"}, {"nom": "Alan"}, "Ada"]
    first = Prompt("Who is {{ name }}?", system="Be brief.")
    channel = BatchChannel("scripted:echo", prompt=first, journal=journal)
    report = await channel.collect(inputs)
    again = await channel.collect(inputs)

    assert report.values == again.values == ("Who is Ada?", "Who is Grace?")
    assert "nom" in str(report.failures[0].error)
    assert "not a table of variables" in str(report.failures[1].error)
    other = BatchChannel("scripted:echo", prompt=Prompt("Was {{ name }}?"), journal=journal)
    with pytest.raises(RequestError, match="another input"):
        await other.collect(inputs)
    await channel.close()


async def test_an_engine_runs_for_each_input(tmp_path: Path) -> None:
    """With its tools; a run that ends without an answer is a failure that says why."""
    script = tmp_path / "script.toml"
    script.write_text(
        "[[responses]]\ncontents = [{ invocation = { id = 'a', name = 'double',"
        " arguments = '{\"number\": 4}' } }]\nusage = { input_tokens = 5, output_tokens = 1 }\n"
        "[[responses]]\ncontents = [{ text = 'It is {input}' }]\n"
        "usage = { input_tokens = 6, output_tokens = 2 }\n"
    )
    doubled: list[int] = []

    def double(number: int) -> int:
        """Doubles a number."""
        doubled.append(number)
        return number * 2

    journal = tmp_path / "answers.jsonl"
    async with Engine(f"scripted:{script}", tools=[double]) as engine:
        report = await BatchChannel(engine, journal=journal).collect(["four", "more"])
        assert report.values == ("It is four", "It is more")
        assert doubled == [4, 4]
        assert report.usage.total_input_tokens == 22
        again = await BatchChannel(engine, journal=journal).collect(["four", "more"])
        assert again.tally.stored == 2

    short = Engine(f"scripted:{script}", tools=[double], limits=Limits(run_steps=1))
    async with short:
        cut = await BatchChannel(short).collect(["four"])
    assert "without an answer (limit)" in str(cut.failures[0].error)
    assert "Raise limits.run_steps." in str(cut.failures[0].error)
    with pytest.raises(TypeError, match="Pass system to the engine"):
        BatchChannel(short, system="Be brief.")


async def test_a_full_queue_of_a_model_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """More are asked at once than may wait for a model that answers one at a time: they wait."""
    async with Model("scripted:echo") as model:
        converser = await model.access()
        answer, asked = converser.converse, 0

        async def converse(*arguments: Any, **options: Any) -> Any:
            nonlocal asked
            asked += 1
            if asked <= 3:
                raise LimitError(limit="waiting_requests", value=64)
            if asked == 5:
                raise LimitError(limit="response_bytes", value=1)
            return await answer(*arguments, **options)

        monkeypatch.setattr(converser, "converse", converse)
        report = await BatchChannel(model, concurrency=3).collect(["a", "b", "c", "d"])

    assert len(report.results) == 3
    assert [item.error.limit for item in report.failures] == ["response_bytes"]  # type: ignore[union-attr]


async def test_cancelled_at_the_very_end_a_batch_lets_its_file_go_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that puts the lines in order is waited for before the file is closed."""
    journal = tmp_path / "answers.jsonl"
    begun, seen = threading.Event(), []
    settle = FileJournal.settle

    def settle_slowly(self: FileJournal) -> None:
        begun.set()
        time.sleep(0.05)
        settle(self)
        seen.append(journal.read_bytes())

    monkeypatch.setattr(FileJournal, "settle", settle_slowly)
    worker = Worker(pace=lambda number: 0.01 * (3 - number))
    channel = BatchChannel(worker.double, journal=journal)
    task = asyncio.ensure_future(gather(channel.run(range(3))))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert seen == [journal.read_bytes()]
    assert [line["index"] for line in read_lines(journal)] == [0, 1, 2]
    assert list(tmp_path.iterdir()) == [journal]


async def test_progress_is_heard_after_each_item() -> None:
    """With counts that go on changing."""
    heard: list[int] = []

    def listen(tally: BatchTally) -> None:
        heard.append(tally.done)

    await BatchChannel(Worker().double, progress=listen).collect(range(5))

    assert heard == [1, 2, 3, 4, 5]


def test_a_concurrency_below_one_is_refused() -> None:
    """Nothing would ever be done."""
    with pytest.raises(ValueError, match="at least 1, not 0"):
        BatchChannel(Worker().double, concurrency=0)


def test_a_function_takes_no_options_of_a_model() -> None:
    """They would be ignored."""
    with pytest.raises(TypeError, match="does not take system"):
        BatchChannel(Worker().double, system="Be brief.")


def test_synchronous_code_has_the_same() -> None:
    """In order, as they come, and collected."""
    with SyncBatchChannel[str]("scripted:echo", concurrency=2) as channel:
        texts = [item.text for item in channel.run(["a", "b", "c"], ordered=True)]
        report = channel.collect(["d"])

    assert texts == ["a", "b", "c"]
    assert report.values == ("d",)


def test_leaving_the_synchronous_loop_early_stops_the_batch() -> None:
    """What is under way behind the portal is cancelled."""
    worker = Worker(pace=lambda number: 0 if number == 0 else 60)

    with SyncBatchChannel[int](worker.double, concurrency=3) as channel:
        items = channel.run(range(9))
        assert next(iter(items)).index == 0
        items.close()  # type: ignore[attr-defined]

    assert worker.at_once == 0


@examples(25)
@given(
    count=st.integers(0, 30),
    bad=st.frozensets(st.integers(0, 29)),
    stops=st.lists(st.integers(0, 30), max_size=3),
    concurrency=st.integers(1, 6),
    ordered=st.booleans(),
)
def test_interrupted_anywhere_a_batch_ends_with_one_line_an_input(
    tmp_path_factory: pytest.TempPathFactory,
    count: int,
    bad: frozenset[int],
    stops: list[int],
    concurrency: int,
    ordered: bool,
) -> None:
    """However often it is left, nothing is lost, and nothing that was told of is done twice."""
    journal = tmp_path_factory.mktemp("batch") / "answers.jsonl"

    async def attempt(stop: int | None) -> set[int]:
        worker = Worker(bad=bad)
        told: set[int] = set()
        channel: BatchChannel[int] = BatchChannel(
            worker.double, concurrency=concurrency, journal=journal
        )
        async with aclosing(channel.run(range(count), ordered=ordered, stored=False)) as items:
            async for item in items:
                told.add(item.index)
                if len(told) == stop:
                    break
        assert not told & known
        assert not known & set(worker.given)
        return told

    known: set[int] = set()
    for stop in stops:
        known |= asyncio.run(attempt(stop))
    asyncio.run(attempt(None))

    lines = read_lines(journal)
    assert sorted(line["index"] for line in lines) == list(range(count))
    assert {line["index"] for line in lines if line["error"]} == bad & set(range(count))
    if ordered:
        assert [line["index"] for line in lines] == list(range(count))


async def test_what_is_done_at_once_is_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one write for all, and before anybody has read the first of them."""
    written: list[int] = []
    write = Disk.write

    def count(self: Disk, descriptor: int, data: bytes) -> None:
        written.append(data.count(b"\n"))
        write(self, descriptor, data)

    monkeypatch.setattr(Disk, "write", count)
    release, begun = asyncio.Event(), asyncio.Semaphore(0)

    async def work(number: int) -> int:
        begun.release()
        await release.wait()
        return number

    journal = tmp_path / "answers.jsonl"
    channel = BatchChannel(work, concurrency=40, journal=journal)
    async with aclosing(channel.run(range(40))) as items:
        first = asyncio.ensure_future(anext(items))
        for _ in range(40):
            await begun.acquire()
        release.set()
        await first
        lines = read_lines(journal)

    assert written == [40]
    assert len(lines) == 40


async def test_nobody_needs_to_read_for_lines_to_be_written(tmp_path: Path) -> None:
    """Answers are paid for: they are kept when they are there, not when they are looked at."""
    journal = tmp_path / "answers.jsonl"
    enough = asyncio.Event()

    def listen(tally: BatchTally) -> None:
        if tally.done == 16:  # the window is full
            enough.set()

    channel = BatchChannel(Worker().double, concurrency=4, journal=journal, progress=listen)
    async with aclosing(channel.run(range(50))) as items:
        await anext(items)
        await enough.wait()
        assert len(read_lines(journal)) >= 16


async def test_a_disk_that_fills_up_keeps_what_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of answers that came together, too: each of them was paid for."""
    journal = tmp_path / "answers.jsonl"
    write = Disk.write
    max_bytes = 2_000

    def fill(self: Disk, descriptor: int, data: bytes) -> None:
        room = max_bytes - os.fstat(descriptor).st_size
        write(self, descriptor, data[:room])
        if len(data) > room:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(Disk, "write", fill)
    with pytest.raises(StoreError, match="No space left"):
        await BatchChannel(Worker().double, concurrency=40, journal=journal).collect(range(40))

    kept = read_lines(journal)
    assert len(kept) >= 9
    assert max_bytes - journal.stat().st_size < 250  # no other line would fit


async def test_one_line_too_long_for_a_disk_costs_none_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever of those that came together it is."""
    journal = tmp_path / "answers.jsonl"
    write = Disk.write

    def fill(self: Disk, descriptor: int, data: bytes) -> None:
        if os.fstat(descriptor).st_size + len(data) > 20_000:
            raise OSError(28, "No space left on device")
        write(self, descriptor, data)

    async def work(number: int) -> str:
        return "x" * (30_000 if number == 3 else 1)

    monkeypatch.setattr(Disk, "write", fill)
    with pytest.raises(StoreError, match="No space left"):
        await BatchChannel(work, concurrency=10, journal=journal).collect(range(10))

    assert sorted(line["index"] for line in read_lines(journal)) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


async def test_what_may_pass_is_tried_again_here_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as it may be, as by workers; what will not pass is not."""
    monkeypatch.setattr("vibe_llms.batches.direct_backend._PAUSE_SECONDS", 0.0)
    asked: Counter[int] = Counter()

    async def ask(number: int) -> int:
        asked[number] += 1
        if asked[number] <= number:
            raise TransportError(detail="It is away.")
        if number == 0:
            raise RequestError(path="x", detail="It makes no sense.")
        return number

    batch = BatchChannel(ask, retries=2, key="one-url", priority=3)
    report = await batch.collect([0, 1, 2, 3])
    assert asked == {0: 1, 1: 2, 2: 3, 3: 3}
    assert [item.index for item in report.failures] == [0, 3]
