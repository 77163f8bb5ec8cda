"""The journal of a batch survives what may happen to it, and touches nobody else's file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.batches.file_journals import FileJournal
from vibe_llms.batches.item_lines import (
    decode_item,
    digest,
    encode_item,
)
from vibe_llms.batches.items import BatchItem
from vibe_llms.exceptions import ProviderError, ProviderFault, RequestError, StoreError
from vibe_llms.logs.disk import Disk
from vibe_llms.messages.canisters import Origin, StopReason, Usage

BATCH = digest("a batch")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COUNTS = st.none() | st.integers(0, 10**6)


def compose_line(
    index: int, *, name: str | None = None, text: str = "ä", failed: bool = False
) -> bytes:
    error = ProviderError(detail="no", fault=ProviderFault.SERVER) if failed else None
    item: BatchItem[Any] = BatchItem(
        index=index,
        id=name,
        value=None if failed else text,
        text=None if failed else text,
        error=error,
    )
    return encode_item(item, batch=BATCH, input_digest=digest(index))


def add(journal: FileJournal, line: bytes) -> None:
    journal.write([(decode_item(line), line)])


def write(path: Path, *lines: bytes) -> None:
    with FileJournal(path, BATCH) as journal:
        for line in lines:
            add(journal, line)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


def test_what_was_written_is_found_by_place_or_by_name(path: Path) -> None:
    """With whether it failed; what was not written is not found."""
    write(path, compose_line(0), compose_line(1, name="b", failed=True))

    with FileJournal(path, BATCH) as journal:
        first, second = journal.find(0, digest(0)), journal.find("b", digest(1))

        assert first is not None
        assert not first.has_failed
        assert second is not None
        assert second.has_failed
        assert journal.find(1, digest(1)) is None
        assert journal.read(first) == compose_line(0).rstrip()


def test_a_line_longer_than_a_block_is_read_whole(path: Path) -> None:
    """However long an answer was."""
    long = compose_line(1, text="long " * 500_000)
    write(path, compose_line(0), long, compose_line(2))

    with FileJournal(path, BATCH) as journal:
        entry = journal.find(1, digest(1))
        assert entry is not None
        assert journal.read(entry) + b"\n" == long
        add(journal, compose_line(3))

    assert path.read_bytes().endswith(compose_line(2) + compose_line(3))


@pytest.mark.slow
@pytest.mark.parametrize("kept", range(1, len(compose_line(1))))
def test_a_torn_line_is_set_aside_wherever_it_was_torn(path: Path, kept: int) -> None:
    """The lines before it count, it does not, and its bytes are not thrown away."""
    torn = compose_line(1)[:kept]
    path.write_bytes(compose_line(0) + torn)

    with FileJournal(path, BATCH) as journal:
        assert journal.find(0, digest(0)) is not None
        assert journal.find(1, digest(1)) is None
        assert "crash" in str(journal.findings[0])
        add(journal, compose_line(1))

    assert path.read_bytes() == compose_line(0) + compose_line(1)
    assert path.with_name("answers.torn-1").read_bytes() == torn


@pytest.mark.parametrize("found", [b"Dear diary", b"[1, 2]\n", b'{"name": "Ada"}\n', b"\x00\x01"])
def test_a_file_of_somebody_else_is_left_as_it_is(path: Path, found: bytes) -> None:
    """Also where its end looks torn."""
    path.write_bytes(found)

    with pytest.raises(StoreError, match="does not hold the results of a batch"):
        FileJournal(path, BATCH)

    assert path.read_bytes() == found
    assert list(path.parent.iterdir()) == [path]


def test_a_line_that_does_not_read_is_named(path: Path) -> None:
    """With file and line, and the way on."""
    path.write_bytes(compose_line(0) + b'{"batch":"x"}\n')

    with pytest.raises(StoreError, match=r"answers.jsonl:2: .*processed again"):
        FileJournal(path, BATCH)


def test_a_journal_of_other_settings_is_refused(path: Path) -> None:
    """It is left as it is."""
    write(path, compose_line(0))
    kept = path.read_bytes()

    with pytest.raises(RequestError, match="other settings"):
        FileJournal(path, digest("another batch"))

    assert path.read_bytes() == kept


def test_two_do_not_write_to_one_journal(path: Path) -> None:
    """The second is told at once."""
    with FileJournal(path, BATCH), pytest.raises(StoreError, match="Another batch is writing"):
        FileJournal(path, BATCH)

    write(path, compose_line(0))


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the remedy."""
    with pytest.raises(StoreError, match=r"Cannot open .*No such file.*existing folder"):
        FileJournal(tmp_path / "none" / "answers.jsonl", BATCH)


def test_a_journal_is_a_file(tmp_path: Path) -> None:
    """What is none cannot be gone on with."""
    with pytest.raises(StoreError, match="not a regular file"):
        FileJournal(tmp_path, BATCH)


def test_a_full_disk_leaves_whole_lines(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was half written is taken back, and the error says how to go on."""
    write(path, compose_line(0))

    def write_half(self: Disk, descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:20])
        raise OSError(28, "No space left on device")

    with FileJournal(path, BATCH) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(Disk, "write", write_half)
            with pytest.raises(StoreError, match=r"No space left.*run the same command"):
                add(journal, compose_line(1))
        add(journal, compose_line(2))

    assert path.read_bytes() == compose_line(0) + compose_line(2)


def test_an_interrupt_after_a_line_was_written_leaves_no_item_twice(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not acknowledged is taken back whole, so that nobody has been told of it."""
    write_whole = Disk.write

    def write_and_stop(self: Disk, descriptor: int, data: bytes) -> None:
        write_whole(self, descriptor, data)
        raise KeyboardInterrupt

    with FileJournal(path, BATCH) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(Disk, "write", write_and_stop)
            with pytest.raises(KeyboardInterrupt):
                add(journal, compose_line(1, text="long " * 20))
        add(journal, compose_line(0))
        add(journal, compose_line(1))
        journal.settle()

    assert path.read_bytes() == compose_line(0) + compose_line(1)


def test_an_interrupt_while_settling_leaves_all_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file stays, and no other beside it."""
    write(path, compose_line(1), compose_line(0))
    before = path.read_bytes()

    def stop(self: Disk, source: str, target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Disk, "rename", stop)
    with FileJournal(path, BATCH) as journal, pytest.raises(KeyboardInterrupt):
        journal.settle()

    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_what_a_crash_has_left_of_settling_goes_with_the_next(path: Path) -> None:
    """It may be as long as the journal; what others have beside it stays."""
    write(path, compose_line(1), compose_line(0))
    left = path.with_name(f".{path.name}.0123abcd")
    other = path.with_name(f".{path.name}.notes")
    for each in (left, other):
        each.write_bytes(compose_line(0))

    with FileJournal(path, BATCH) as journal:
        journal.settle()

    assert sorted(path.parent.iterdir()) == sorted([path, other])


def test_the_last_line_of_an_item_counts_and_stays(path: Path) -> None:
    """Settling leaves one line an item, in the order of the inputs."""
    write(path, compose_line(0, failed=True), compose_line(1), compose_line(0))

    with FileJournal(path, BATCH) as journal:
        entry = journal.find(0, digest(0))
        assert entry is not None
        assert not entry.has_failed
        journal.settle()

    assert path.read_bytes() == compose_line(0) + compose_line(1)


def test_settling_in_order_sorts_by_the_places_of_the_inputs(path: Path) -> None:
    """Through one replacement of the file."""
    write(path, *(compose_line(index) for index in (3, 0, 2, 1)))

    with FileJournal(path, BATCH) as journal:
        journal.settle()

    assert path.read_bytes() == b"".join(compose_line(index) for index in range(4))
    assert list(path.parent.iterdir()) == [path]


def test_settling_leaves_alone_what_is_right(path: Path) -> None:
    """A file that is in order is not written anew."""
    write(path, *(compose_line(index) for index in range(3)))
    before = path.stat()

    with FileJournal(path, BATCH) as journal:
        journal.settle()

    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_disk_that_fails_while_settling_leaves_all_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file stays, and no other beside it."""
    write(path, compose_line(1), compose_line(0))
    before = path.read_bytes()

    def refuse(self: Disk, source: str, target: str) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Disk, "rename", refuse)
    with FileJournal(path, BATCH) as journal, pytest.raises(StoreError, match="Input/output"):
        journal.settle()

    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@examples(60)
@given(
    index=st.integers(0, 10**9),
    name=st.none() | TEXTS,
    text=TEXTS,
    counts=st.tuples(COUNTS, COUNTS, COUNTS),
    stop=st.sampled_from(StopReason),
    losses=st.lists(TEXTS, max_size=2),
)
def test_an_item_reads_back_as_it_was(
    index: int,
    name: str | None,
    text: str,
    counts: tuple[int | None, int | None, int | None],
    stop: StopReason,
    losses: list[str],
) -> None:
    """But for the response, and what the vendor said of the usage in its own words."""
    usage = Usage(input_tokens=counts[0], cache_read_tokens=counts[1], output_tokens=counts[2])
    item: BatchItem[str] = BatchItem(
        index=index,
        id=name,
        value=text,
        text=text,
        origin=Origin(provider="p", model="m", response_id="r", stop_reason=stop, usage=usage),
        losses=tuple(losses),
        seconds=0.125,
        is_stored=True,
    )

    line = encode_item(item, batch=BATCH, input_digest=digest(text))

    assert line.count(b"\n") == 1
    assert decode_item(line) == item


def test_a_failure_reads_back_as_the_same_error() -> None:
    """With its class and its facts."""
    error = ProviderError(provider="p", detail="busy", fault=ProviderFault.OVERLOADED, status=529)
    item: BatchItem[str] = BatchItem(index=0, error=error)

    read = decode_item(encode_item(item, batch=BATCH, input_digest=""))

    assert isinstance(read.error, ProviderError)
    assert (str(read.error), read.error.status) == (str(error), 529)


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("text", "text", True),
        ("text", ["text"], False),
        (1, "1", False),
        (None, "", False),
    ],
)
def test_a_digest_names_what_json_says(one: Any, other: Any, is_same: bool) -> None:
    """Whatever the order of keys; a text is told from what would be written like it."""
    assert (digest(one) == digest(other)) is is_same
