"""A log keeps what was acknowledged, whatever happens to its end."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.stores.disks import Crash, CrashingDisk, HastyDisk, Ledger
from vibe_llms.exceptions import StoreError
from vibe_llms.logs import log as log_module
from vibe_llms.logs.disk import Disk
from vibe_llms.logs.lines import join_lines
from vibe_llms.logs.log import Log
from vibe_llms.logs.tallies import Tally, read_tally

LINES = st.binary(max_size=30).map(lambda data: data.replace(b"\n", b"") + b"}")
APPENDS = st.lists(st.lists(LINES, min_size=1, max_size=3), max_size=5)


def produce_log(path: Path, appends: list[list[bytes]], disk: Disk | None = None) -> list[int]:
    """Writes a log; returns where each append ends."""
    path.touch()
    ends = [0]
    with Log(str(path), disk or HastyDisk(), tally=f"{path}.tally") as log:
        for lines in appends:
            log.append(join_lines(b"".join(line + b"\n" for line in lines), len(lines)), len(lines))
            ends.append(log.end.size)
            log.synchronize()
    return ends


@examples(200)
@given(appends=APPENDS, data=st.data())
def test_a_log_that_is_torn_anywhere_goes_on_after_its_last_whole_append(
    appends: list[list[bytes]], data: st.DataObject
) -> None:
    """What is whole is kept, what is torn lies beside it, and not one byte is lost or doubled."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.jsonl")
        ends = produce_log(path, appends)
        whole = path.read_bytes()
        kept = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:kept])
        end = max(each for each in ends if each <= kept)

        with Log(str(path), HastyDisk(), reading=True) as seen:
            assert seen.read() == whole[:end]
            assert path.read_bytes() == whole[:kept]
        with Log(str(path), HastyDisk()) as log:
            assert (log.read(), bool(log.notices)) == (whole[:end], end < kept)
            log.append(b"{}\n")
            assert log.read_last() == b"{}\n"

        aside = path.with_name("events.torn-1")
        assert path.read_bytes() == whole[:end] + b"{}\n"
        assert (aside.read_bytes() if end < kept else b"") == whole[end:kept]
        with Log(str(path), HastyDisk()) as log:
            assert log.notices == ()


@examples(50)
@given(appends=APPENDS)
def test_a_log_is_walked_line_by_line(appends: list[list[bytes]]) -> None:
    """Each line is found where it was said to begin."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.jsonl")
        produce_log(path, appends)

        with Log(str(path), HastyDisk(), reading=True) as log:
            walked = list(log.walk())
            assert b"".join(line + b"\n" for _, line in walked) == log.read()
            assert all(log.read_line(offset) == line for offset, line in walked)


@examples(50)
@given(writers=st.lists(st.tuples(st.integers(0, 2), APPENDS, st.booleans()), max_size=6))
def test_the_tally_counts_over_all_who_wrote(
    writers: list[tuple[int, list[list[bytes]], bool]],
) -> None:
    """It says as many lines and bytes as the file has, whatever each of them remembers of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.jsonl")
        path.touch()
        memories: dict[int, Tally] = {}
        for writer, appends, removes in writers:
            if removes and path.stat().st_size:
                Path(f"{path}.tally").unlink(missing_ok=True)
            known = memories.get(writer)
            with Log(str(path), HastyDisk(), tally=f"{path}.tally", known=known) as log:
                for lines in appends:
                    data = join_lines(b"".join(line + b"\n" for line in lines), len(lines))
                    log.append(data, len(lines), durable=True)
            if log.acknowledged is not None:
                memories[writer] = Tally(log.acknowledged, log.end.size)
            if appends:
                assert read_tally(f"{path}.tally") == (log.acknowledged, log.end.size)

        data = path.read_bytes()
        if not any(removes for _, _, removes in writers):
            acknowledged = (data.count(b"\n"), len(data)) if data else None
            assert read_tally(f"{path}.tally") == acknowledged


@examples(20)
@given(appends=APPENDS, more=APPENDS)
def test_the_tally_counts_what_was_waited_for_together(
    appends: list[list[bytes]], more: list[list[bytes]]
) -> None:
    """Also where lines are synchronized after they were appended."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.jsonl")
        produce_log(path, appends)
        produce_log(path, more)

        data = path.read_bytes()
        acknowledged = (data.count(b"\n"), len(data)) if data else None
        assert read_tally(f"{path}.tally") == acknowledged


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_crash_while_a_torn_end_is_set_aside_loses_nothing(tmp_path: Path, steps: int) -> None:
    """Whatever the step: the torn bytes are in the file, or beside it."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"{}\ntorn")

    with pytest.raises(Crash):
        Log(str(path), CrashingDisk(steps))
    with Log(str(path), HastyDisk()) as log:
        assert log.read() == b"{}\n"

    assert b"torn" in [each.read_bytes() for each in tmp_path.glob("events.torn-*")]


class CarefulDisk(Ledger):
    """A disk that cuts nothing off, and tallies nothing, while anything is owed to it."""

    notes = 0
    is_interrupted = False

    def overwrite_start(self, descriptor: int, data: bytes) -> None:
        assert self.settle() == set(), "tallied before it was certain"
        super().overwrite_start(descriptor, data)
        self.notes += 1
        if self.is_interrupted:
            raise KeyboardInterrupt

    def truncate(self, descriptor: int, size: int) -> None:
        assert self.settle() == set(), "cut off before its copy was certain"
        super().truncate(descriptor, size)


@pytest.mark.parametrize("is_relative", [False, True])
def test_each_torn_end_is_set_aside_by_itself_and_for_certain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_relative: bool
) -> None:
    """The next one replaces none that is there."""
    monkeypatch.chdir(tmp_path)
    path, disk = tmp_path / "events.jsonl", CarefulDisk()
    path.write_bytes(b"{}\n")
    for number in (1, 2, 3):
        with path.open("ab") as file:
            file.write(b"torn %d" % number)
        with Log("events.jsonl" if is_relative else str(path), disk) as log:
            (notice,) = log.notices
            assert f"events.torn-{number}" in notice.message
            assert "(6 bytes," in notice.message
        assert disk.settle() == set()

    torn = {each.name: each.read_bytes() for each in tmp_path.glob("*torn*")}
    assert torn == {f"events.torn-{number}": b"torn %d" % number for number in (1, 2, 3)}
    assert path.read_bytes() == b"{}\n"


@pytest.mark.parametrize(
    "size", [0, 1, *(count * (1 << 16) + more for count in (1, 2, 4) for more in (-1, 0, 1))]
)
def test_a_line_is_read_from_where_it_begins_however_long_it_is(tmp_path: Path, size: int) -> None:
    """To its end and no further; one whose end is gone is told."""
    path, line = tmp_path / "events.jsonl", (b"0123456789abc" * (size // 13 + 1))[:size]
    path.write_bytes(b"{}\n" + line + b"\n[]\n")
    with Log(str(path), HastyDisk(), reading=True) as log:
        assert log.read_line(3) == line
        assert log.read_line(4 + size) == b"[]"
        path.write_bytes(b"{}\n" + line)
        with pytest.raises(StoreError, match="was truncated") as caught:
            log.read_line(3)
        assert caught.value.path == str(path)


def test_what_could_not_be_taken_back_is_taken_back_before_the_next_append(tmp_path: Path) -> None:
    """So that no line is ever written behind half of another."""

    class FailingDisk(HastyDisk):
        fails = False

        def write(self, descriptor: int, data: bytes) -> None:
            if self.fails:
                os.write(descriptor, data[:3])
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write(descriptor, data)

        def truncate(self, descriptor: int, size: int) -> None:
            if self.fails:
                raise OSError(errno.EIO, "Input/output error")
            super().truncate(descriptor, size)

    path, disk = tmp_path / "events.jsonl", FailingDisk()
    path.touch()
    with Log(str(path), disk) as log:
        log.append(b'{"a":1}\n')
        disk.fails = True
        with pytest.raises(OSError, match="No space left"):
            log.append(b'{"b":2}\n')
        with pytest.raises(OSError, match="Input/output"):
            log.append(b'{"b":2}\n')
        disk.fails = False
        log.append(b'{"c":3}\n')

    assert path.read_bytes() == b'{"a":1}\n{"c":3}\n'


def test_a_log_that_is_cut_while_it_is_walked_ends(tmp_path: Path) -> None:
    """Nobody waits for bytes that are gone."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"{}\n" * 3)

    with Log(str(path), HastyDisk(), reading=True) as log:
        path.write_bytes(b"{}\n")
        assert [line for _, line in log.walk()] == [b"{}"]


@pytest.mark.parametrize("block", [1, 2, 5, 64])
def test_a_log_is_walked_block_by_block_up_to_where_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    """What is written meanwhile is for the next who walks."""
    monkeypatch.setattr(log_module, "_BLOCK_BYTES", block)
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(8, 13)))
    walked = []
    with Log(str(path), HastyDisk(), reading=True) as log, path.open("ab", buffering=0) as file:
        for offset, line in log.walk():
            walked.append((offset, line))
            file.write(b"more\n")

    assert walked == [(0, b"8"), (2, b"9"), (4, b"10"), (7, b"11"), (10, b"12")]


@pytest.mark.parametrize(("size", "acknowledged"), [(2, None), (3, 7), (4, None)])
def test_what_is_known_of_a_log_holds_while_it_is_as_large(
    tmp_path: Path, size: int, acknowledged: int | None
) -> None:
    """Then it is not looked at again."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"{}\n")
    with Log(str(path), HastyDisk(), known=Tally(7, size)) as log:
        assert (log.acknowledged, log.end) == (acknowledged, (0, 3))


def test_what_is_certain_is_tallied_once_and_only_then(tmp_path: Path) -> None:
    """Also by who was interrupted at it."""
    path, disk = tmp_path / "events.jsonl", CarefulDisk()
    path.touch()
    with Log(str(path), disk, tally=f"{path}.tally") as log:
        log.append(b"{}\n")
        assert disk.notes == 0
        log.synchronize()
        log.synchronize()
        log.append(b"{}\n", durable=True)
        assert disk.notes == 2
        disk.is_interrupted = True
        with pytest.raises(KeyboardInterrupt):
            log.append(b"{}\n", durable=True)
        disk.is_interrupted = False
        log.append(b"{}\n", durable=True)

    assert read_tally(f"{path}.tally") == (4, 12)


@pytest.mark.parametrize("reading", [False, True])
def test_a_pipe_is_no_log_and_is_let_go_of(tmp_path: Path, reading: bool) -> None:
    path = tmp_path / "events.jsonl"
    os.mkfifo(path)
    os.close(free := os.dup(0))

    with pytest.raises(OSError, match="a pipe") as caught:
        Log(str(path), HastyDisk(), reading=reading)

    assert caught.value.filename == str(path)
    os.close(again := os.dup(0))
    assert again == free
