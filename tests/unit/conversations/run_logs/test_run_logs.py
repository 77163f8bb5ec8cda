"""The log of a conversation's runs: numbered, appended, torn, read from anywhere."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from support.stores.disks import Ledger
from vibe_llms.conversations import DirectoryStore, MemoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.proof import collect_content, plan_collection
from vibe_llms.conversations.run_logs.file_log import TALLY, FileLog
from vibe_llms.conversations.run_logs.log import PIECE_BYTES, LoggedEvent, claim_at_once, claim_soon
from vibe_llms.conversations.run_logs.log_lines import Flaw, read_lines, write_line
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.run_logs.publishing import subscribe
from vibe_llms.events.codec import encode_event
from vibe_llms.events.engine import (
    EngineEvent,
    GenerationFailedEvent,
    InvocationFinishedEvent,
    RunStartedEvent,
    StateEnteredEvent,
)
from vibe_llms.exceptions import (
    CorruptionError,
    StoreError,
    StreamTruncatedError,
    UnknownConversationError,
)
from vibe_llms.logs.disk import Disk
from vibe_llms.logs.log import Log
from vibe_llms.logs.tallies import read_tally
from vibe_llms.messages.canisters import AssistantCanister, ResultCanister
from vibe_llms.messages.contents import ImageContent
from vibe_llms.runs import RunLog

EVENTS: list[EngineEvent] = [
    RunStartedEvent(run_id="run", conversation_id="a", length=1, limits={"run_steps": 50}),
    StateEnteredEvent(state="generate", turn=0),
    InvocationFinishedEvent(
        key="k", invocation_id="call_1", name="f", result=ResultCanister("ü", invocation_id="i")
    ),
    StateEnteredEvent(state="terminate", turn=1),
]


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """A store in files with one conversation, ``a``."""
    store = DirectoryStore(tmp_path)
    store.create("a", ConversationMetadata())
    return store


class CountingDisk(Ledger):
    """A disk that counts how often it was waited for."""

    count = 0

    def synchronize(self, descriptor: int) -> None:
        self.count += 1
        super().synchronize(descriptor)


def find_path(store: DirectoryStore) -> Path:
    """Returns where the log of ``a`` is, or will be."""
    return Path(store.locate("a"), "runs.jsonl")


def open_log(store: DirectoryStore) -> FileLog:
    """Returns the log of ``a``, claimed."""
    log = store.open_log("a")
    assert isinstance(log, FileLog)
    log.claim()
    return log


def produce_memory_log(_: DirectoryStore) -> RunLog:
    log = MemoryLog()
    log.claim()
    return log


@pytest.mark.parametrize("produce", [open_log, produce_memory_log])
async def test_000_events_are_numbered_without_gaps_and_read_from_any_number_on(
    store: DirectoryStore, produce: Callable[[DirectoryStore], RunLog]
) -> None:
    """Whoever has heard one asks for what comes after it, also while the run goes on."""
    log = produce(store)

    numbers = [await log.write("run", event) for event in EVENTS]
    await log.secure(4)

    assert numbers == [1, 2, 3, 4]
    for after in range(6):
        read = log.read(after=after)
        assert [each.sequence for each in read] == numbers[after:]
        assert [each.event for each in read] == EVENTS[after:]
        assert {each.run_id for each in read} <= {"run"}
    assert log.read()[0].timestamp <= log.read()[-1].timestamp
    log.close()
    log.close()
    assert len(log.read()) == 4


@pytest.mark.parametrize("produce", [open_log, produce_memory_log])
async def test_000c_what_happened_at_one_moment_is_written_at_once(
    store: DirectoryStore, produce: Callable[[DirectoryStore], RunLog]
) -> None:
    """Each event has its number all the same, and whoever listens hears of each."""
    log = produce(store)
    heard: list[tuple[int, str]] = []
    with subscribe(log.topic, lambda line: heard.append((line.sequence, line.word))):
        last = await log.write("run", *EVENTS[:3], durable=True)
        assert (last, log.append("run", EVENTS[3])) == (3, 4)

    log.close()
    assert [(each.sequence, each.event) for each in log.read()] == [*enumerate(EVENTS, 1)]
    told = [(number, event.type) for number, event in enumerate(EVENTS, 1)]
    assert heard == told


def test_000b_a_log_needs_no_more_than_a_folder(store: DirectoryStore) -> None:
    log = FileLog(store.locate("a"))
    log.claim()
    assert log.append("run", EVENTS[0]) == 1
    log.close()
    assert [each.event for each in log.read()] == EVENTS[:1]


async def test_001_a_later_run_goes_on_counting(store: DirectoryStore) -> None:
    """The numbers are the conversation's, so that a client need not know where a run began."""
    for run_id in ("one", "two"):
        log = open_log(store)
        await log.write(run_id, EVENTS[0])
        await log.write(run_id, EVENTS[1])
        log.close()

    assert [(each.sequence, each.run_id) for each in log.read()] == [
        (1, "one"),
        (2, "one"),
        (3, "two"),
        (4, "two"),
    ]


async def test_002_a_line_is_an_envelope_around_the_event(store: DirectoryStore) -> None:
    """One JSON object a line, which other programs can read."""
    log = open_log(store)
    await log.write("run", EVENTS[1])
    log.close()

    line = json.loads(find_path(store).read_text())

    assert list(line) == ["sequence", "timestamp", "run_id", "event"]
    assert line["sequence"] == 1
    assert line["event"] == json.loads(encode_event(EVENTS[1]))


async def test_003_many_writers_of_one_run_get_into_order(store: DirectoryStore) -> None:
    """Parallel invocations write at the same time; no line is torn, no number given twice."""
    log = open_log(store)

    async def write(index: int) -> int:
        number = await log.write("run", EVENTS[index % 4])
        if index % 2:
            await log.secure(number)
        return number

    numbers = await asyncio.gather(*map(write, range(40)))

    log.close()
    assert sorted(numbers) == list(range(1, 41))
    assert [each.sequence for each in log.read()] == list(range(1, 41))


async def test_004_nothing_is_made_before_it_is_claimed(store: DirectoryStore) -> None:
    """To look for a log makes none, and reading one that is not there finds nothing."""
    log = store.open_log("a")

    assert log.read() == []

    names = {path.name for path in find_path(store).parent.iterdir()}
    assert names == {"lock", "messages.jsonl", "messages.tally", "metadata.toml"}
    with pytest.raises(StoreError, match="was not claimed"):
        await log.write("run", EVENTS[0])


@pytest.mark.parametrize("cut", [1, 5, 40])
async def test_010_a_torn_line_is_set_aside_and_reported(store: DirectoryStore, cut: int) -> None:
    """What a crash left of a last line is kept in a file of its own; counting goes on."""
    log = open_log(store)
    for event in EVENTS:
        await log.write("run", event)
    log.close()
    path = find_path(store)
    whole = path.read_bytes()
    torn = whole[:-cut]
    path.write_bytes(torn)
    assert len(store.open_log("a").read()) == 3  # a reader leaves it where it is
    last = store.open_log("a").read_last()
    assert last is not None
    assert last.sequence == 3
    assert path.read_bytes() == torn

    log = open_log(store)
    number = await log.write("run", EVENTS[3])
    log.close()

    assert number == 4
    assert [each.event for each in log.read()] == EVENTS
    assert len(log.notices) == 1
    assert "runs.torn-1" in log.notices[0].message
    aside = path.with_name("runs.torn-1").read_bytes()
    assert torn.endswith(aside)
    assert whole.startswith(path.read_bytes()[: len(torn) - len(aside)] + aside)


async def test_010b_of_what_happened_at_one_moment_what_is_whole_is_kept(
    store: DirectoryStore,
) -> None:
    """A part of it is as good as an earlier end; all that was found torn is told."""
    log = open_log(store)
    for whole in (2, 5):
        await log.write("run", *EVENTS[:3])
        log.close()
        path = find_path(store)
        path.write_bytes(path.read_bytes()[:-5])
        assert len(log.read()) == whole
        log.claim()
        assert await log.write("run", EVENTS[3]) == whole + 1
    log.close()

    assert [each.place for each in log.notices] == [log.path] * 2


def test_010c_what_another_log_says_is_taken_over_whole_and_for_certain(tmp_path: Path) -> None:
    """All of its lines or none; whoever goes on goes on behind them."""
    disk = Ledger()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    log = FileLog(store.locate("a"), disk=disk)
    lines = [line(number) for number in (1, 2, 3)]
    with pytest.raises(StoreError, match="was not claimed") as caught:
        log.adopt(lines)
    assert caught.value.path == log.path

    log.claim()
    log.adopt(lines)
    assert disk.settle() == set()
    tally = read_tally(f"{store.locate('a')}/{TALLY}")
    assert tally is not None
    assert tally.lines == 3
    assert log.append("run", EVENTS[0]) == 4
    log.close()
    assert [each.sequence for each in log.read()] == [1, 2, 3, 4]

    path = find_path(store)
    path.write_bytes(path.read_bytes()[: len(b"".join(lines)) + 2])
    path.with_name(TALLY).unlink()
    assert log.read() == []


def test_010d_what_takes_the_place_of_the_first_lines_is_certain_before_it_is_there(
    tmp_path: Path,
) -> None:
    """What is behind stays; the claim is given up, as what is open is the old file."""

    class NotingDisk(Ledger):
        def __init__(self) -> None:
            super().__init__()
            self.noted: list[bytes] = []

        def overwrite_start(self, descriptor: int, data: bytes) -> None:
            self.noted.append(find_path(store).read_bytes())
            super().overwrite_start(descriptor, data)

    disk = NotingDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    log = FileLog(store.locate("a"), disk=disk)
    with pytest.raises(StoreError, match="was not claimed") as caught:
        log.replace([line(2, 1)], 2)
    assert caught.value.path == log.path
    log.claim()
    log.adopt([line(number) for number in range(1, 6)])

    path = find_path(store)
    tally = path.with_name(TALLY)
    tally.unlink()
    with path.open("ab") as file:
        file.write(b"torn")  # what could not be written, nor be taken back
    disk.noted.clear()

    log.replace([line(1), line(3, 2)], 3)

    assert disk.settle() == set()
    assert [each.sequence for each in log.read()] == [1, 3, 4, 5]
    assert log.examine() == (4, ())
    assert read_tally(str(tally)) == (5, path.stat().st_size)
    assert disk.noted == [path.read_bytes()]  # it never says more than there is
    assert b"torn" not in path.read_bytes()
    assert {each.stat().st_mode & 0o777 for each in (path, tally)} == {0o600}
    with pytest.raises(StoreError, match="was not claimed"):
        log.append("run", EVENTS[0])
    log.claim()
    log.append("run", EVENTS[0])
    log.synchronize()
    log.close()
    assert [each.sequence for each in log.read()] == [1, 3, 4, 5, 6]
    assert read_tally(str(tally)) == (6, path.stat().st_size)


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        (b"nonsense\n", "malformed"),
        (b'{"sequence":2,"timestamp":"2025-01-01T00:00:00Z","run_id":"r","event":{}}\n', "'type'"),
        (
            b'{"sequence":7,"timestamp":"2025-01-01T00:00:00Z","run_id":"r",'
            b'"event":{"type":"run.state","state":"generate","turn":0}}\n',
            "number is 7",
        ),
        (b"\xff\xfe\n", "line 2"),
    ],
)
async def test_011_damage_is_named_with_its_line(
    store: DirectoryStore, line: bytes, detail: str
) -> None:
    """A line that does not read is not passed over: the run it tells of may have acted."""
    log = open_log(store)
    await log.write("run", EVENTS[0])
    log.close()
    with find_path(store).open("ab") as file:
        file.write(line)

    with pytest.raises(CorruptionError) as caught:
        log.read()

    assert caught.value.line == 2
    assert detail in str(caught.value).replace("runs.jsonl:2", "line 2")
    assert log.read(after=2) == []


MOMENT = datetime(2026, 1, 2, 3, tzinfo=timezone(timedelta(hours=2)))


def line(number: int, kept: int = 0) -> bytes:
    return write_line(number, MOMENT, "run", EVENTS[1], kept)


TEXT = b'{"run_id":"\xff","kept":3}'
"""Damaged, but it looks like the last that was kept."""


@pytest.mark.parametrize(
    ("lines", "after", "read", "flaws"),
    [
        ([line(1), line(2), line(3)], 0, [1, 2, 3], []),
        ([line(5), line(6)], 4, [5, 6], []),
        ([line(1), b"x", line(3), TEXT, line(5)], 0, [1, 3, 5], [(2, 2), (4, 4)]),
        ([line(1), line(3), line(4)], 0, [1], [(2, 2), (3, 3)]),
        ([line(1), line(1), line(3)], 0, [1, 3], [(2, 2)]),
        ([line(5, 1), line(6), b'{"kept":1'], 0, [5, 6], [(3, 7)]),
        ([line(1), line(4), line(9, 3), line(10), TEXT], 0, [1, 4, 9, 10], [(5, 11)]),
        ([line(1), line(9, 2), b"x", line(11)], 0, [1, 9, 11], [(3, 10)]),
        ([b"x", line(4), line(9, 3), line(11)], 0, [4, 9], [(1, 1), (4, 10)]),
        ([line(4), line(4), line(9, 3)], 0, [4, 9], [(2, 5)]),
        ([line(4), line(10), line(9, 3)], 0, [4], [(2, 5), (3, 11)]),
        ([line(1), line(4), line(9, 2), line(10)], 0, [1, 4, 10], [(3, 5)]),
        ([line(8), line(9, 7), line(10)], 7, [8, 9, 10], []),
    ],
)
def test_011b_each_line_that_is_damaged_or_missing_is_told_and_no_other(
    lines: list[bytes], after: int, read: list[int], flaws: list[tuple[int, int]]
) -> None:
    """Also where lines were compacted: their numbers rise, and the last says how many they are."""
    told = [*read_lines(lines, after)]

    assert [each.sequence for each in told if isinstance(each, LoggedEvent)] == read
    assert [(each.line, each.sequence) for each in told if isinstance(each, Flaw)] == flaws
    assert all(each.detail for each in told if isinstance(each, Flaw))
    assert all(each.timestamp.tzinfo is UTC for each in told if isinstance(each, LoggedEvent))


async def test_011c_behind_a_number_no_more_is_read_than_that_unless_it_is_damaged(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage is told with its line, wherever reading begins."""
    result = ResultCanister("x" * (PIECE_BYTES // 8), invocation_id="i")
    event = InvocationFinishedEvent(key="k", invocation_id="c", name="f", result=result)
    log = open_log(store)
    for _ in range(20):
        await log.write("run", event)
    log.close()
    with monkeypatch.context() as patched:
        patched.setattr(FileLog, "_read_lines", None)
        assert [each.sequence for each in log.read(after=3)] == [*range(4, 21)]

    path = find_path(store)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], *lines[10:]]))
    with pytest.raises(CorruptionError) as caught:
        log.read(after=3)
    assert (caught.value.line, caught.value.path) == (10, str(path))


async def test_011d_a_last_line_that_does_not_read_is_told(store: DirectoryStore) -> None:
    """Nobody goes on behind it, and what to do is said."""
    log = open_log(store)
    await log.write("run", EVENTS[0])
    log.close()
    unknown = line(2).replace(b"run.state", b"run.nonsense")
    for damaged in (b"\xff\xfe", unknown, b'{"event":{"x":' + b"[" * 99_999):
        path = find_path(store)
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0] + damaged + b"\n")
        with pytest.raises(CorruptionError) as caught:
            log.read_last()
        assert (caught.value.path, caught.value.line) == (str(path), 0)
        assert re.search(r"Cannot read the last line: \S", caught.value.detail)
        assert "None" not in caught.value.detail
        assert "by hand" in caught.value.remedy


async def test_011j_a_log_is_examined_to_its_end(store: DirectoryStore) -> None:
    """All that is wrong is told with its line; what does not read is there, and is not lost."""
    log = open_log(store)
    for event in EVENTS:
        await log.secure(await log.write("run", event))
    log.close()
    path = find_path(store)
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = lines[0] + b"x\n" + lines[2] + b"y\ntorn"
    path.write_bytes(damaged)

    count, findings = FileLog(store.locate("a")).examine()

    assert count == 4
    assert [(each.place, each.line) for each in findings] == [(log.path, n) for n in (2, 4, 0)]
    for each in findings[:2]:
        assert re.match(r"Cannot read the line: .*malformed", each.message)
    assert "is still there" in findings[2].message
    assert path.read_bytes() == damaged
    path.write_bytes(lines[0] + lines[1] + b"x\n")
    _, findings = FileLog(store.locate("a")).examine()
    assert [each.line for each in findings] == [3, 0]
    assert "3 lines, but 4" in findings[1].message


def test_011e_in_memory_compacted_lines_are_taken_over_and_gone_on_behind() -> None:
    log = MemoryLog()
    log.claim()
    log.adopt([line(1), line(4), line(9, 3)])
    last = log.read_last()
    assert last is not None
    assert last.sequence == 9
    assert log.append("run", EVENTS[0]) == 10

    log = MemoryLog()
    log.claim()
    log.adopt([line(1), line(4), line(9, 3), line(10)])
    assert [each.sequence for each in log.read()] == [1, 4, 9, 10]
    assert [log.append("run", event) for event in EVENTS[:2]] == [11, 12]
    log.replace([line(1), line(11, 2)], 11)
    assert [each.sequence for each in log.read()] == [1, 11, 12]
    assert log.read()[-1].event == EVENTS[1]


def test_011f_in_memory_as_much_is_read_at_once_as_fits() -> None:
    """One line at least, as from a file."""
    log = MemoryLog()
    log.adopt([line(number) for number in range(1, 301)])
    piece = log.tail().read()
    sizes = [len(each.data) for each in piece]
    assert 1 < len(sizes) < 300

    for most, count in [(1, 1), (sizes[0], 1), (sizes[0] + 1, 2), (sum(sizes[:2]), 2)]:
        tail = log.tail()
        data, last = tail.read_raw(most)
        assert data == b"".join(each.data + b"\n" for each in piece[:count])
        assert last == count
        assert tail.read()[0].sequence == count + 1


@pytest.mark.parametrize(("wait_seconds", "attempts"), [(0.05, 4), (1.0, 6)])
def test_011g_who_has_a_log_for_a_moment_is_waited_for_a_moment(
    wait_seconds: float, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, tries = 100.0, 0

    class Busy(MemoryLog):
        def claim(self) -> None:
            nonlocal tries
            tries += 1
            if tries < 6:
                raise StoreError(detail="Busy.")

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(time, "sleep", sleep)
    if attempts == 6:
        assert claim_soon(Busy(), wait_seconds=wait_seconds)
    else:
        with pytest.raises(StoreError):
            claim_soon(Busy(), wait_seconds=wait_seconds)
    assert tries == attempts
    assert not claim_soon(Busy(), is_unnecessary=lambda: True)


def test_011h_a_log_that_somebody_has_is_left_and_one_that_is_damaged_is_told(
    store: DirectoryStore,
) -> None:
    log = store.open_log("a")
    assert claim_at_once(log)
    assert not claim_at_once(store.open_log("a"))
    log.close()
    find_path(store).write_bytes(b"{}\n")
    with pytest.raises(CorruptionError):
        claim_at_once(log)


def test_011i_who_closes_a_log_is_not_bothered_with_how_that_goes(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was promised was waited for before."""
    log = open_log(store)
    close = Log.close

    def fail(self: Log) -> None:
        close(self)
        raise OSError("too late")

    monkeypatch.setattr(Log, "close", fail)
    log.close()
    with pytest.raises(StoreError, match="was not claimed"):
        log.append("run", EVENTS[0])


async def test_012_what_could_not_be_written_is_taken_back(tmp_path: Path) -> None:
    """A full disk leaves the log as it was, and the next event takes the number."""

    class FullDisk(Disk):
        is_full = False

        def write(self, descriptor: int, data: bytes) -> None:
            if self.is_full:
                super().write(descriptor, data[:10])
                raise OSError(28, "No space left on device", "runs.jsonl")
            super().write(descriptor, data)

    disk = FullDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    log = open_log(store)
    await log.write("run", EVENTS[0])
    disk.is_full = True

    with pytest.raises(StoreError, match="No space left"):
        await log.write("run", EVENTS[1])

    disk.is_full = False
    assert await log.write("run", EVENTS[1]) == 2
    log.close()
    assert [each.event for each in log.read()] == EVENTS[:2]


async def test_012b_of_several_none_is_left_where_one_could_not_be_written(
    tmp_path: Path,
) -> None:
    """They go to the disk by one call, so that a full one has not the first of them alone."""

    class FullDisk(Disk):
        writes = 0

        def write(self, descriptor: int, data: bytes) -> None:
            self.writes += 1
            half = data.index(b"\n") + 5 if self.writes == 1 else len(data)
            super().write(descriptor, data[:half])
            if half < len(data):
                raise OSError(28, "No space left on device", "runs.jsonl")

    disk = FullDisk()
    store = DirectoryStore(tmp_path)
    store.create("a", ConversationMetadata())
    log = FileLog(store.locate("a"), disk=disk)
    log.claim()

    with pytest.raises(StoreError, match="No space left"):
        await log.write("run", *EVENTS[:3])

    assert log.read() == []
    assert (await log.write("run", *EVENTS[:3]), disk.writes) == (3, 2)
    log.close()
    assert [each.event for each in log.read()] == EVENTS[:3]


async def test_013_durable_means_on_the_disk(tmp_path: Path) -> None:
    """After a durable event nothing is owed to the disk, neither bytes nor the file's name."""
    disk = Ledger()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    log = open_log(store)

    await log.write("run", EVENTS[0])
    owed = disk.settle()
    await log.secure(await log.write("run", EVENTS[1]))
    log.close()

    assert owed == {str(find_path(store))}
    assert disk.settle() == set()


async def test_014_durable_events_at_once_share_their_way_to_the_disk(tmp_path: Path) -> None:
    """Ten that wait together are not synchronized ten times."""

    disk = CountingDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    log = open_log(store)
    disk.count = 0

    numbers = [await log.write("run", EVENTS[0]) for _ in range(10)]
    await asyncio.gather(*map(log.secure, numbers))

    log.close()
    assert 1 <= disk.count <= 2


async def test_014b_what_is_on_the_disk_is_not_waited_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the first; and a file system that complains at the end harms nobody."""

    disk = CountingDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    log = open_log(store)
    number, before = await log.write("run", EVENTS[0]), disk.count

    await log.secure(number)
    await log.secure(number)

    assert (number, disk.count - before) == (1, 1)
    close = Log.close

    def complain(self: Log) -> None:
        close(self)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Log, "close", complain)
        log.close()
    open_log(store).close()


async def test_014c_what_the_disk_refused_is_waited_for_again(tmp_path: Path) -> None:
    """Nothing is taken for safe because somebody has tried."""

    class FailingDisk(CountingDisk):
        fails = False

        def synchronize(self, descriptor: int) -> None:
            if self.fails:
                raise OSError(5, "Input/output error")
            super().synchronize(descriptor)

    disk = FailingDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    log = open_log(store)
    number, disk.fails = await log.write("run", EVENTS[0]), True
    for _ in range(2):
        with pytest.raises(StoreError, match="Input/output") as caught:
            await log.secure(number)
        assert caught.value.path == log.path

    disk.fails, before = False, disk.count
    await log.secure(number)

    assert disk.count == before + 1
    assert disk.settle() == set()


async def test_014d_what_is_written_while_the_disk_is_at_work_is_waited_for_by_itself(
    tmp_path: Path,
) -> None:
    """The disk may have been past it already. The same holds for what a later run writes."""

    class SlowDisk(CountingDisk):
        log: FileLog | None = None

        def synchronize(self, descriptor: int) -> None:
            super().synchronize(descriptor)
            log, self.log = self.log, None
            if log is not None:
                assert log.append("run", EVENTS[1]) == 2

    disk = SlowDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    disk.log = log = open_log(store)
    await log.secure(await log.write("run", EVENTS[0]))
    tally = read_tally(f"{store.locate('a')}/{TALLY}")
    assert tally is not None
    assert tally.lines == 1
    assert disk.settle() == {log.path}
    await log.secure(2)
    assert disk.settle() == set()
    log.close()

    before = disk.count
    log.claim()
    await log.secure(await log.write("run", EVENTS[2]))
    await log.secure(3)
    log.close()
    assert disk.count == before + 1


async def test_014e_a_number_that_is_given_again_is_waited_for_again(tmp_path: Path) -> None:
    """As where somebody has put up with a loss, while the log was nobody's."""
    disk = CountingDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    log = open_log(store)
    for event in EVENTS:
        await log.secure(await log.write("run", event))
    log.close()
    path = find_path(store)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    path.with_name(TALLY).unlink()

    log.claim()
    assert await log.write("run", EVENTS[1]) == 2
    before = disk.count
    await log.secure(2)

    assert disk.count == before + 1
    log.close()


def test_014f_a_log_is_not_closed_while_the_disk_is_at_work(tmp_path: Path) -> None:
    """Its descriptor may be another file's by then."""
    begun, may_go_on = threading.Event(), threading.Event()

    class SlowDisk(Disk):
        is_slow = False

        def synchronize(self, descriptor: int) -> None:
            if self.is_slow:
                begun.set()
                assert may_go_on.wait(60)
            os.fstat(descriptor)
            super().synchronize(descriptor)

    disk = SlowDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    log = open_log(store)
    log.append("run", EVENTS[0])
    disk.is_slow = True
    with ThreadPoolExecutor() as threads:
        securing = threads.submit(log.synchronize)
        assert begun.wait(60)
        closing = threads.submit(log.close)
        try:
            with pytest.raises(StoreError, match="already active"):
                store.open_log("a").claim()
            assert not closing.done()
        finally:
            may_go_on.set()
        securing.result()
        closing.result()
    log.synchronize()  # there is nothing to wait for
    open_log(store).close()


@pytest.mark.parametrize("kept", [None, 0, 1])
async def test_015_a_log_that_has_lost_its_end_is_not_gone_on_with(
    kept: int | None, store: DirectoryStore
) -> None:
    """What took effect and is forgotten would be executed again, in silence."""
    log = open_log(store)
    for event in EVENTS:
        await log.secure(await log.write("run", event))
    log.close()
    path = find_path(store)
    if kept is None:
        path.unlink()
    else:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:kept]))

    with pytest.raises(CorruptionError, match="4 were acknowledged") as caught:
        open_log(store)
    assert caught.value.path == str(path)
    _, findings = FileLog(store.locate("a")).examine()

    assert [f"{kept or 0} lines, but 4" in finding.message for finding in findings] == [True]
    assert findings[0].place == str(path)
    path.with_name("runs.tally").unlink()
    open_log(store).close()


async def test_016_an_interrupt_after_a_line_was_written_leaves_no_number_twice(
    tmp_path: Path,
) -> None:
    """What was not acknowledged is taken back whole."""

    class InterruptedDisk(Disk):
        is_interrupted = True

        def write(self, descriptor: int, data: bytes) -> None:
            super().write(descriptor, data)
            if self.is_interrupted:
                raise KeyboardInterrupt

    disk = InterruptedDisk()
    DirectoryStore(tmp_path).create("a", ConversationMetadata())
    log = open_log(DirectoryStore(tmp_path, disk=disk))
    with pytest.raises(KeyboardInterrupt):
        log.append("run", EVENTS[0])
    disk.is_interrupted = False

    await log.write("run", EVENTS[1])

    assert [logged.event for logged in log.read()] == [EVENTS[1]]
    log.close()


def test_020_two_runs_of_one_conversation_are_refused(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second learns at once what to do; when the first has ended, the next may begin."""
    monkeypatch.setattr(time, "sleep", None)
    first = open_log(store)
    lock = find_path(store).with_name("runs.lock")

    with pytest.raises(StoreError, match=r"already active.*Wait until it ends") as caught:
        open_log(store)

    assert caught.value.path == str(lock)
    assert caught.value.detail.endswith(f" is already active: it keeps {lock} locked.")
    assert lock.stat().st_mode & 0o777 == 0o600
    first.close()
    open_log(store).close()
    memory = MemoryLog()
    memory.claim()
    with pytest.raises(StoreError, match=r"already active\. Wait until it ends") as caught:
        memory.claim()
    assert caught.value.path == ""
    memory.close()
    memory.claim()


def test_020b_what_could_not_be_claimed_is_nobodys(tmp_path: Path) -> None:
    """Whoever comes next may have it."""

    class FullDisk(Disk):
        is_full = False

        def create(self, path: str) -> FileIO:
            if self.is_full:
                raise OSError(28, "No space left on device", path)
            return super().create(path)

    disk = FullDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    store.create("a", ConversationMetadata())
    disk.is_full = True
    with pytest.raises(StoreError, match="No space left"):
        open_log(store)
    disk.is_full = False
    open_log(store).close()


def test_020c_who_has_a_log_does_not_get_it_again(store: DirectoryStore) -> None:
    """And has it still."""
    log = open_log(store)
    with pytest.raises(StoreError, match=r"already active.*Wait until it ends") as caught:
        log.claim()
    assert caught.value.path == str(find_path(store).with_name("runs.lock"))
    assert log.append("run", EVENTS[0]) == 1
    log.close()


@pytest.mark.parametrize("step", ["create", "synchronize_folder", "open_to_append", "truncate"])
def test_020d_who_is_interrupted_while_claiming_keeps_nobody_out(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the step: neither before the file is there nor while its torn end is set aside."""
    store = DirectoryStore(tmp_path)
    store.create("a", ConversationMetadata())
    if step == "truncate":
        find_path(store).write_bytes(b"torn")

    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    log = store.open_log("a")
    with monkeypatch.context() as patched:
        patched.setattr(Disk, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            log.claim()
    log.claim()
    log.close()


def test_020e_who_is_interrupted_while_the_last_line_is_read_keeps_nobody_out(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = store.open_log("a")

    def interrupt(self: Log) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Log, "read_last", interrupt)
        with pytest.raises(KeyboardInterrupt):
            log.claim()
    log.claim()
    log.close()


HOLDER = """
import sys
from vibe_llms.conversations import DirectoryStore
log = DirectoryStore(sys.argv[1]).open_log("a")
log.claim()
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.mark.slow
def test_021_the_lock_of_a_dead_process_is_no_lock(store: DirectoryStore, tmp_path: Path) -> None:
    """A run that was killed does not stand in the way of the next."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        with pytest.raises(StoreError, match="already active"):
            open_log(store)
        holder.kill()

    open_log(store).close()


def test_022_there_is_no_log_without_a_conversation(store: DirectoryStore) -> None:
    """A log ends with its conversation; one that was never stored has none."""
    log = store.open_log("b")
    assert isinstance(log, FileLog)
    with pytest.raises(UnknownConversationError) as caught:
        log.claim()
    folder = str(Path(log.path).parent)
    assert (caught.value.identity, caught.value.path) == ("b", folder)
    with pytest.raises(UnknownConversationError):
        MemoryStore().open_log("b")


@pytest.mark.parametrize("kind", ["files", "memory"])
async def test_030_deleting_a_conversation_deletes_its_log(tmp_path: Path, kind: str) -> None:
    """Nothing of what was done in it is left; a fork of it is whole and has a log of its own."""
    store = DirectoryStore(tmp_path) if kind == "files" else MemoryStore()
    store.create("a", ConversationMetadata())
    log = store.open_log("a")
    log.claim()
    await log.write("run", EVENTS[0])
    log.close()
    child = store.fork("a")
    assert store.open_log(child).read() == []

    store.delete("a")

    assert list(store.survey()) == [child]
    assert not list(tmp_path.rglob("runs*"))
    store.create("a", ConversationMetadata())
    assert store.open_log("a").read() == []
    assert verify(store).findings == ()


async def test_030b_what_has_no_media_is_written_without_waiting_for_a_thread(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(store)
    monkeypatch.setattr(asyncio, "to_thread", None)
    assert [await log.write("run", event) for event in EVENTS] == [1, 2, 3, 4]
    log.close()


async def test_030c_whoever_is_cancelled_while_media_are_put_away_has_written(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it could not know what to write again."""
    log, begun = open_log(store), asyncio.Event()
    hand_over = asyncio.to_thread

    async def dawdle(*work: Any) -> Any:
        begun.set()
        await asyncio.sleep(0)
        return await hand_over(*work)

    monkeypatch.setattr(asyncio, "to_thread", dawdle)
    result = ResultCanister([ImageContent(mime_type="image/png", data=b"p")], invocation_id="i")
    brought = InvocationFinishedEvent(key="k", invocation_id="i", name="f", result=result)

    async def write() -> None:
        try:
            await log.write("run", EVENTS[1], brought)
        finally:
            begun.set()  # where it is done without, nobody waits for it forever

    writing = asyncio.create_task(write())
    await begun.wait()
    writing.cancel()

    with pytest.raises(asyncio.CancelledError):
        await writing
    assert [each.event.type for each in log.read()] == [EVENTS[1].type, brought.type]
    log.close()


async def test_031_media_of_results_go_to_the_content_store(store: DirectoryStore) -> None:
    """The line names them; while the log names them, a collection leaves them alone."""
    picture = ImageContent(mime_type="image/png", data=b"picture" * 100)
    log = open_log(store)
    result = ResultCanister([picture], invocation_id="i")
    await log.write(
        "run", InvocationFinishedEvent(key="k", invocation_id="i", name="f", result=result)
    )
    error = StreamTruncatedError(detail="It broke off.")
    said = AssistantCanister([picture])
    await log.write(
        "run",
        GenerationFailedEvent(key="k", turn=1, model="m", error=error, canisters=(said,)),
    )
    log.close()

    plan = plan_collection(store, grace_seconds=0)

    assert collect_content(store, plan, grace_seconds=0).content_ids == ()
    assert find_path(store).stat().st_size < 2000
    for logged in log.read():
        canister = getattr(logged.event, "result", None) or logged.event.canisters[0]
        (content,) = canister.content
        assert content.data is None
        assert store.contents.read(content.content_id) == picture.data
