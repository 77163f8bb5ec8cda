"""Chunks of batches: which one comes next, who has it, and for how long."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from support.batches.batching import BASES, ask, choose_url, order, submit
from vibe_llms.agents.batches import look_at_batches
from vibe_llms.batches import handovers
from vibe_llms.batches.batches import Batches
from vibe_llms.batches.databases import (
    BatchDatabase,
    check_database,
    open_database,
)
from vibe_llms.batches.handovers import BatchHandover
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.row_chunks import (
    Taken,
    leave,
    renew,
    take_next,
)
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
    await BatchHandover(database, batch, order(**more), 1).perform(ask(*texts), lambda: None)


def take(database: BatchDatabase, seconds: float = 15.0, total: int | None = None) -> Taken:
    taken = take_next(database, seconds, total)
    assert taken is not None
    return taken


def place(taken: Taken) -> tuple[str, int]:
    return taken.batch, taken.chunk


async def test_each_chunk_is_had_by_one(database: BatchDatabase) -> None:
    """Also where several ask for one at the same moment."""
    await hand_over(database, FIRST, 12)
    takings = (asyncio.to_thread(take_next, database) for _ in range(16))
    found = [each for each in await asyncio.gather(*takings) if each is not None]
    assert sorted(each.chunk for each in found) == list(range(12))
    assert {each.epoch for each in found} == {1}


async def test_what_somebody_has_others_take_when_his_time_has_run_out(
    database: BatchDatabase,
) -> None:
    """Who says that he is there keeps it; who has lost it changes nothing."""
    await hand_over(database, FIRST, 1)
    first = take(database, -1.0)
    renew(database, first)
    assert take_next(database) is None
    renew(database, first, -1.0)
    second = take(database)
    assert (second.epoch, second.attempts) == (2, 2)
    renew(database, first, -1.0)
    leave(database, first)
    assert take_next(database) is None
    leave(database, second)
    third = take(database)
    assert (third.epoch, third.attempts) == (3, 2)


async def test_all_workers_together_have_no_more_than_their_queue_says(
    database: BatchDatabase,
) -> None:
    await hand_over(database, FIRST, 3)
    first = take(database, total=2)
    take(database, total=2)
    assert take_next(database, 15.0, 2) is None
    leave(database, first)
    assert take(database, total=2).chunk == 0


async def test_what_is_wanted_more_comes_first_and_of_others_each_in_its_turn(
    database: BatchDatabase,
) -> None:
    await hand_over(database, FIRST, 3)
    await hand_over(database, SECOND, 2)
    await hand_over(database, "c" * 32, 1, priority=1)
    found = []
    for _ in range(6):
        found.append(place(take(database)))
        await asyncio.sleep(0.002)  # the clock of SQLite knows milliseconds
    assert found[0] == ("c" * 32, 0)
    assert found[1:] == [(FIRST, 0), (SECOND, 0), (FIRST, 1), (SECOND, 1), (FIRST, 2)]
    assert take_next(database) is None


async def test_a_batch_has_ended_with_the_last_result_that_is_written(
    database: BatchDatabase,
) -> None:
    """In one transaction, so that nobody has to look whether somebody died between."""
    await hand_over(database, FIRST, 2)
    both = [RowJournal(database, take(database)) for _ in range(2)]
    for number, journal in enumerate(both):
        assert (await Batches(database).find(FIRST)).state == "open"
        await journal.put(BatchItem(index=number, text="x", value="x"), "d")
    found = await Batches(database).find(FIRST)
    assert (found.state, found.ended is None) == ("done", False)


async def test_who_has_a_chunk_keeps_it_when_the_batch_is_resumed(
    database: BatchDatabase,
) -> None:
    """What is under way there is written before anybody asks for it again."""
    await hand_over(database, FIRST, 1)
    batches, taken = Batches(database), take(database)
    await batches.stop(FIRST)
    await batches.resume(FIRST)
    assert take_next(database) is None
    leave(database, taken)
    assert take(database).attempts == 1


async def test_what_may_be_billed_twice_is_told(database: BatchDatabase) -> None:
    """As many as its worker may have had under way, or in hand, when it died or was stopped."""
    texts = [f"input {number}" for number in range(9)]
    asked = order(concurrency=2)
    await BatchHandover(database, FIRST, asked, 9).perform(ask(*texts), lambda: None)
    doubts = []

    async def take_again(seconds: float = 15.0) -> Taken:
        taken = take(database, seconds)
        doubts.append((taken.doubted, (await Batches(database).find(FIRST)).doubted))
        return taken

    leave(database, await take_again())
    await take_again(-1.0)  # and dies
    taken = await take_again()
    for number in range(7):
        await RowJournal(database, taken).put(BatchItem(index=number, text="x", value="x"), "d")
    leave(database, taken, broke_off=True)
    await take_again(-1.0)
    await take_again()
    assert doubts == [(0, 0), (0, 0), (4, 4), (0, 6), (2, 8)]


async def test_of_an_engine_its_runs_tell_what_was_asked_twice(database: BatchDatabase) -> None:
    await hand_over(database, FIRST, 1, is_engine=True)
    take(database, -1.0)
    assert take(database).doubted == 0


async def test_long_inputs_make_short_chunks(
    database: BatchDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are one row, which a database does not hold of any length."""
    monkeypatch.setattr(handovers, "_CHUNK_BYTES", 30)
    texts = ["x" * 20, "y" * 20, "z", "z" * 40, "short"]
    await submit(database, FIRST, *texts)
    await submit(database, FIRST, *texts, "more")
    found = [take(database) for _ in range(4)]
    assert [[row.number for row in each.rows] for each in found] == [[0, 1], [2, 3], [4], [5]]
    assert [row.input for each in found for row in each.rows][3] == f'"{"z" * 40}"'


def test_tables_of_an_earlier_version_are_named(tmp_path: Path) -> None:
    """And left as they are."""
    path = tmp_path / "old.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE vibe_items (batch text)")
    database = open_database(f"sqlite:///{path}")
    for _ in range(2):
        with pytest.raises(StoreError, match="of an earlier version"):
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
    with pytest.raises(StoreError, match="of an earlier version"):
        check_database(database)
    database.close()


@pytest.mark.parametrize("base", BASES)
async def test_who_only_looks_makes_nothing(tmp_path: Path, base: str) -> None:
    """And finds what is there by then."""
    url = choose_url(base, tmp_path)
    if base == "sqlite":
        with closing(sqlite3.connect(tmp_path / "runner.db")) as connection:
            connection.execute("CREATE TABLE another (x)")
    with pytest.raises(StoreError, match="nobody has asked for a batch here yet"):
        async with look_at_batches(url) as batches:
            await batches.survey()
    for _ in range(2):
        assert survey_tables(url) == (["another"] if base == "sqlite" else [])
        looking = open_database(url, makes=False)
        with pytest.raises(StoreError, match="nobody has asked"):
            check_database(looking)
    making = open_database(url)
    await hand_over(making, FIRST, 1)
    async with look_at_batches(url) as batches:
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


def write(database: BatchDatabase, name: str, *, at_once: bool = False, more: bytes = b"") -> None:
    """Writes something."""
    with database.transact(at_once=at_once) as transaction:
        transaction.change("INSERT INTO vibe_budgets VALUES (?, ?)", name, len(more))
        transaction.change(
            "INSERT INTO vibe_results VALUES (?, 0, ?, '', ?)", FIRST, int(name, 36), more
        )


async def test_what_is_done_at_once_waits_for_nobody(tmp_path: Path) -> None:
    """Neither for another thread, nor for another process; those wait as before."""
    database = open_database(choose_url("sqlite", tmp_path))
    with pytest.raises(BlockingIOError):
        write(database, "unopened", at_once=True)
    await hand_over(database, FIRST, 1)
    write(database, "a", at_once=True)
    with database.transact(), pytest.raises(BlockingIOError):
        await asyncio.to_thread(write, database, "b", at_once=True)
    with closing(sqlite3.connect(tmp_path / "runner.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BlockingIOError):
            write(database, "c", at_once=True)
        with database.transact(reading=True) as transaction:
            assert transaction.fetch("PRAGMA busy_timeout") == [(30_000,)]
        other.execute("ROLLBACK")
    write(database, "d", at_once=True)
    with database.transact(reading=True) as transaction:
        names = transaction.fetch("SELECT name FROM vibe_budgets ORDER BY name")
    assert names == [("a",), ("d",)]
    database.close()


async def test_what_is_done_at_once_leaves_the_disk_to_others(tmp_path: Path) -> None:
    """A log that is long is folded by who may wait, as is the first write after that."""
    database = open_database(choose_url("sqlite", tmp_path))
    await hand_over(database, FIRST, 1)
    log, number = tmp_path / "runner.db-wal", 0
    for _ in range(3):
        with suppress(BlockingIOError):
            while number < 100:
                number += 1
                write(database, str(number), at_once=True, more=bytes(1 << 18))
        assert log.stat().st_size < 1 << 23
        write(database, f"{number}a")  # folds it
        with pytest.raises(BlockingIOError):
            write(database, f"{number}b", at_once=True)
        write(database, f"{number}c")
    assert 30 < number < 60
    assert log.stat().st_size < 1 << 23
    database.close()


@pytest.mark.postgresql
def test_nothing_is_done_at_once_at_a_server(tmp_path: Path) -> None:
    database = open_database(choose_url("postgresql", tmp_path))
    with pytest.raises(BlockingIOError):
        write(database, "a", at_once=True)
    database.close()


async def test_a_chunk_is_taken_at_once_where_it_is_short(tmp_path: Path) -> None:
    """Who finds none, or one that is long, changes nothing."""
    database = open_database(choose_url("sqlite", tmp_path))
    await hand_over(database, FIRST, 1)
    with closing(sqlite3.connect(tmp_path / "runner.db")) as other:
        taken = take_next(database, at_once=True)
        assert taken is not None
        assert [each.input for each in taken.rows] == ['"input 0"']
        await BatchHandover(database, SECOND, order(), 1).perform(
            ask("x" * (1 << 18)), lambda: None
        )
        before = other.execute("PRAGMA data_version").fetchall()
        with pytest.raises(BlockingIOError):
            take_next(database, at_once=True)
        assert take_next(database, total=1, at_once=True) is None
        assert other.execute("PRAGMA data_version").fetchall() == before
    assert take(database).batch == SECOND
    database.close()


async def test_nobody_has_what_is_done(database: BatchDatabase) -> None:
    """Whoever has it asked again waits for no lease, nor is one renewed that is over."""
    await hand_over(database, FIRST, 1)
    taken = take(database)
    journal = RowJournal(database, taken, settings="s")
    error = RequestError(path="x", detail="no")
    await journal.put(BatchItem(index=0, error=error), "d")
    assert journal.is_done
    renew(database, taken)
    await Batches(database).resume(FIRST, retry_failed=True)
    assert take(database).attempts == 1
