"""Reading a log on from any number, while it grows."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs import tailing
from vibe_llms.conversations.run_logs.log import LogLine, LogTail
from vibe_llms.conversations.run_logs.log_lines import open_envelope, read_envelope, write_line
from vibe_llms.conversations.run_logs.tailing import find_offset_after
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import InvocationProgressEvent, RunSuspendedEvent
from vibe_llms.exceptions import CorruptionError
from vibe_llms.messages.canisters import UserCanister


def read_all(tail: LogTail) -> list[LogLine]:
    found: list[LogLine] = []
    while lines := tail.read():
        found += lines
    return found


@pytest.fixture(params=["directory", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    store = DirectoryStore(tmp_path) if request.param == "directory" else MemoryStore()
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    return store


def test_any_number_can_be_gone_on_from(store: ConversationStore) -> None:
    log = store.open_log("a")
    early = log.tail()
    assert read_all(early) == []
    log.claim()
    for number in range(600):
        text = "x" * (number % 7) ** 5
        log.append("r", InvocationProgressEvent(key="k", invocation_id="i", name="n", text=text))
    log.append("r", RunSuspendedEvent(run_id="r", digests=()))
    log.close()
    whole = read_all(early)
    assert [line.sequence for line in whole] == list(range(1, 602))
    assert {line.word for line in whole[:-1]} == {"invocation.progress"}
    assert whole[-1].word == "run.suspended"
    assert [open_envelope(read_envelope(line.data)) for line in whole] == list(log.read())
    raw, written = log.tail(), b""
    while piece := raw.read_raw()[0]:
        written += piece
    assert written.splitlines() == [line.data for line in whole]
    assert raw.read_raw() == (b"", 601)
    assert log.tail().read_raw(10) == (whole[0].data + b"\n", 1)
    assert log.tail(599).read_raw()[1] == 601
    raw, pieces = log.tail(), []
    while piece := raw.read_raw(9_000)[0]:
        pieces.append(piece)
    assert b"".join(pieces) == written
    assert all(len(piece) < 18_000 for piece in pieces)  # one at least, however long it is
    for after in (0, 1, 2, 299, 300, 599, 600, 601, 602, 10**9):
        assert read_all(log.tail(after)) == whole[after:]


@given(
    sizes=st.lists(st.integers(1, 9_000), max_size=40),
    number=st.integers(-1, 50),
    first=st.integers(0, 5),
)
def test_a_line_is_found_by_its_number(sizes: list[int], number: int, first: int) -> None:
    lines = [b"%d %s" % (first + index, b"x" * size) for index, size in enumerate(sizes)]
    expected = sum(len(line) + 1 for line in lines if int(line.split()[0]) <= number)
    descriptor = os.memfd_create("lines")
    try:
        os.write(descriptor, b"".join(line + b"\n" for line in lines) + b"7 torn")
        end = sum(len(line) + 1 for line in lines)
        found = find_offset_after(descriptor, end, number, lambda line: int(line.split()[0]))
        assert found == expected
    finally:
        os.close(descriptor)


def test_a_line_is_found_by_halves_and_few_of_the_rest_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the file, and whatever long lines it has."""
    lines = [b"%d %s" % (number, b"x" * (number % 90)) for number in range(8_000)]
    lines[4_000] += b"y" * 50_000
    asked, read = [], list[int]()

    def read_number(line: bytes) -> int:
        asked.append(line)
        return int(line.split()[0])

    def read_at(descriptor: int, start: int, size: int) -> bytes:
        read.append(size)
        return os.pread(descriptor, size, start)

    monkeypatch.setattr(tailing, "read_at", read_at)
    descriptor = os.memfd_create("lines")
    try:
        os.write(descriptor, b"".join(line + b"\n" for line in lines))
        end = os.fstat(descriptor).st_size
        for number in (0, 1, 3_999, 4_000, 4_001, 7_998):
            asked.clear()
            read.clear()
            found = find_offset_after(descriptor, end, number, read_number)
            assert os.pread(descriptor, 5, found).split()[0] == b"%d" % (number + 1)
            assert len(asked) < 40
            assert sum(read) < 500_000
            assert len(read) < 110
    finally:
        os.close(descriptor)


def test_who_goes_on_reading_looks_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But until there is what it is to begin behind."""
    store = DirectoryStore(tmp_path)
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    log, looked = store.open_log("a"), list[int]()

    def look(*given: Any) -> int:
        looked.append(given[2])
        return find_offset_after(*given)

    monkeypatch.setattr(tailing, "find_offset_after", look)
    whole, tail = log.tail(), log.tail(2)
    for number in range(1, 7):
        log.claim()
        log.append("r", RunSuspendedEvent(run_id="r", digests=("d" * number,)))
        log.close()
        told = [[line.sequence for line in tail.read()] for _ in range(2)]
        assert told == [[number] if number > 2 else [], []]
    assert [line.sequence for line in whole.read()] == [1, 2, 3, 4, 5, 6]
    assert looked == [2, 2]


def test_what_is_cut_off_while_it_is_read_is_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a torn end is by whoever writes next."""
    path = tmp_path / "runs.jsonl"
    path.write_bytes(
        write_line(
            1, datetime(2025, 1, 1, tzinfo=UTC), "r", RunSuspendedEvent(run_id="r", digests=())
        )
        + b"\n"
    )
    monkeypatch.setattr(tailing, "find_torn_start", lambda _, size: size + 5)
    tail = tailing.FileTail(str(path))
    assert [len(tail.read()) for _ in range(3)] == [1, 0, 0]


def test_a_file_that_is_cut_off_during_the_search_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    event = InvocationProgressEvent(key="k", invocation_id="i", name="n", text="x")
    lines = [
        write_line(number, datetime(2025, 1, 1, tzinfo=UTC), "r", event) for number in range(1, 50)
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")

    def find_after_cut(*arguments: Any) -> int:
        os.truncate(path, 0)
        return find_offset_after(*arguments)

    monkeypatch.setattr(tailing, "find_offset_after", find_after_cut)
    with pytest.raises(CorruptionError):
        tailing.FileTail(str(path), after=20).read()


def test_a_file_that_became_another_is_read_by_its_numbers(tmp_path: Path) -> None:
    """Where a line has come to lie over the place up to which it was read."""
    path = tmp_path / "runs.jsonl"
    ended = RunSuspendedEvent(run_id="r", digests=())
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    lines = [write_line(number, moment, "r", ended) + b"\n" for number in range(1, 6)]
    path.write_bytes(b"".join(lines[:3]))
    tail = tailing.FileTail(str(path))
    assert [line.sequence for line in tail.read()] == [1, 2, 3]
    long = attrs.evolve(ended, digests=("d" * len(lines[0]) * 4,))
    path.write_bytes(write_line(4, moment, "r", long) + b"\n" + lines[4])
    assert [line.sequence for line in tail.read()] == [4, 5]


@given(data=st.data())
def test_a_file_that_grows_by_bytes_is_told_line_by_line(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = DirectoryStore(tmp_path_factory.mktemp("growing"))
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    log = store.open_log("a")
    log.claim()
    for number in range(5):
        log.append("r", RunSuspendedEvent(run_id="r", digests=("d" * number,)))
    log.close()
    path = Path(store.locate("a"), "runs.jsonl")
    written = path.read_bytes()
    whole = read_all(log.tail())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(written)), max_size=6)))
    tail, told = log.tail(), []
    for cut in [*cuts, len(written)]:
        path.write_bytes(written[:cut])
        told += tail.read()
    assert told == whole


@pytest.mark.parametrize("line", ['{"sequence":1}', '{"event":{"x":' + "[" * 99_999])
def test_a_line_that_does_not_read_is_told(tmp_path: Path, line: str) -> None:
    store = DirectoryStore(tmp_path)
    Conversation(id="a", canisters=[UserCanister("Hi.")]).save(store)
    log = store.open_log("a")
    path = Path(store.locate("a"), "runs.jsonl")
    path.write_text(f"{line}\n")
    with pytest.raises(CorruptionError, match=r"runs\.jsonl.*Cannot read a line"):
        log.tail().read()
