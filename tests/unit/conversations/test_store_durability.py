"""Acknowledged means on the disk, and a machine that stops between two steps harms nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from support.quality.properties import STEP
from support.stores.disks import Crash, CrashingDisk, HastyDisk, Ledger
from vibe_llms.conversations import Conversation, DirectoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.proof import collect_content, plan_collection
from vibe_llms.exceptions import StoreError, UnknownConversationError
from vibe_llms.logs import locks
from vibe_llms.logs.disk import Disk
from vibe_llms.messages.canisters import AnyCanister, UserCanister
from vibe_llms.messages.contents import ImageContent

PICTURE = ImageContent(mime_type="image/png", data=b"\x89PNG")


def begin(store: DirectoryStore, identity: str, *texts: str) -> None:
    store.create(identity, ConversationMetadata())
    store.append(identity, [UserCanister(text) for text in texts])


OPERATIONS: dict[str, Callable[[DirectoryStore], object]] = {
    "create": lambda store: store.create("new", ConversationMetadata(name="x")),
    "append": lambda store: store.append("a", [UserCanister("more")]),
    "append media": lambda store: store.append("a", [UserCanister([PICTURE])]),
    "append known media": lambda store: store.append(
        "a", [UserCanister([ImageContent(mime_type="text/plain", data=b"known")])]
    ),
    "add content": lambda store: store.contents.add(b"x", mime_type="text/plain"),
    "fork": lambda store: store.fork("a"),
    "fork within": lambda store: store.fork("a", from_index=1),
    "rename": lambda store: store.update_metadata("a", name="renamed"),
    "delete": lambda store: store.delete("a"),
    "delete a leaf": lambda store: store.delete("c"),
    "collect": lambda store: collect_content(
        store, plan_collection(store, grace_seconds=0), grace_seconds=0
    ),
}


def populate(path: Path, disk: Disk | None = None) -> DirectoryStore:
    """Makes a root with three forks, one of them forked again, and some idle content."""
    store = DirectoryStore(path, disk=disk, wait_seconds=0.5)
    begin(store, "root", "0")
    store.fork("root", child="a")
    store.append("a", [UserCanister("1"), UserCanister("2")])
    store.fork("a", child="b")
    store.append("b", [UserCanister("3")])
    store.fork("a", from_index=2, child="c")
    store.append("c", [UserCanister("4")])
    store.fork("a", from_index=1, child="d")
    store.fork("b", child="e")
    store.append("e", [UserCanister("5")])
    store.contents.add(b"known", mime_type="text/plain")
    return store


def read_all(store: DirectoryStore) -> dict[str, tuple[AnyCanister, ...]]:
    return {identity: store.read(identity).canisters for identity in store.survey()}


@pytest.mark.parametrize("name", OPERATIONS)
def test_000_nothing_is_acknowledged_before_it_is_on_the_disk(name: str, tmp_path: Path) -> None:
    """When a method returns, neither bytes nor entries wait to be synchronized."""
    ledger = Ledger()
    store = populate(tmp_path / "data", ledger)
    assert ledger.settle() == set()

    OPERATIONS[name](store)

    assert ledger.settle() == set()


def test_001_the_disk_asks_the_system_to_synchronize(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append makes one `fdatasync`, of its own file, after the write and before the tally."""
    store = populate(tmp_path)
    calls: list[str] = []
    for name in ("write", "pwrite", "fsync", "fdatasync"):
        original = getattr(os, name)

        def spy(descriptor: int, *rest: object, name: str = name, original=original) -> object:
            calls.append(f"{name} {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
            return original(descriptor, *rest)

        monkeypatch.setattr(os, name, spy)

    store.append("a", [UserCanister("more")])

    assert calls == [
        "write messages.jsonl",
        "fdatasync messages.jsonl",
        "pwrite messages.tally",
    ]


@pytest.mark.parametrize("failing", ["write", "synchronize"])
def test_002_a_write_that_fails_is_taken_back(failing: str, tmp_path: Path) -> None:
    """A full disk costs a message, not the conversation; the message can be saved later."""

    class FullDisk(Disk):
        full = True

        def write(self, descriptor: int, data: bytes) -> None:
            super().write(descriptor, data[:10] if self.fails("write") else data)
            self.fail("write")

        def synchronize(self, descriptor: int) -> None:
            self.fail("synchronize")

        def fails(self, step: str) -> bool:
            return self.full and step == failing

        def fail(self, step: str) -> None:
            if self.fails(step):
                raise OSError(28, "No space left on device")

    populate(tmp_path)
    disk = FullDisk()
    store = DirectoryStore(tmp_path, disk=disk)
    path = Path(store.layout.messages("a"))
    before = path.read_bytes()
    conversation = Conversation.restore(store, "a")
    conversation.add_user_message("important")

    with pytest.raises(StoreError, match=r"No space left on device\. ") as caught:
        conversation.save(store)
    assert caught.value.path == str(path)
    assert path.read_bytes() == before
    disk.full = False
    conversation.save(store)

    assert store.read("a").canisters == tuple(conversation.canisters)
    assert conversation.notices == ()


@pytest.mark.parametrize("within", [None, 1])
def test_003_a_fork_is_not_acknowledged_before_what_it_shares_is_on_the_disk(
    within: int | None, tmp_path: Path
) -> None:
    """Lines may wait for the disk still when the process that wrote them was killed."""
    ledger = Ledger()
    store = populate(tmp_path / "data", ledger)
    ledger.owed.add(store.layout.messages("a"))

    store.fork("a", from_index=within)

    assert ledger.settle() == set()


@pytest.mark.parametrize("name", ["create", "append media", "add content", "fork", "rename"])
def test_004_what_fails_on_a_full_disk_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    """What was half written is removed, so that trying again does not fill the disk further."""

    class FullDisk(Disk):
        def write(self, descriptor: int, data: bytes) -> None:
            super().write(descriptor, data[:10])
            raise OSError(28, "No space left on device")

    def list_files() -> set[Path]:
        return {path for path in tmp_path.rglob("*") if path.is_file()}

    populate(tmp_path)
    before = list_files()

    with pytest.raises(StoreError, match="No space left") as caught:
        OPERATIONS[name](DirectoryStore(tmp_path, disk=FullDisk()))

    assert caught.value.path.startswith(str(tmp_path)), "which disk is full must be known"
    assert list_files() == before


def crash_everywhere(
    pristine: Path, work: Path, operation: Callable[[DirectoryStore], object]
) -> Iterator[DirectoryStore]:
    """Yields the store after a crash at each step of an operation, in turn."""
    for steps in count(1):
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(pristine, work)
        try:
            operation(DirectoryStore(work, disk=CrashingDisk(steps)))
        except Crash:
            yield DirectoryStore(work, disk=HastyDisk(), wait_seconds=0.5)
        else:
            assert steps > 2
            return


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_010_a_crash_at_any_step_leaves_all_or_nothing(name: str, tmp_path: Path) -> None:
    """Whatever was being done, all that was acknowledged before is there, and work goes on."""
    before = read_all(populate(tmp_path / "pristine", HastyDisk()))
    target = {"delete": "a", "delete a leaf": "c"}.get(name)

    for store in crash_everywhere(tmp_path / "pristine", tmp_path / "work", OPERATIONS[name]):
        store.append("b", [UserCanister("first thing after the crash")])

        after = read_all(store)
        for identity, canisters in before.items():
            if identity == target and identity not in after:
                with pytest.raises(UnknownConversationError):
                    store.append(identity, [UserCanister("late")])
            else:
                assert after[identity][: len(canisters)] == canisters
        assert len(after["b"]) == len(before["b"]) + 1
        assert verify(store).findings == ()
        store.delete("b")
        assert read_all(store)["e"] == before["e"]


@pytest.mark.slow
@pytest.mark.samples
def test_011_a_crash_while_recovering_from_a_crash_is_harmless(tmp_path: Path) -> None:
    """Ending an interrupted deletion can itself be interrupted, at any step, again and again."""
    before = read_all(populate(tmp_path / "pristine", HastyDisk()))
    recoveries = 0

    crashes = crash_everywhere(tmp_path / "pristine", tmp_path / "once", OPERATIONS["delete"])
    for number, store in enumerate(crashes):
        if number % STEP or not os.path.lexists(store.layout.deleting):
            continue
        root = tmp_path / "once"
        for steps in count(1):
            shutil.rmtree(tmp_path / "twice", ignore_errors=True)
            shutil.copytree(root, tmp_path / "twice")
            try:
                DirectoryStore(tmp_path / "twice", disk=CrashingDisk(steps)).read("b")
            except Crash:
                recoveries += 1
            else:
                break
            again = DirectoryStore(tmp_path / "twice", disk=HastyDisk(), wait_seconds=0.5)
            again.append("b", [UserCanister("on")])
            after = read_all(again)
            for identity in set(before) - {"a", "b"}:
                assert after[identity] == before[identity]
            assert after["b"][:-1] == before["b"]
            assert verify(again).findings == ()

    assert recoveries > 20 // STEP


def test_012_content_is_never_referred_to_before_it_is_there(tmp_path: Path) -> None:
    """A crash between the picture and its message leaves idle content, never a broken message."""
    populate(tmp_path / "pristine", HastyDisk())

    for store in crash_everywhere(
        tmp_path / "pristine", tmp_path / "work", OPERATIONS["append media"]
    ):
        for canister in store.read("a").canisters:
            for content in canister.content:
                if isinstance(content, ImageContent):
                    assert store.contents.read(content.content_id or "") == b"\x89PNG"


@pytest.mark.parametrize("again", [True, False])
def test_020_a_lock_that_was_replaced_while_it_was_waited_for_is_not_taken(
    again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has no name any more locks out nobody who comes later."""
    path = tmp_path / "lock"
    path.touch()
    take = locks._try_lock

    def take_late(descriptor: int, shared: bool) -> bool:
        monkeypatch.setattr(locks, "_try_lock", take)
        path.rename(tmp_path / "gone")
        if again:
            path.touch()
        return take(descriptor, shared)

    monkeypatch.setattr(locks, "_try_lock", take_late)

    if not again:
        with pytest.raises(FileNotFoundError):
            locks.acquire(str(path))
        return
    held = locks.acquire(str(path))
    assert os.path.samestat(os.fstat(held.fileno()), path.stat())
    locks.release(held)


def test_021_a_lock_that_was_given_back_does_not_stay_with_a_child(tmp_path: Path) -> None:
    """A process that was forked off meanwhile shares the open file, as a second descriptor does."""
    path = tmp_path / "lock"
    path.touch()
    held = locks.acquire(str(path))
    inherited = os.dup(held.fileno())

    locks.release(held)

    locks.release(locks.acquire(str(path), wait_seconds=0))
    os.close(inherited)
