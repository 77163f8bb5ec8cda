"""Chunks of batches as rows: which are due, in which order, and who took one last."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.batches.batching import BASES, FakeQueue, ask, choose_url, look, spec, submit
from vibe_llms.agents.batches import access_batches
from vibe_llms.batches import handovers
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.databases import (
    BatchDatabase,
    check_database,
    open_database,
)
from vibe_llms.batches.handovers import BatchHandover
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.queues import enqueue_missing
from vibe_llms.batches.row_chunks import TakenChunk, leave, read_due
from vibe_llms.batches.row_chunks import take as take_chunk
from vibe_llms.batches.row_journals import RowJournal
from vibe_llms.exceptions import RequestError, StoreError

FIRST, SECOND = "a" * 32, "b" * 32


@pytest.fixture(params=BASES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BatchDatabase]:
    database = open_database(choose_url(request.param, tmp_path))
    yield database
    database.close()


async def hand_over(database: BatchDatabase, batch: str, count: int, **more: Any) -> None:
    texts = [f"input {number}" for number in range(count)]
    await BatchHandover(database, FakeQueue(), batch, spec(**more), 1).perform(ask(*texts))


def take(database: BatchDatabase, batch: str = FIRST, chunk: int = 0) -> TakenChunk:
    taken = take_chunk(database, batch, chunk)
    assert taken is not None
    return taken


def list_due(database: BatchDatabase) -> list[tuple[str, int]]:
    with database.transact(reading=True) as transaction:
        return [(each.batch, each.number) for each in read_due(transaction)]


async def test_who_takes_a_chunk_last_has_it(database: BatchDatabase) -> None:
    """Who has lost it changes nothing, and a worker that left has made no attempt."""
    await hand_over(database, FIRST, 1)
    first, second = take(database), take(database)
    assert (second.epoch, second.attempts) == (2, 2)
    leave(database, first)
    leave(database, second)
    third = take(database)
    assert (third.epoch, third.attempts) == (3, 2)


async def test_of_many_that_take_a_chunk_each_has_an_epoch_of_its_own(
    database: BatchDatabase,
) -> None:
    await hand_over(database, FIRST, 1)
    found = await asyncio.gather(*(asyncio.to_thread(take, database) for _ in range(16)))
    assert sorted(each.epoch for each in found) == list(range(1, 17))


async def test_batches_take_turns_from_where_the_queue_is(database: BatchDatabase) -> None:
    """A batch that comes later does not wait for all of those before it, nor overtake them."""
    queue, third = FakeQueue(), "c" * 32
    for batch, count, priority in ((FIRST, 3, 0), (SECOND, 2, 0), (third, 1, 1)):
        asked = ask(*map(str, range(count)))
        await BatchHandover(database, queue, batch, spec(priority=priority), 1).perform(asked)
    found = sorted(queue.due, key=lambda each: (-each.priority, each.position, each.batch))
    names = [(each.batch, each.number) for each in found]
    assert names == [(third, 0), (FIRST, 0), (SECOND, 0), (FIRST, 1), (SECOND, 1), (FIRST, 2)]
    for chunk in (0, 1):
        for batch in (FIRST, SECOND):
            number = 0 if batch == third else chunk
            journal = RowJournal(database, take(database, batch, number))
            await journal.put(BatchItem(index=number, text="x", value="x"), "d")
    later = "d" * 32
    await BatchHandover(database, queue, later, spec(), 1).perform(ask("x"))
    assert queue.due[-1].position == 2


async def test_what_is_due_and_in_no_queue_is_enqueued(database: BatchDatabase) -> None:
    """As where a process died between writing a chunk and enqueuing it; once, and not when done."""
    await hand_over(database, FIRST, 2)
    await hand_over(database, SECOND, 1)
    await look(database).stop(SECOND)
    queue = FakeQueue()
    for _ in range(2):
        enqueue_missing(database, queue)
    assert [(each.batch, each.number) for each in queue.due] == [(FIRST, 0), (FIRST, 1)]
    journal = RowJournal(database, take(database))
    await journal.put(BatchItem(index=0, text="x", value="x"), "d")
    assert list_due(database) == [(FIRST, 1)]


async def test_a_stopped_batch_is_not_taken(database: BatchDatabase) -> None:
    await hand_over(database, FIRST, 1)
    await look(database).stop(FIRST)
    assert take_chunk(database, FIRST, 0) is None
    queue = FakeQueue()
    await Batches(database, queue).resume(FIRST)
    assert [each.number for each in queue.due] == [0]
    assert take(database).attempts == 1


async def test_inputs_that_were_handed_over_before_are_enqueued_again(
    database: BatchDatabase,
) -> None:
    """Their process may have died before it came to that."""
    await hand_over(database, FIRST, 2)
    queue = FakeQueue()
    asked = ask("input 0", "input 1")
    await BatchHandover(database, queue, FIRST, spec(), 1).perform(asked)
    assert [each.number for each in queue.due] == [0, 1]


async def test_a_batch_has_ended_with_the_last_result_that_is_written(
    database: BatchDatabase,
) -> None:
    """In one transaction, so that nobody has to look whether somebody died between."""
    await hand_over(database, FIRST, 2)
    both = [RowJournal(database, take(database, chunk=number)) for number in range(2)]
    for number, journal in enumerate(both):
        assert (await look(database).find(FIRST)).state == "open"
        await journal.put(BatchItem(index=number, text="x", value="x"), "d")
    found = await look(database).find(FIRST)
    assert (found.state, found.ended is None) == ("done", False)


async def test_what_may_be_billed_twice_is_told(database: BatchDatabase) -> None:
    """As many as its worker may have had under way, or in hand, when it died or was stopped."""
    texts = [f"input {number}" for number in range(9)]
    asked = spec(concurrency=2)
    await BatchHandover(database, FakeQueue(), FIRST, asked, 9).perform(ask(*texts))
    doubts = []

    async def take_again() -> TakenChunk:
        taken = take(database)
        doubts.append((taken.doubted, (await look(database).find(FIRST)).doubted))
        return taken

    leave(database, await take_again())
    await take_again()  # and dies
    taken = await take_again()
    for number in range(7):
        await RowJournal(database, taken).put(BatchItem(index=number, text="x", value="x"), "d")
    leave(database, taken, broke_off=True)
    await take_again()
    await take_again()
    assert doubts == [(0, 0), (0, 0), (6, 6), (0, 8), (2, 10)]


async def test_of_an_engine_its_runs_tell_what_was_asked_twice(database: BatchDatabase) -> None:
    await hand_over(database, FIRST, 1, is_engine=True)
    take(database)
    assert take(database).doubted == 0


async def test_long_inputs_make_short_chunks(
    database: BatchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are one row, which a database does not hold of any length."""
    monkeypatch.setattr(handovers, "_CHUNK_BYTES", 30)
    texts = ["x" * 20, "y" * 20, "z", "z" * 40, "short"]
    await submit(database, FIRST, *texts)
    await submit(database, FIRST, *texts, "more")
    found = [take(database, chunk=number) for number in range(4)]
    assert [[row.number for row in each.rows] for each in found] == [[0, 1], [2, 3], [4], [5]]
    assert [row.input for each in found for row in each.rows][3] == f'"{"z" * 40}"'


def test_tables_of_an_earlier_version_are_named(tmp_path: Path) -> None:
    """And left as they are."""
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE vibe_items (batch text)")
    database = open_database(f"sqlite:///{path}")
    for _ in range(2):
        with pytest.raises(StoreError, match="by an earlier version"):
            check_database(database)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("vibe_items",)]
    connection.close()


@pytest.mark.postgresql
def test_tables_of_an_earlier_version_are_named_in_postgresql(tmp_path: Path) -> None:
    url = choose_url("postgresql", tmp_path)
    database = open_database(url)
    with database.transact() as transaction:
        transaction.change("CREATE TABLE vibe_items (batch text)")
    database.close()
    database = open_database(url)
    with pytest.raises(StoreError, match="by an earlier version"):
        check_database(database)
    database.close()


@pytest.mark.parametrize("base", BASES)
async def test_who_only_looks_makes_nothing(tmp_path: Path, base: str) -> None:
    """And finds what is there by then."""
    url = choose_url(base, tmp_path)
    if base == "sqlite":
        with closing(sqlite3.connect(tmp_path / "runner.db")) as connection:
            connection.execute("CREATE TABLE another (x)")
    with pytest.raises(StoreError, match="no batch has been submitted here"):
        async with access_batches(url) as batches:
            await batches.survey()
    for _ in range(2):
        assert survey_tables(url) == (["another"] if base == "sqlite" else [])
        looking = open_database(url, creates=False)
        with pytest.raises(StoreError, match="no batch has been submitted"):
            check_database(looking)
    making = open_database(url)
    await hand_over(making, FIRST, 1)
    async with access_batches(url) as batches:
        assert [each.id for each in await batches.survey()] == [FIRST]
    for each in (looking, making):
        check_database(each)
        each.close()


def survey_tables(url: str) -> list[str]:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            rows = connection.execute("SELECT name FROM sqlite_master").fetchall()
    else:
        import psycopg

        with psycopg.connect(url) as server:
            query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
            rows = server.execute(query).fetchall()
    return [name for (name,) in rows]


async def test_nobody_has_what_is_done(database: BatchDatabase) -> None:
    """Asked for again, it is taken without a doubt."""
    await hand_over(database, FIRST, 1)
    taken = take(database)
    journal = RowJournal(database, taken, settings="s")
    error = RequestError(path="x", detail="no")
    await journal.put(BatchItem(index=0, error=error), "d")
    assert journal.is_done
    await look(database).resume(FIRST, retry_failed=True)
    again = take(database)
    assert (again.attempts, again.doubted) == (1, 0)
