"""The rows of a batch are read and written whole, however many go together."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

from support.batches.batching import ask, choose_url, look, submit
from vibe_llms.batches.databases import open_database
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.row_chunks import InputRow, take
from vibe_llms.batches.row_journals import RowJournal, _Result

BATCH = "b" * 32


async def test_what_is_there_by_hundreds_is_not_looked_through_by_the_collector() -> None:
    """Else it looks through all that lives, again and again, which took a fifth of the time."""
    rows = [
        InputRow(0, None, "d", '"x"', 0),
        _Result(0, b"x", False, 1, 1, 1, 0, 0),
        *[each async for each in ask("one")],
    ]
    assert not any(map(gc.is_tracked, rows))


async def test_results_of_a_batch_that_was_deleted_are_let_go(tmp_path: Path) -> None:
    """Nothing more is begun, and nobody waits for a database that would never take them."""
    database = open_database(choose_url("sqlite", tmp_path))
    await submit(database, BATCH, "one")
    taken = take(database, BATCH, 0)
    assert taken is not None
    journal = RowJournal(database, taken)
    await look(database).delete(BATCH)
    async with asyncio.timeout(60):
        item: BatchItem[Any] = BatchItem(index=0, text="late", value="late")
        await journal.put(item, "d")
    assert journal.stop_reason == "The batch was deleted."
    database.close()
