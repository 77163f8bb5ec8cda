"""Rows of a batch: who has a chunk, whose result counts, and what a batch may spend."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from support.batches.batching import BASES, FakeQueue, ask, choose_url, look, spec, submit
from vibe_llms.batches import budgets, row_journals
from vibe_llms.batches.batch_followers import BatchFollower
from vibe_llms.batches.batch_specs import StoredInput
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.budgets import BatchBudget, RowLedger
from vibe_llms.batches.databases import BatchDatabase, open_database
from vibe_llms.batches.handovers import BatchHandover
from vibe_llms.batches.item_lines import decode_item
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.row_chunks import leave, take
from vibe_llms.batches.row_journals import RowJournal
from vibe_llms.exceptions import ProviderError, ProviderFault, RequestError, StoreError
from vibe_llms.foundation.coalescing import Coalescer
from vibe_llms.instruments.estimates import count_money, read_money
from vibe_llms.messages.canisters import Origin, Usage

BATCH = "b" * 32


@pytest.fixture(params=BASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BatchDatabase]:
    database = open_database(choose_url(request.param, tmp_path))
    yield database
    database.close()


def produce_journal(database: BatchDatabase, chunk: int = 0) -> RowJournal:
    taken = take(database, BATCH, chunk)
    assert taken is not None
    return RowJournal(database, taken, settings="s")


def produce_budget(database: BatchDatabase) -> BatchBudget:
    return BatchBudget(RowLedger(database, BATCH), cast("Any", None))


def find_ledger(budget: BatchBudget) -> RowLedger:
    return cast("RowLedger", budget._ledger)


async def keep_failure(database: BatchDatabase, chunk: int = 0, index: int = 0) -> None:
    error = ProviderError(detail="no", fault=ProviderFault.SERVER)
    journal = await asyncio.to_thread(produce_journal, database, chunk)
    await journal.put(BatchItem(index=index, error=error), "d")


async def keep(journal: RowJournal, index: int, text: str = "fine") -> None:
    item: BatchItem[Any] = BatchItem(index=index, text=text, value=text)
    await asyncio.shield(journal.put(item, "d"))


async def read(database: BatchDatabase, *, ordered: bool = False) -> list[tuple[int, str | None]]:
    follower = BatchFollower(database, BATCH, waits=False)
    items = [decode_item(line) async for line, _ in follower.follow(ordered=ordered)]
    return [(item.index, item.text) for item in items]


async def test_the_first_result_counts_whoever_writes_it(database: BatchDatabase) -> None:
    """A worker that was paused gives what it has, begins nothing more, and counts nothing twice."""
    await submit(database, BATCH, "one", "two", "three")
    paused = produce_journal(database)
    other = produce_journal(database)
    await keep(other, 0, "of the other")
    await asyncio.gather(keep(paused, 0, "late"), keep(paused, 1, "paid for"))
    assert paused.stop_reason == "Another worker has taken the chunk."
    await asyncio.gather(keep(other, 1, "late, too"), keep(other, 2))
    assert not other.stop_reason

    assert await read(database) == [(0, "of the other"), (1, "paid for"), (2, "fine")]
    found = await look(database).find(BATCH)
    assert (found.done, found.failed) == (3, 0)


async def test_many_at_once_are_each_there_once(database: BatchDatabase) -> None:
    """As sixty-four who are asked at once write; the first of them may be cancelled."""
    texts = [f"input {number}" for number in range(64)]
    await submit(database, BATCH, *texts, chunk=64)
    journal = produce_journal(database)
    keeping = [asyncio.create_task(keep(journal, index)) for index in range(64)]
    await asyncio.sleep(0)
    keeping[5].cancel()
    await asyncio.gather(*keeping, return_exceptions=True)
    await journal.finish()
    assert sorted(await read(database)) == [(index, "fine") for index in range(64)]
    found = await look(database).find(BATCH)
    assert (found.state, found.done) == ("done", 64)


async def test_a_chunk_counts_who_has_died_over_it(database: BatchDatabase) -> None:
    """And not who has left by itself, nor what is done."""
    await submit(database, BATCH, "one", "two", "three", chunk=2)
    first = take(database, BATCH, 0)
    assert first is not None
    assert (first.attempts, [row.input for row in first.rows]) == (1, ['"one"', '"two"'])
    second = take(database, BATCH, 0)
    assert second is not None
    assert second.attempts == 2
    await asyncio.to_thread(leave, database, first)  # it has lost it already
    await asyncio.to_thread(leave, database, second)
    journal = produce_journal(database)
    await keep(journal, 1)
    third = take(database, BATCH, 0)
    assert third is not None
    assert (third.attempts, [row.number for row in third.rows]) == (3, [0])
    await keep(journal, 0)
    assert take(database, BATCH, 0) is None
    assert take(database, BATCH, 7) is None
    await look(database).stop(BATCH)
    assert take(database, BATCH, 1) is None


async def test_a_commit_whose_answer_was_lost_counts_once(
    database: BatchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written again is there already."""
    monkeypatch.setattr("vibe_llms.batches.row_journals._PAUSE_SECONDS", 0)
    await submit(database, BATCH, "one", "two")
    journal = produce_journal(database)
    plain, failures = journal._insert, [StoreError(detail="lost"), StoreError(detail="away")]

    def lose(*given: Any, **more: Any) -> None:
        if len(failures) == 2:
            plain(*given, **more)
        if failures:
            raise failures.pop()
        plain(*given, **more)

    monkeypatch.setattr(journal, "_insert", lose)
    await asyncio.gather(keep(journal, 0), keep(journal, 1))
    assert not failures
    found = await look(database).find(BATCH)
    assert (found.done, len(await read(database))) == (2, 2)


async def test_who_leaves_waits_for_no_database(database: BatchDatabase) -> None:
    await submit(database, BATCH, "one")
    taken = take(database, BATCH, 0)
    assert taken is not None
    journal = RowJournal(database, taken, is_leaving=lambda: True)

    def fail(*given: Any, **more: Any) -> None:
        raise StoreError(detail="away")

    journal._insert = fail  # type: ignore[method-assign]
    with pytest.raises(StoreError, match="away"):
        await keep(journal, 0)


async def test_a_database_that_stays_away_is_not_waited_for_for_ever(
    database: BatchDatabase, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said how much waits, and at the end what that has cost."""
    monkeypatch.setattr(row_journals, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(row_journals, "_PATIENCE_SECONDS", 0.01)
    await submit(database, BATCH, "one", "two")
    journal = produce_journal(database)

    def fail(*given: Any, **more: Any) -> None:
        raise StoreError(detail="away")

    monkeypatch.setattr(journal, "_insert", fail)
    keeping = [keep(journal, index) for index in range(2)]
    async with asyncio.timeout(60):
        found = await asyncio.gather(*keeping, return_exceptions=True)
    assert [str(each) for each in found] == ["away"] * 2
    waits, lost = (each for each in caplog.messages if BATCH in each)
    assert "2 results of batch" in waits
    assert "2 billed results" in lost
    assert "are lost" in lost


async def test_long_results_are_rows_of_their_own(
    database: BatchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No database holds a row of any length."""
    monkeypatch.setattr(row_journals, "_GROUP_BYTES", 300)
    await submit(database, BATCH, "one", "two", "three", "four")
    journal = produce_journal(database)
    texts = ["short", "x" * 400, "short", "short"]
    await asyncio.gather(*(keep(journal, index, text) for index, text in enumerate(texts)))
    assert await read(database) == list(enumerate(texts))
    with database.transact(reading=True) as transaction:
        sizes = transaction.fetch("SELECT length(lines) FROM vibe_results ORDER BY place")
    assert len(sizes) == 3
    assert sizes[1][0] > 400


async def test_inputs_are_compared_and_others_come_behind_them(database: BatchDatabase) -> None:
    """By name and by what they say, however they were cut into chunks."""
    await submit(database, BATCH, "one", "a:two", "three", chunk=2)
    await submit(database, BATCH, "one", "a:two", "three", "four", "five", chunk=2)
    found = await look(database).find(BATCH)
    assert (found.total, found.known, found.state) == (5, 5, "open")
    for texts in (["one", "b:two"], ["one", "a:other"]):
        with pytest.raises(RequestError, match="for another input"):
            await submit(database, BATCH, *texts, chunk=2)
    with pytest.raises(RequestError, match="has 5 inputs, but 2 were given"):
        await submit(database, BATCH, "one", "a:two", chunk=2)


async def test_two_may_hand_the_same_batch_over_at_once(database: BatchDatabase) -> None:
    texts = [f"input {number}" for number in range(40)]
    queue = FakeQueue()
    both = [BatchHandover(database, queue, BATCH, spec(), 4) for _ in range(2)]
    await asyncio.gather(*(each.perform(ask(*texts)) for each in both))
    found = await look(database).find(BATCH)
    assert (found.total, found.known) == (40, 40)
    assert [each.number for each in queue.due] == list(range(10))


async def test_what_comes_is_followed_as_it_comes_or_in_order(database: BatchDatabase) -> None:
    """Each once, also over chunks; what was there before is told apart."""
    await submit(database, BATCH, *map(str, range(6)), chunk=3)
    first, second = produce_journal(database, 0), produce_journal(database, 1)
    for journal, index in ((second, 4), (first, 2), (first, 0)):
        await keep(journal, index)
    assert [index for index, _ in await read(database)] == [2, 0, 4]
    assert [index for index, _ in await read(database, ordered=True)] == [0, 2, 4]

    for ordered, wanted in ((False, [2, 0, 4, 1, 5, 3]), (True, [0, 1, 2, 3, 4, 5])):
        follower = BatchFollower(database, BATCH, waits=True)
        seen: list[tuple[int, bool]] = []
        async for line, is_stored in follower.follow(ordered=ordered):
            seen.append((decode_item(line).index, is_stored))
            if len(seen) == (1 if ordered else 3) and not ordered:
                for journal, index in ((first, 1), (second, 5), (second, 3)):
                    await keep(journal, index)
                with database.transact() as transaction:
                    transaction.change("UPDATE vibe_batches SET state = 'done'")
        assert [index for index, _ in seen] == wanted
        stored = {index for index, is_stored in seen if is_stored}
        assert stored == ({0, 2, 4} if not ordered else set(range(6)))


@pytest.mark.parametrize("ordered", [False, True])
async def test_who_follows_misses_nothing_where_the_database_goes_away_amid_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ordered: bool
) -> None:
    """What was read until then was told to nobody, and is read again."""
    database = open_database(choose_url("sqlite", tmp_path))
    await submit(database, BATCH, *"abcdef", chunk=2)
    for chunk in range(3):
        journal = await asyncio.to_thread(produce_journal, database, chunk)
        for index in (2 * chunk, 2 * chunk + 1):
            await keep(journal, index)
    plain, reads = type(database).transact, 0

    @contextmanager
    def transact(self: BatchDatabase, **how: Any) -> Iterator[Any]:
        with plain(self, **how) as transaction:

            def fetch(statement: str, *values: Any) -> Any:
                nonlocal reads
                if statement.startswith("SELECT place, lines"):
                    reads += 1
                    if reads == 3:
                        raise StoreError(detail="away")
                return transaction.fetch(statement, *values)

            yield Mock(fetch=fetch)

    monkeypatch.setattr(type(database), "transact", transact)
    follower = BatchFollower(database, BATCH, waits=True, before={})
    async with asyncio.timeout(60):
        found = [decode_item(each.line).index async for each in follower.follow(ordered=ordered)]
    assert found == [*range(6)]
    assert reads > 3
    database.close()


async def test_a_stopped_batch_is_followed_over_its_gaps(database: BatchDatabase) -> None:
    """What lies behind an input that nobody will ask was paid for, too."""
    await submit(database, BATCH, *map(str, range(5)), chunk=3)
    for chunk, index in ((0, 1), (1, 4)):
        await keep(produce_journal(database, chunk), index)
    await look(database).stop(BATCH)
    follower = BatchFollower(database, BATCH, waits=True)
    found = [decode_item(line).index async for line, _ in follower.follow(ordered=True)]
    assert found == [1, 4]


async def test_the_cap_is_never_passed_by_what_is_on_its_way(database: BatchDatabase) -> None:
    """Whatever is put down and corrected, by two processes, in any order."""
    await submit(database, BATCH, "one")
    cap = count_money(Decimal("0.001"))
    await look(database).resume(BATCH, cap=read_money(cap))
    dice = random.Random(1)
    spent, under_way, most = 0, 0, 0
    journal = produce_journal(database)

    async def work(budget: BatchBudget) -> None:
        nonlocal spent, under_way, most
        for _ in range(40):
            amount = dice.randint(1, cap // 20)
            if not await budget.acquire(amount):
                return
            under_way += amount
            most = max(most, spent + under_way)
            await asyncio.sleep(0)
            cost = dice.randint(0, amount)
            # Others may acquire the rest as soon as it is corrected, before this task continues.
            under_way, spent = under_way - amount, spent + cost
            await budget.correct(cost - amount)
            budget.settle()

    sharing = produce_budget(database), produce_budget(database)
    await asyncio.gather(*(work(budget) for budget in sharing for _ in range(4)))
    assert cap // 2 < most <= cap
    with database.transact(reading=True) as transaction:
        assert transaction.fetch("SELECT committed FROM vibe_batches") == [(spent,)]
    await keep(journal, 0)


async def test_what_settles_while_a_cap_refuses_is_looked_at(database: BatchDatabase) -> None:
    """The last thing under way ends between a refusal and its arrival: there is room, then."""
    await submit(database, BATCH, "one")
    await look(database).resume(BATCH, cap=read_money(100))
    budget, loop = produce_budget(database), asyncio.get_running_loop()
    assert await budget.acquire(60)
    ledger = find_ledger(budget)
    grant = ledger._change

    def settle_behind(amounts: Sequence[int]) -> list[bool]:
        granted = grant(amounts)
        if granted == [False]:
            grant([-50])
            loop.call_soon_threadsafe(budget.settle)  # before the refusal arrives
        return granted

    ledger._coalescer = Coalescer(settle_behind)
    assert await budget.acquire(60)


async def test_who_leaves_before_an_amount_is_granted_takes_none(
    database: BatchDatabase,
) -> None:
    """Nothing is sent for it: others may have it."""
    await submit(database, BATCH, "one")
    await look(database).resume(BATCH, cap=read_money(100))
    budget, begun, go_on = produce_budget(database), threading.Event(), threading.Event()
    ledger = find_ledger(budget)
    grant = ledger._change

    def wait(amounts: Sequence[int]) -> list[bool]:
        begun.set()
        go_on.wait()
        return grant(amounts)

    ledger._coalescer = Coalescer(wait)
    leaving = asyncio.create_task(budget.acquire(60))
    await asyncio.to_thread(begun.wait)
    leaving.cancel()
    await asyncio.wait([leaving])
    go_on.set()
    await ledger._coalescer.close()
    assert await budget.acquire(60)


async def test_a_list_goes_on_behind_an_order_of_a_later_version(database: BatchDatabase) -> None:
    await submit(database, BATCH, "one")
    await submit(database, "c" * 32, "one")
    with database.transact() as transaction:
        transaction.change("UPDATE vibe_batches SET about = '{\"v\": 2}' WHERE id = ?", BATCH)
    found = {each.id: each.model for each in await look(database).survey()}
    assert found == {BATCH: "", "c" * 32: spec().model}


async def test_counts_beyond_all_measure_are_bounded(database: BatchDatabase) -> None:
    """A column that they do not fit into would refuse the result again and again."""
    await submit(database, BATCH, "one", "two")
    journal = produce_journal(database)
    for index in range(2):
        await keep_paid(journal, index, input_tokens=1 << 63, output_tokens=1 << 63)
    found = await look(database).find(BATCH)
    assert (found.done, found.input_tokens) == (2, 2 << 36)


def test_a_price_is_looked_up_again_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker lives for long, and prices change by the day."""
    now, asked = [0.0], 0

    def price(*arguments: Any, **more: Any) -> None:
        nonlocal asked
        asked += 1

    monkeypatch.setattr("vibe_llms.batches.budgets.time.time", lambda: now[0])
    monkeypatch.setattr(budgets, "price_usage", price)
    origin = Origin(provider="openai_conversations", model="m", usage=Usage(input_tokens=1))
    for hour in (0, 0, 1, 1):
        now[0] = 3600.0 * hour + 7e9
        budgets.account_item(BatchItem(index=0, origin=origin))
    assert asked == 2


async def test_who_breaks_off_takes_nothing_that_another_has_handed_over(
    database: BatchDatabase,
) -> None:
    """He began it; the other one, under the same key, was told that all of it is there."""

    async def break_off() -> AsyncIterator[StoredInput]:
        await submit(database, BATCH, "one", "two")
        raise asyncio.CancelledError
        yield

    with pytest.raises(asyncio.CancelledError):
        await BatchHandover(database, FakeQueue(), BATCH, spec(), 2).perform(break_off())

    (found,) = await look(database).survey()
    assert (found.state, found.total) == ("open", 2)


async def test_who_is_interrupted_while_handing_over_leaves_nothing_half_there(
    database: BatchDatabase,
) -> None:
    async def stall() -> AsyncIterator[StoredInput]:
        async for each in ask("one", "two"):
            yield each
        waiting.set()
        await asyncio.Event().wait()

    waiting = asyncio.Event()
    submission = BatchHandover(database, FakeQueue(), BATCH, spec(), 1)
    work = asyncio.create_task(submission.perform(stall()))
    await waiting.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not await look(database).survey()


async def test_a_cap_that_comes_later_holds_for_what_was_spent_before(
    database: BatchDatabase,
) -> None:
    """Also for what was under way then, for which nothing was put down."""
    await submit(database, BATCH, "one", "two", "three")
    journal = produce_journal(database)
    await keep_paid(journal, 0)
    found = await look(database).find(BATCH)
    assert found.cost > 0
    await look(database).resume(BATCH, cap=3 * found.cost)
    await keep_paid(journal, 1)
    budget, each = produce_budget(database), count_money(found.cost)
    assert not await budget.acquire(each + 1)
    assert await budget.acquire(each)


@pytest.mark.parametrize("counts", [{}, {"output_tokens": None}])
async def test_what_was_put_down_stays_where_nobody_knows_the_cost(
    database: BatchDatabase, counts: dict[str, Any]
) -> None:
    """An answer of a model without a price, or without an account of its tokens."""
    await submit(database, BATCH, "one")
    await look(database).resume(BATCH, cap=read_money(10**9))
    journal, budget = produce_journal(database), produce_budget(database)
    assert await budget.acquire(10**9)
    model = "gpt-4o-mini" if counts else "nobody-knows-it"
    await keep_paid(journal, 0, model, **counts)
    budget.settle()
    assert not await budget.acquire(1)
    assert (await look(database).find(BATCH)).unpriced == 1


async def keep_paid(
    journal: RowJournal, index: int, model: str = "gpt-4o-mini", **counts: Any
) -> None:
    usage = Usage(**{"input_tokens": 10, "output_tokens": 5, **counts})
    origin = Origin(provider="openai_conversations", model=model, usage=usage)
    item: BatchItem[Any] = BatchItem(index=index, text="x", value="x", origin=origin)
    await journal.put(item, "d")


async def test_what_came_too_late_counts_in_what_was_paid(database: BatchDatabase) -> None:
    """It is no result, and was billed, also where it says the very same."""
    await submit(database, BATCH, "one", "two")
    paused, other = produce_journal(database), produce_journal(database)
    await keep_paid(other, 0)
    await keep_paid(paused, 0)
    await keep_paid(paused, 0, input_tokens=20)

    found = await look(database).find(BATCH)
    assert (found.done, found.input_tokens, found.output_tokens) == (1, 40, 15)
    assert found.cost == Decimal("0.0000150")
    assert len(await read(database)) == 1


async def test_settings_that_would_not_be_heeded_are_refused(database: BatchDatabase) -> None:
    """The batch has its own; it is said which one is another. A cap may be."""
    await submit(database, BATCH, "one")

    for name, value in (("concurrency", 7), ("retries", 2), ("priority", 1)):
        again = BatchHandover(database, FakeQueue(), BATCH, spec(**{name: value}))
        with pytest.raises(RequestError, match=f"has {name} .*, not {value}"):
            await again.perform(ask("one", "two"))

    assert (await look(database).find(BATCH)).total == 1
    await BatchHandover(database, FakeQueue(), BATCH, spec(cap_usd="1")).perform(ask("one"))


@pytest.mark.postgresql
def test_chunks_are_all_locked_before_failures_are_asked_again(tmp_path: Path) -> None:
    """Else one that failed meanwhile would be forgotten by its chunk, and never be done."""
    database = open_database(choose_url("postgresql", tmp_path))
    asyncio.run(submit(database, BATCH, "one", "two", chunk=1))
    asyncio.run(keep_failure(database))
    refused: list[str] = []

    def look() -> None:
        try:
            with database.transact() as transaction:
                transaction.fetch("SELECT number FROM vibe_chunks FOR UPDATE NOWAIT")
        except StoreError as error:
            refused.append(str(error))

    class Watched:
        """Has others try the chunks before rows are changed."""

        @contextmanager
        def transact(self) -> Iterator[Any]:
            with database.transact() as transaction:
                yield Mock(wraps=transaction, change=partial(self.change, transaction))

        def change(self, transaction: Any, statement: str, *values: Any) -> int:
            if statement.startswith("UPDATE vibe_results"):
                thread = threading.Thread(target=look)
                thread.start()
                thread.join()
            return int(transaction.change(statement, *values))

    Batches(Watched(), FakeQueue())._resume(BATCH, True, None)  # type: ignore[arg-type]
    assert len(refused) == 1
    database.close()


def test_a_transaction_of_sqlite_that_failed_is_over(tmp_path: Path) -> None:
    """Whether its commit failed, or a full disk has ended it already, which is told as it is."""
    database = open_database(choose_url("sqlite", tmp_path))

    def fail(*statements: str) -> None:
        with database.transact() as transaction:
            for statement in statements:
                transaction.fetch(statement)

    inputs = "INSERT INTO vibe_inputs VALUES ('x', 0, '')"
    with pytest.raises(StoreError, match="FOREIGN KEY"):
        fail("PRAGMA defer_foreign_keys = ON", inputs)
    with pytest.raises(StoreError, match="full"):
        fail(
            "PRAGMA max_page_count = 1",
            "INSERT INTO vibe_budgets VALUES (hex(zeroblob(1000000)), 0)",
        )
    with database.transact(reading=True) as transaction:
        assert transaction.fetch("SELECT * FROM vibe_inputs") == []
        assert transaction.fetch("SELECT * FROM vibe_budgets") == []
    database.close()


@pytest.mark.parametrize("is_taken", [False, True])
async def test_what_could_not_be_handed_over_whole_keeps_what_was_paid_for(
    database: BatchDatabase, is_taken: bool
) -> None:
    """It is gone where nobody had taken anything of it, and else stopped."""

    async def break_off() -> AsyncIterator[StoredInput]:
        async for each in ask("one", "two"):
            yield each
        if is_taken:
            await keep(await asyncio.to_thread(produce_journal, database), 0)
        raise RequestError(path="inputs", detail="bad line")

    with pytest.raises(RequestError, match="bad line"):
        await BatchHandover(database, FakeQueue(), BATCH, spec(), 2).perform(break_off())
    found = await look(database).survey()
    assert [(each.state, each.done) for each in found] == ([("stopped", 1)] if is_taken else [])


def test_a_file_in_no_folder_makes_none(tmp_path: Path) -> None:
    """A name that was mistyped is said to be one."""
    database = open_database(f"sqlite:///{tmp_path}/nowhere/x.db")
    with (
        pytest.raises(StoreError, match=r"folder .* does not exist"),
        database.transact(),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_money_is_exact_and_never_less_than_it_is() -> None:
    assert count_money(Decimal("0.15") / 1_000_000) == 150
    assert count_money(Decimal("0.0000000001")) == 1
    assert read_money(count_money(Decimal("12.345"))) == Decimal("12.345")
