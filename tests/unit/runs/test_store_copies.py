"""A store is copied into another whole, says so because it has looked, and writes over nothing."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from disks import Crash, CrashingDisk, HastyDisk
from properties import STEP, examples
from stored import ENDED, change, describe, is_whole, say_more
from vibe_llms.conversations import DirectoryStore, MemoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.events.engine import RunStartedEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.runs.copying import copy_store
from vibe_llms.runs.places import produce_log


def produce(path: Path | None) -> DirectoryStore | MemoryStore:
    """Returns an empty store: in a directory, or in memory."""
    return MemoryStore() if path is None else DirectoryStore(path, disk=HastyDisk())


def check_equal(source: DirectoryStore | MemoryStore, target: DirectoryStore | MemoryStore) -> None:
    """Copies, and holds both sides against each other by what they read."""
    report = copy_store(source, target)

    assert report.is_whole, report
    assert describe(target) == describe(source)
    assert not verify(target).findings


@examples(60)
@given(seed=st.integers(0, 10_000), here=st.booleans(), there=st.booleans())
def test_000_what_is_copied_reads_as_what_it_was_copied_from(
    seed: int, here: bool, there: bool
) -> None:
    """Whatever was done, between any two stores, and after more was done since: also back again."""
    with tempfile.TemporaryDirectory() as folder:
        source = produce(Path(folder, "source") if here else None)
        target = produce(Path(folder, "target") if there else None)
        change(source, seed)
        check_equal(source, target)
        change_without_loss(source, seed + 1)
        check_equal(source, target)
        check_equal(target, produce(Path(folder, "back") if here else None))


def change_without_loss(store: DirectoryStore | MemoryStore, seed: int) -> None:
    """Lets every conversation go on; what was deleted stays at the other side."""
    for identity in list(store.survey()):
        say_more(store, identity, f"more {seed}")
        store.update_metadata(identity, name=f"{seed}")


def test_010_what_nobody_wrote_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A side that keeps less than it was given fails the comparison."""
    source, target = MemoryStore(), MemoryStore()
    source.create("a", ConversationMetadata())
    say_more(source, "a", "hello")
    append = MemoryStore.append

    def forget(store: MemoryStore, identity: str, canisters: list[UserCanister]) -> object:
        return append(store, identity, canisters[:1])

    monkeypatch.setattr(MemoryStore, "append", forget)
    report = copy_store(source, target)

    assert not report.is_whole
    differing = [each.kind for each in report.comparisons if each.source != each.target]
    assert differing == ["conversations", "canisters"]


def test_020_another_conversation_of_the_same_id_is_left_alone(tmp_path: Path) -> None:
    """What differs, or is ahead, stays as it is there; forks of it do not come; the rest does."""
    source, target = MemoryStore(), DirectoryStore(tmp_path)
    for store, text in ((source, "here"), (target, "there")):
        for identity in ("differs", "ahead", "log"):
            store.create(identity, ConversationMetadata())
        store.append("differs", [UserCanister(text)])
    source.fork("differs", child="fork")
    source.create("whole", ConversationMetadata())
    say_more(target, "ahead", "more")
    log = produce_log(target, "log")
    log.claim()
    log.append("run", ENDED)
    log.close()
    before = describe(target)["conversations"]

    report = copy_store(source, target)

    told = {each.place: each.message for each in report.refused}
    assert "differs from canister 1 on" in told["differs"]
    assert "ahead: it has 2 canister(s) more" in told["ahead"]
    assert "ahead: it has 1 event(s) more" in told["log"]
    assert told["fork"] == "Its parent differs was not copied."
    assert report.added == ("whole",)
    assert not report.is_whole
    after = describe(target)["conversations"]
    assert {each: after[each] for each in before} == before


def test_030_a_run_on_its_way_is_told_and_not_disturbed() -> None:
    """It is copied as far as it was; a later copy has the rest."""
    source, target = MemoryStore(), MemoryStore()
    source.create("a", ConversationMetadata())
    log = produce_log(source, "a")
    log.claim()
    log.append("run", RunStartedEvent(run_id="run", conversation_id="a", model="m", length=1))

    first = copy_store(source, target)
    log.append("run", ENDED)
    log.close()
    second = copy_store(source, target)

    assert first.working == ("a",)
    assert first.is_whole
    assert second.working == ()
    assert second.extended == ("a",)
    assert describe(target) == describe(source)


def test_040_a_run_at_the_other_side_keeps_what_it_has() -> None:
    """Nothing is added to a log that a run there has claimed."""
    source, target = MemoryStore(), MemoryStore()
    source.create("a", ConversationMetadata())
    copy_store(source, target)
    say_more(source, "a", "more")
    claimed = produce_log(target, "a")
    claimed.claim()

    report = copy_store(source, target)

    assert "on its way" in report.refused[0].message
    assert not list(claimed.read())


def test_050_killed_at_any_write_the_copy_leaves_whole_conversations(tmp_path: Path) -> None:
    """Each is there with all that belongs to it, or not at all; the next copy brings the rest."""
    source = MemoryStore()
    for seed in range(3):
        change(source, seed, 10)
    wanted = describe(source)
    for number in count(1, STEP):
        path = tmp_path / str(number)
        disk = CrashingDisk(number)
        with suppress(Crash):
            copy_store(source, DirectoryStore(path, disk=disk, wait_seconds=0.1))
        if disk.steps > 0:
            break
        left = DirectoryStore(path, disk=HastyDisk())
        assert is_whole(left, wanted), number
        assert copy_store(source, left).is_whole
        assert describe(left) == wanted
    assert number > 20


def test_060_a_damaged_conversation_is_told_and_the_rest_copied(tmp_path: Path) -> None:
    """A line that does not read, of what was said or of a log, is named."""
    source, target = DirectoryStore(tmp_path), MemoryStore()
    for identity in ("a", "b", "c"):
        source.create(identity, ConversationMetadata())
        say_more(source, identity, identity)
    for identity, name in (("a", "messages.jsonl"), ("b", "runs.jsonl")):
        path = Path(source.locate(identity), name)
        path.write_bytes(b"?" + path.read_bytes()[1:])

    report = copy_store(source, target)

    assert {each.place for each in report.refused} == {"a", "b"}
    assert list(target.survey()) == ["c"]


def test_070_a_store_is_not_copied_into_itself(tmp_path: Path) -> None:
    """However it is written."""
    with pytest.raises(StoreError, match="into itself"):
        copy_store(DirectoryStore(tmp_path), DirectoryStore(tmp_path / "x" / ".."))
