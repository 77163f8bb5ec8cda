"""What was submitted to a vendor is written down before, and read again as it was."""

from __future__ import annotations

import asyncio
import errno
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from support.quality.properties import examples
from vibe_llms.batches.vendor_chunks import (
    Chunk,
    ChunkEnd,
    ChunkItem,
    ChunkLog,
    find_path,
    name_item,
    refuse_open_chunks,
)
from vibe_llms.exceptions import RequestError, StoreError
from vibe_llms.logs.log import Log

ITEMS = st.builds(
    ChunkItem,
    st.integers(0, 10**9),
    st.none() | st.text(max_size=5),
    st.text("0123456789abcdef", min_size=16, max_size=16),
    st.booleans(),
    st.lists(st.text(max_size=9), max_size=2).map(tuple),
)


def produce_chunk(name: str = "a1", **fields: Any) -> Chunk:
    items = fields.pop("items", (ChunkItem(0, None, "d"), ChunkItem(1, "b", "e", True, ("x",))))
    return Chunk(chunk=name, batch="batch", at=1_000.5, items=items, **fields)


async def test_what_is_written_is_read_as_it_was(tmp_path: Path) -> None:
    """The intent, the vendor's name and the end; then nothing is open, and the file can go."""
    output, chunk = tmp_path / "answers.jsonl", produce_chunk()
    log = ChunkLog(output, "batch")
    assert not find_path(output).exists()
    await log.intend(chunk)
    await log.name(chunk, "msgbatch_1")
    log.forget()
    log.close()

    again = ChunkLog(output, "batch")
    assert again.open_chunks == [chunk]
    assert again.vendor_names == {"msgbatch_1"}
    with pytest.raises(RequestError, match="--channel vendor"):
        refuse_open_chunks(output)
    await again.end(again.open_chunks[0], ChunkEnd.READ)
    assert again.open_chunks == []
    again.forget()

    assert not find_path(output).exists()
    refuse_open_chunks(output)
    assert ChunkLog(output, "batch").chunks == {}


async def test_an_intent_that_was_torn_was_not_submitted(tmp_path: Path) -> None:
    """It is set aside and told of, and what stands before it holds."""
    output = tmp_path / "answers.jsonl"
    log = ChunkLog(output, "batch")
    await log.intend(produce_chunk())
    log.close()
    with find_path(output).open("ab") as file:
        file.write(b'{"chunk":"b2","batch":"ba')

    again = ChunkLog(output, "batch")

    assert list(again.chunks) == ["a1"]
    assert len(again.findings) == 1
    again.close()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense\n", "is not of a vendor's batch"),
        (b'{"chunk":"b2","vendor":"x"}\n', "is not of a vendor's batch"),
        (b'{"chunk":"b2","batch":"batch","at":1,"items":[],"format":2}\n', "its format is 2"),
    ],
)
async def test_lines_that_are_not_ours_are_refused(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    """With the place, and what to look at before they are taken out."""
    output = tmp_path / "answers.jsonl"
    find_path(output).write_bytes(line)

    with pytest.raises(StoreError, match=reason) as caught:
        ChunkLog(output, "batch")

    assert "answers.jsonl.chunks:1" in str(caught.value)
    assert "the vendor's list of batches" in caught.value.remedy


async def test_a_log_that_cannot_be_read_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock would keep the next attempt out."""
    output = tmp_path / "answers.jsonl"
    log = ChunkLog(output, "batch")
    await log.intend(produce_chunk())
    log.close()
    closed: list[Log] = []
    close = Log.close

    def note(log: Log) -> None:
        closed.append(log)
        close(log)

    def fail(log: ChunkLog, line: bytes) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Log, "close", note)
    monkeypatch.setattr(ChunkLog, "_apply_line", fail)
    with pytest.raises(StoreError, match="Input/output error"):
        ChunkLog(output, "batch")

    assert len(closed) == 1


async def test_other_settings_are_refused_as_long_as_something_is_open(tmp_path: Path) -> None:
    """What has ended under other settings is no hindrance."""
    output, chunk = tmp_path / "answers.jsonl", produce_chunk()
    log = ChunkLog(output, "batch")
    await log.intend(chunk)
    log.close()
    with pytest.raises(RequestError, match="other settings"):
        ChunkLog(output, "other")

    log = ChunkLog(output, "batch")
    await log.end(log.open_chunks[0], ChunkEnd.ABSENT)
    log.close()
    ChunkLog(output, "other").close()


async def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Nothing is submitted then."""
    output = tmp_path / "none" / "answers.jsonl"

    with pytest.raises(StoreError, match=r"Cannot use .*answers\.jsonl\.chunks"):
        await ChunkLog(output, "batch").intend(produce_chunk())


@given(st.text("0123456789abcdef", min_size=1, max_size=16), st.lists(ITEMS, max_size=4))
@examples(50)
def test_names_of_requests_lead_back_to_their_places(name: str, items: list[ChunkItem]) -> None:
    """Those of this chunk, and no others; a vendor takes them."""
    chunk = produce_chunk(name, items=tuple(items))
    names = [name_item(name, place) for place in range(len(items))]

    assert [chunk.find_index(each) for each in names] == list(range(len(items)))
    for other in ("", name, f"{name}-{len(items)}", f"{name}-x", f"{name}--1", f"0{name}-0"):
        assert chunk.find_index(other) is None
    assert all(len(each) <= 64 for each in names)


class Histories(RuleBasedStateMachine):
    """Whatever is written in whichever order, who opens it next knows what was known."""

    @initialize()
    def begin(self) -> None:
        self.folder = TemporaryDirectory()
        self.output = Path(self.folder.name) / "answers.jsonl"
        self.log = ChunkLog(self.output, "batch")
        self.count = 0

    @rule(items=st.lists(ITEMS, max_size=3))
    def intend(self, items: list[ChunkItem]) -> None:
        self.count += 1
        perform(self.log.intend(produce_chunk(f"c{self.count}", items=tuple(items))))

    @rule(data=st.data(), moment=st.floats(1, 2**40))
    def send_again(self, data: st.DataObject, moment: float) -> None:
        if self.log.open_chunks:
            chunk = data.draw(st.sampled_from(self.log.open_chunks))
            perform(self.log.send_again(chunk, moment))

    @rule(data=st.data(), vendor=st.text(min_size=1, max_size=5))
    def name(self, data: st.DataObject, vendor: str) -> None:
        if self.log.open_chunks:
            chunk = data.draw(st.sampled_from(self.log.open_chunks))
            perform(self.log.name(chunk, vendor))

    @rule(data=st.data(), end=st.sampled_from(ChunkEnd))
    def end(self, data: st.DataObject, end: ChunkEnd) -> None:
        if self.log.open_chunks:
            perform(self.log.end(data.draw(st.sampled_from(self.log.open_chunks)), end))

    @rule()
    def forget(self) -> None:
        self.log.forget()
        assert self.log.open_chunks or not self.log.chunks

    @rule()
    def open_again(self) -> None:
        former = dict(self.log.chunks)
        self.log.close()
        self.log = ChunkLog(self.output, "batch")
        assert self.log.chunks == former

    @invariant()
    def lines_are_json(self) -> None:
        if find_path(self.output).exists():
            for line in find_path(self.output).read_bytes().splitlines():
                json.loads(line)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.close()
            self.folder.cleanup()


def perform(coroutine: Any) -> None:
    asyncio.run(coroutine)


TestHistories = Histories.TestCase
TestHistories.settings = examples(25)
