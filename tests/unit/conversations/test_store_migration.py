"""A store of the former layout is used as it is, and moved without a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stores.disks import Crash, CrashingDisk, Ledger
from vibe_llms.conversations import DirectoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores.migration import migrate
from vibe_llms.conversations.stores.sharding import name_shard
from vibe_llms.exceptions import StoreError
from vibe_llms.logs import locks
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of

NAMES = ("a", "b", "fork")


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    """Conversations in the former layout: all directly below one folder."""
    store = DirectoryStore(tmp_path)
    for identity in ("a", "b"):
        store.create(identity, ConversationMetadata())
        store.append(identity, [UserCanister(f"{identity}{number}") for number in range(3)])
    store.fork("a", child="fork")
    store.append("fork", [UserCanister("own")])
    for identity in NAMES:
        Path(store.locate(identity)).rename(Path(store.layout.root, identity))
    return store


def read(store: DirectoryStore) -> dict[str, list[str]]:
    return {each: [text_of(c) for c in store.read(each).canisters] for each in store.survey()}


def test_a_new_conversation_is_in_its_shard(tmp_path: Path) -> None:
    """A folder of ten million conversations would be slow to list, copy and back up."""
    store = DirectoryStore(tmp_path)
    store.create("a", ConversationMetadata())

    assert Path(store.locate("a")) == Path(store.layout.root, name_shard("a"), "a")


def test_the_former_layout_is_read_and_written(store: DirectoryStore) -> None:
    """Nothing has to be moved first, and nothing is created twice."""
    store.append("a", [UserCanister("more")])
    store.update_metadata("a", name="A name")
    with pytest.raises(StoreError, match="exists"):
        store.create("a", ConversationMetadata())
    store.delete("b")

    texts = ["a0", "a1", "a2"]
    assert read(store) == {"a": [*texts, "more"], "fork": [*texts, "own"]}
    assert Path(store.layout.root, "a", "messages.jsonl").exists()
    assert not verify(store).findings


def test_all_move(store: DirectoryStore) -> None:
    """Into the shards in which new ones are, with everything that is in their folders."""
    before = read(store)
    Path(store.locate("a"), "note.txt").write_text("mine")

    assert migrate(store).moved == 3

    assert read(store) == before
    assert {Path(store.locate(each)).parent.name for each in NAMES} == {*map(name_shard, NAMES)}
    assert Path(store.locate("a"), "note.txt").read_text() == "mine"
    assert (migrate(store).moved, verify(store).findings) == (0, ())


def test_one_in_the_wrong_shard_moves(store: DirectoryStore) -> None:
    """Such as one that a person has renamed."""
    migrate(store)
    folder = Path(store.locate("b"))
    folder.rename(folder.with_name("other"))
    assert "other" not in {*store.survey()}

    assert migrate(store).moved == 1

    assert read(store)["other"] == ["b0", "b1", "b2"]


def test_what_is_in_use_or_there_twice_stays(store: DirectoryStore) -> None:
    """It is reported, and moves another time."""
    Path(store.layout.root, name_shard("b"), "b").mkdir(parents=True)
    log = store.open_log("a")
    log.claim()

    done = migrate(store)

    assert (done.moved, done.busy, done.duplicates) == (1, ("a",), ("b",))
    assert Path(store.layout.root, "a").exists()
    log.close()
    assert migrate(store).moved == 1


def test_a_writer_that_waited_for_the_lock_finds_the_new_place(
    store: DirectoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append is added to the conversation that moved while it waited."""
    original = locks._try_lock
    waiting = [True]

    def try_lock(descriptor: int, shared: bool) -> bool:
        if waiting.pop() if waiting else False:
            migrate(store)
        return original(descriptor, shared)

    monkeypatch.setattr(locks, "_try_lock", try_lock)
    store.append("a", [UserCanister("more")])

    assert read(store)["a"] == ["a0", "a1", "a2", "more"]
    assert not Path(store.layout.root, "a").exists()


def test_a_crash_at_any_step_loses_nothing(store: DirectoryStore, tmp_path: Path) -> None:
    """Each conversation is in the one place or in the other."""
    before = read(store)
    for step in range(1, 100):
        try:
            migrate(DirectoryStore(tmp_path, disk=CrashingDisk(step)))
        except Crash:
            assert read(store) == before
        else:
            break
    assert read(store) == before
    assert not Path(store.layout.root, "a").exists()


def test_a_migration_is_on_the_disk_when_it_returns(store: DirectoryStore, tmp_path: Path) -> None:
    """A loss of power takes nothing back."""
    ledger = Ledger()

    migrate(DirectoryStore(tmp_path, disk=ledger))

    assert ledger.settle() == set()
