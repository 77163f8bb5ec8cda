"""A list looks only into shards that have changed, and misses nothing that was acknowledged."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from support.stores.ages import age_shards
from support.stores.disks import Crash, CrashingDisk
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.index import ConversationIndex, refresh
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores import marks
from vibe_llms.conversations.stores.sharding import name_shard
from vibe_llms.messages.canisters import UserCanister

COUNT = 40


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """Some conversations, of which the newest message is old."""
    store = DirectoryStore(tmp_path)
    for number in range(COUNT):
        store.create(f"c{number}", ConversationMetadata())
        store.append(f"c{number}", [UserCanister("word")])
    age_shards(store)
    return store


@pytest.fixture
def index(store: DirectoryStore, tmp_path: Path) -> ConversationIndex:
    """An index that has seen them."""
    index = ConversationIndex(store.layout.root, tmp_path / "index.sqlite")
    assert len(index.survey()) == 20
    return index


def count(index: ConversationIndex) -> dict[str, int]:
    return {row.id: row.canisters for row in index.survey(limit=10 * COUNT)}


def count_naively(store: DirectoryStore) -> dict[str, int]:
    return {each: len(store.read(each).canisters) for each in store.survey()}


def count_measured(index: ConversationIndex, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the files and folders that a list of one conversation looks at, by their names."""
    asked: Counter[str] = Counter()
    original = os.stat

    def stat(path: object, **more: object) -> os.stat_result:
        asked[Path(str(path)).name] += 1
        return original(path, **more)  # type: ignore[call-overload, no-any-return]

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", stat)
        index.survey(limit=1)
    return asked


def test_a_list_looks_at_no_conversation_of_unchanged_shards(
    store: DirectoryStore, index: ConversationIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its work is one look at each shard, and at the conversations of those that have changed."""
    shards = {name_shard(each) for each in store.survey()}
    index.survey()

    asked = count_measured(index, monkeypatch)
    assert asked["messages.jsonl"] == 0
    assert {name: asked[name] for name in shards} == dict.fromkeys(shards, 1)

    store.append("c7", [UserCanister("more")])
    beside = [each for each in store.survey() if name_shard(each) == name_shard("c7")]
    assert count_measured(index, monkeypatch)["messages.jsonl"] == len(beside)


def test_each_change_is_listed(store: DirectoryStore, index: ConversationIndex) -> None:
    """Also the ones that follow when the first was listed, and those of other stores' objects."""
    other = DirectoryStore(Path(store.layout.root).parent)
    for writer in (store, other, store, other):
        writer.append("c7", [UserCanister("more")])
        assert count(index) == count_naively(store)
    age_shards(store)
    store.fork("c7", child="fork")
    assert count(index) == count_naively(store)
    age_shards(store)
    assert count(index) == count_naively(store)
    store.delete("c7")  # its fork receives what they share
    assert count(index) == count_naively(store)
    age_shards(store)
    store.update_metadata("c8", name="A name")
    assert "A name" in {row.name for row in index.survey(limit=COUNT)}


@pytest.mark.slow
def test_a_change_is_listed_when_its_writer_is_killed(
    store: DirectoryStore, index: ConversationIndex
) -> None:
    """At any step: what can be read is listed, whether it was acknowledged or not."""
    root = Path(store.layout.root).parent
    outcomes = set()
    for step in range(1, 40):
        age_shards(store)
        assert count(index) == count_naively(store)
        assert count(index) == count_naively(store)
        victim = DirectoryStore(root, disk=CrashingDisk(step))
        before = len(store.read("c7").canisters)
        try:
            victim.append("c7", [UserCanister(f"step {step}")])
        except Crash:
            outcomes.add(len(store.read("c7").canisters) - before)
        else:
            outcomes.add(2)
        assert count(index) == count_naively(store), step
    assert outcomes == {0, 1, 2}


def test_a_list_in_the_midst_of_a_change_hides_nothing(
    store: DirectoryStore, index: ConversationIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list between a writer's mark and its write, which may take long, is no obstacle."""
    now = time.time_ns()
    late = marks.RENEWAL_NS + 1
    original = store.disk.write
    for pause in (0, late):
        age_shards(store)
        assert count(index) == count_naively(store)

        def write(descriptor: int, data: bytes, pause: int = pause) -> None:
            count(index)
            monkeypatch.setattr(time, "time_ns", lambda: now + pause)
            original(descriptor, data)

        with monkeypatch.context() as patch:
            patch.setattr(store.disk, "write", write)
            store.append("c7", [UserCanister("more")])
        assert count(index) == count_naively(store)


def test_all_are_compared_after_a_day_or_a_restart(
    store: DirectoryStore, index: ConversationIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit by hand, and a time that a loss of power took, are found then."""
    for passed in ("_COMPARISON_NS", "_RESTART_NS"):
        path = Path(store.layout.messages("c7"))
        path.write_bytes(path.read_bytes() * 2)
        assert count(index) != count_naively_by_lines(store)
        with monkeypatch.context() as patch:
            patch.setattr(refresh, passed, 0)
            assert count(index) == count_naively_by_lines(store)
        assert count(index) == count_naively_by_lines(store)


def count_naively_by_lines(store: DirectoryStore) -> dict[str, int]:
    return {
        each: Path(store.layout.messages(each)).read_bytes().count(b"\n") for each in store.survey()
    }


def test_a_list_of_all_compares_all(store: DirectoryStore, index: ConversationIndex) -> None:
    """So a user need not wait after an edit by hand."""
    path = Path(store.layout.messages("c7"))
    path.write_bytes(path.read_bytes() * 2)

    rows = {row.id: row.canisters for row in index.survey(limit=None)}

    assert rows == count_naively_by_lines(store)
