"""Whatever workers do to a batch, and whenever they die: each input has one result, all counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.batches.batching import choose_url, look, submit
from support.quality.properties import examples
from vibe_llms.batches.batch_followers import BatchFollower
from vibe_llms.batches.databases import BatchDatabase, open_database
from vibe_llms.batches.item_lines import decode_head, encode_item
from vibe_llms.batches.items import BatchItem
from vibe_llms.batches.row_chunks import TakenChunk, leave, read_due, take
from vibe_llms.batches.row_journals import RowJournal, _Result
from vibe_llms.exceptions import ProviderError, ProviderFault

BATCH = "b" * 32
COUNT, CHUNK = 5, 3
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ("take", "write", "write", "write", "repeat", "leave", "stop", "resume", "retry",
             "follow")
        ),
        st.integers(0, 5),
        st.sets(st.integers(0, COUNT - 1), max_size=3),
        st.booleans(),
    ),
    max_size=25,
)  # fmt: skip


def result(number: int, *, failed: bool) -> _Result:
    error = ProviderError(detail="no", fault=ProviderFault.SERVER) if failed else None
    item: BatchItem[Any] = BatchItem(index=number, error=error)
    line = encode_item(item, batch="s", input_digest="d").rstrip()
    return _Result(number, line, failed, 1, 0, 0, 0, 0)


class Play:
    """A batch, whoever has or had a chunk of it, and what they have paid for."""

    def __init__(self, database: BatchDatabase) -> None:
        self.database = database
        self.batches = look(database)
        self.workers: list[tuple[TakenChunk, RowJournal]] = []
        self.written: list[tuple[RowJournal, str, list[_Result]]] = []
        self.paid = 0
        self.seen: Counter[int] = Counter()
        self.retried: Counter[int] = Counter()
        self.follower = BatchFollower(database, BATCH, waits=False, before={})

    def step(self, word: str, who: int, numbers: set[int], failed: bool) -> None:
        if word in ("write", "leave") and not self.workers:
            return
        taken, journal = self.workers[who % len(self.workers)] if self.workers else (None, None)
        if word == "take" and (found := self.take(who)):
            self.workers.append((found, RowJournal(self.database, found)))
        elif word == "write" and taken is not None and journal is not None:
            mine = {row.number for row in taken.rows}
            chosen = sorted(mine & numbers or mine)
            results = [result(each, failed=failed) for each in chosen]
            mark = f"{taken.epoch}/{len(self.written)}"
            if results:
                journal._insert(mark, results)
                self.written.append((journal, mark, results))
                self.paid += len(results)
        elif word == "repeat" and self.written:  # the answer to its commit was lost
            journal, mark, results = self.written[who % len(self.written)]
            journal._insert(mark, results, is_retry=True)
        elif word == "leave" and taken is not None:
            leave(self.database, taken)
        elif word == "stop":
            asyncio.run(self.batches.stop(BATCH))
        elif word == "resume":
            self.batches._resume(BATCH, False, None)
        elif word == "retry":
            self.retried.update(number for number, has_failed in self.read() if has_failed)
            self.batches._resume(BATCH, True, None)
        elif word == "follow":
            self.follow()

    def take(self, who: int) -> TakenChunk | None:
        """Takes a chunk that is due, perhaps from another."""
        with self.database.transact(reading=True) as transaction:
            due = read_due(transaction)
        return take(self.database, BATCH, due[who % len(due)].number) if due else None

    def follow(self) -> None:
        _, found = self.follower._read(self.follower._read_new)
        self.seen.update(decode_head(each.line).index for each in found)

    def read(self) -> list[tuple[int, bool]]:
        follower = BatchFollower(self.database, BATCH, waits=False, before={})
        _, found = follower._read(follower._read_in_order)
        heads = [decode_head(each.line) for each in found]
        return [(head.index, head.has_failed) for head in heads]

    def end(self) -> None:
        """Lets somebody do all that is left."""
        self.batches._resume(BATCH, False, None)
        while (taken := self.take(0)) is not None:
            results = [result(row.number, failed=False) for row in taken.rows]
            RowJournal(self.database, taken)._insert(f"{taken.epoch}/end", results)
            self.paid += len(results)


@examples(40)
@given(STEPS)
def test_each_input_has_one_result_and_all_that_was_paid_is_counted(steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        database = open_database(choose_url("sqlite", Path(folder)))
        asyncio.run(submit(database, BATCH, *map(str, range(COUNT)), chunk=CHUNK))
        play = Play(database)
        for word in ("take", "take"):  # two believe that they have the same one
            play.step(word, 0, set(), False)
        for each in steps:
            play.step(*each)
        play.end()
        play.follow()
        kept = play.read()
        found = asyncio.run(play.batches.find(BATCH))
        database.close()
    assert [number for number, _ in kept] == list(range(COUNT))
    assert (found.state, found.done) == ("done", COUNT)
    assert found.failed == sum(has_failed for _, has_failed in kept)
    assert found.input_tokens == play.paid
    assert all(1 <= play.seen[number] <= 1 + play.retried[number] for number in range(COUNT))
