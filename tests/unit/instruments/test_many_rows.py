"""The rows of a batch are read and written whole, however many go together."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from batching import BASES, ask, choose_url, submit
from vibe_llms.agents.batches.batches import Batches
from vibe_llms.agents.batches.following import _Placed
from vibe_llms.instruments.channels.batches.databases import SqliteBatches, open_database
from vibe_llms.instruments.channels.batches.items import BatchItem
from vibe_llms.instruments.channels.batches.lines import encode_item
from vibe_llms.instruments.channels.batches.row_chunks import InputRow, take_up
from vibe_llms.instruments.channels.batches.row_journals import _WRITE, RowJournal, _Result

BATCH = "b" * 32


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("count", [1, 2, 63, 300, 515])
async def test_many_rows_are_written_whole_however_many_there_are(
    tmp_path: Path, base: str, count: int
) -> None:
    """By as few statements as there are; each row once, with its own values."""
    database = open_database(choose_url(base, tmp_path))
    await submit(database, BATCH, *(f"ä {number}" for number in range(count)), chunk=600)
    taken = take_up(database, BATCH, 0)
    assert taken is not None
    assert [row.input for row in taken.rows] == [f'"\\u00e4 {n}"' for n in range(count)]
    columns = {"number": "bigint", "place": "bigint", "failed": "integer", "outcome": "text"}
    numbers = range(count - 1, -1, -1)
    given = (numbers, range(1, count + 1), [0] * count, [f"ö{number}" for number in numbers])
    with database.transact() as transaction:
        assert transaction.change_all(_WRITE, columns, given, BATCH) == count
        assert transaction.change_all(_WRITE, columns, given, BATCH) == 0
        placed = transaction.fetch_all(
            _Placed, "SELECT number, chunk, place, outcome FROM vibe_items ORDER BY number"
        )
    database.close()
    assert [(each.number, each.chunk, each.place, each.outcome) for each in placed] == [
        (number, 0, count - number, f"ö{number}") for number in range(count)
    ]


async def test_a_chunk_of_more_than_a_text_of_sqlite_holds_is_taken(tmp_path: Path) -> None:
    """Row by row, where all of it together is too large."""
    database = SqliteBatches(tmp_path / "b.db")
    inputs = [f"{number}" * 1_000 for number in range(8)]
    await submit(database, BATCH, *inputs, chunk=8)
    with database.transact():
        assert database._connection is not None
        database._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 5_000)
    taken = take_up(database, BATCH, 0)
    database.close()
    assert taken is not None
    assert [row.input for row in taken.rows] == [f'"{each}"' for each in inputs]


async def test_what_is_there_by_hundreds_is_not_looked_through_by_the_collector(
    tmp_path: Path,
) -> None:
    """Else it looks through all that lives, again and again, which took a fifth of the time."""
    rows = [
        InputRow(0, None, "d", '"x"', 0),
        _Placed(0, 0, 1, "x"),
        _Result(0, "x", False, 1, 1, 1, 0, 0),
        *[each async for each in ask("one")],
    ]
    assert not any(map(gc.is_tracked, rows))


async def test_results_of_a_batch_that_was_deleted_are_let_go(tmp_path: Path) -> None:
    """Nothing more is begun, and nobody waits for a database that would never take them."""
    database = open_database(choose_url("sqlite", tmp_path))
    await submit(database, BATCH, "one")
    journal = RowJournal(database, BATCH, 0, 1)
    await Batches(database).delete(BATCH)
    async with asyncio.timeout(20):
        item: BatchItem[Any] = BatchItem(index=0, text="late", value="late")
        await journal.append(item, encode_item(item), "d")
    assert journal.must_stop == "The batch was deleted."
    database.close()
