"""What every journal of a batch promises: lines of a file, rows of SQLite and of PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from batching import choose_url, submit
from vibe_llms.exceptions import ProviderError, ProviderFault, RequestError
from vibe_llms.instruments.channels.batches.databases import BatchDatabase, open_database
from vibe_llms.instruments.channels.batches.items import BatchItem
from vibe_llms.instruments.channels.batches.journals import ItemJournal
from vibe_llms.instruments.channels.batches.line_journals import LineJournal
from vibe_llms.instruments.channels.batches.lines import decode_item, digest, encode_item
from vibe_llms.instruments.channels.batches.row_chunks import take_up
from vibe_llms.instruments.channels.batches.row_journals import RowJournal

BATCH = digest("a batch")
TEXTS = [f"input {number}" for number in range(40)]


class Keeping(Protocol):
    """Somewhere a journal is kept, to be opened again and again."""

    async def open(self) -> ItemJournal: ...


class Lines:
    def __init__(self, folder: Path) -> None:
        self._path = folder / "answers.jsonl"

    async def open(self) -> ItemJournal:
        return LineJournal(self._path, BATCH)


class Rows:
    def __init__(self, database: BatchDatabase) -> None:
        self._database = database

    async def open(self) -> ItemJournal:
        texts = [f"b:{text}" if place == 1 else text for place, text in enumerate(TEXTS)]
        await submit(self._database, BATCH, *texts, chunk=50)
        taken = await asyncio.to_thread(take_up, self._database, BATCH, 0)
        return RowJournal(self._database, BATCH, 0, taken.epoch if taken else 0)


@pytest.fixture(
    params=["lines", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Keeping]:
    if request.param == "lines":
        yield Lines(tmp_path)
        return
    database = open_database(choose_url(request.param, tmp_path))
    yield Rows(database)
    database.close()


async def add(journal: ItemJournal, index: int, *, failed: bool = False) -> bytes:
    name = "b" if index == 1 else None
    error = ProviderError(detail="no", fault=ProviderFault.SERVER) if failed else None
    text = None if failed else f"answer {index} ä\0"
    item: BatchItem[Any] = BatchItem(index=index, id=name, text=text, value=text, error=error)
    told = digest(TEXTS[index])
    line = encode_item(item, batch=BATCH, input_digest=told)
    await journal.append(item, line, told)
    return line


async def test_what_was_appended_is_there_for_whoever_opens_it_next(kept: Keeping) -> None:
    journal = await kept.open()
    first, second = await add(journal, 0), await add(journal, 1, failed=True)
    journal.close()

    journal = await kept.open()
    found, failed = journal.find(0, digest(TEXTS[0])), journal.find("b", digest(TEXTS[1]))
    assert found is not None
    assert failed is not None
    assert (found.has_failed, failed.has_failed) == (False, True)
    assert journal.read(found) == first.rstrip()
    assert decode_item(journal.read(failed)).error is not None
    assert decode_item(second).index == 1
    assert journal.find(2, digest(TEXTS[2])) is None
    assert journal.findings == ()
    journal.close()


async def test_another_input_in_the_place_of_one_that_was_done_is_refused(kept: Keeping) -> None:
    journal = await kept.open()
    await add(journal, 3)
    journal.close()

    journal = await kept.open()
    with pytest.raises(RequestError, match="item number 3, but for another input"):
        journal.find(3, digest("something else"))
    journal.close()


async def test_many_at_once_are_each_there_once(kept: Keeping) -> None:
    """As sixty-four who are asked at once append; the first of them may be cancelled."""
    journal = await kept.open()
    appending = [asyncio.create_task(add(journal, index)) for index in range(len(TEXTS))]
    await asyncio.sleep(0)
    appending[5].cancel()
    await asyncio.gather(*appending, return_exceptions=True)
    journal.synchronize()
    journal.settle()
    journal.close()

    journal = await kept.open()
    indices = [
        decode_item(journal.read(entry)).index
        for place, text in enumerate(TEXTS)
        if (entry := journal.find("b" if place == 1 else place, digest(text))) is not None
    ]
    assert indices == list(range(len(TEXTS)))
    journal.close()


async def test_it_may_be_closed_twice(kept: Keeping) -> None:
    journal = await kept.open()
    journal.close()
    journal.close()
