"""A store keeps the files of a few conversations open, and never appends to a wrong file."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from support.stores.disks import Crash, CrashingDisk, HastyDisk, Ledger
from vibe_llms.conversations import DirectoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.stores import open_files
from vibe_llms.conversations.stores.migration import migrate
from vibe_llms.exceptions import StaleConversationError, StoreError, UnknownConversationError
from vibe_llms.logs.locks import locked
from vibe_llms.logs.tallies import Tally, read_tally
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.views import text_of


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DirectoryStore:
    """A store that keeps the files of the conversation ``a`` open."""
    monkeypatch.setattr(open_files, "SETTLED_NS", 0)
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    store.create("a", ConversationMetadata())
    settle()
    say(store, "0")
    say(store, "1")
    return store


def settle() -> None:
    """Wait until the times of files differ from earlier ones."""
    time.sleep(0.02)


def say(store: DirectoryStore, text: str, identity: str = "a") -> None:
    store.append(identity, [UserCanister(text)])


def texts(store: DirectoryStore, identity: str = "a") -> list[str]:
    return [text_of(each) for each in store.read(identity).canisters]


def keeps(store: DirectoryStore, identity: str = "a") -> bool:
    return identity in store.guards.logs._open_logs


def replace_messages(store: DirectoryStore) -> None:
    """Restore a backup, with the former time of the folder, as synchronizing tools do."""
    folder = Path(store.locate("a"))
    former = folder.stat().st_mtime_ns
    shutil.copy(folder / "messages.jsonl", folder / "draft")
    (folder / "draft").rename(folder / "messages.jsonl")
    os.utime(folder, ns=(former, former))


def replace_lock(store: DirectoryStore) -> None:
    path = Path(store.locate("a"), "lock")
    path.unlink()
    path.touch()


def replace_folder(store: DirectoryStore) -> None:
    folder = Path(store.locate("a"))
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)


def move_folder(store: DirectoryStore) -> None:
    Path(store.locate("a")).rename(Path(store.layout.root, "a"))


def move_back(store: DirectoryStore) -> None:
    move_folder(store)
    migrate(DirectoryStore(Path(store.layout.root).parent))


def remove_tally(store: DirectoryStore) -> None:
    Path(store.locate("a"), "messages.tally").unlink()


def rename(store: DirectoryStore) -> None:
    store.update_metadata("a", name="A name")


@pytest.mark.parametrize(
    "change",
    [
        replace_messages,
        replace_lock,
        replace_folder,
        move_folder,
        move_back,
        remove_tally,
        rename,
    ],
)
def test_what_changed_in_the_folder_is_opened_again(
    store: DirectoryStore, change: Callable[[DirectoryStore], None]
) -> None:
    """An append is in the file that readers read, and is counted in its tally."""
    assert keeps(store)
    settle()
    change(store)

    say(store, "2")

    assert texts(store) == texts(DirectoryStore(Path(store.layout.root).parent)) == ["0", "1", "2"]
    size = Path(store.layout.messages("a")).stat().st_size
    assert read_tally(store.layout.tally("a")) == Tally(3, size)
    assert not verify(store).findings


def test_a_deleted_conversation_receives_nothing(store: DirectoryStore) -> None:
    """Deleted by another process, by this one, or deleted and created again."""
    other = DirectoryStore(Path(store.layout.root).parent)
    for deleting in (other, store):
        deleting.delete("a")
        with pytest.raises(UnknownConversationError):
            say(store, "2")
        store.create("a", ConversationMetadata())
        settle()
        say(store, "new")
        assert texts(store) == texts(other) == ["new"]
        say(store, "newer")


def test_a_fork_that_received_its_parent_is_opened_again(store: DirectoryStore) -> None:
    """A deletion replaces the messages of the forks."""
    store.fork("a", child="fork")
    settle()
    say(store, "2", "fork")
    say(store, "3", "fork")
    assert keeps(store, "fork")

    DirectoryStore(Path(store.layout.root).parent).delete("a")
    say(store, "4", "fork")

    assert texts(store, "fork") == ["0", "1", "2", "3", "4"]
    assert not verify(store).findings


def test_what_another_writes_is_found(store: DirectoryStore) -> None:
    """Two stores that both keep the files open append in turns."""
    other = DirectoryStore(Path(store.layout.root).parent)
    for number in range(2, 8):
        say((store, other)[number % 2], str(number))

    assert keeps(store)
    assert keeps(other)
    assert texts(store) == list("01234567")
    assert not verify(store).findings


def test_threads_exclude_each_other(store: DirectoryStore) -> None:
    """They do not share a lock, which would exclude no thread."""
    inside, most = [0], [0]
    original = store.disk.write

    def write(descriptor: int, data: bytes) -> None:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.001)
        original(descriptor, data)
        inside[0] -= 1

    store.disk.write = write  # type: ignore[method-assign]
    threads = [
        threading.Thread(target=lambda: [say(store, "x") for _ in range(10)]) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1]
    assert len(texts(store)) == 62
    assert not verify(store).findings


def append_in_child(store: DirectoryStore) -> None:
    assert store.guards.logs.lock("a", 1.0) is None
    for _ in range(50):
        say(store, "child")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_process_opens_files_of_its_own(store: DirectoryStore) -> None:
    """A lock that it has inherited would be its parent's, too."""
    child = multiprocessing.get_context("fork").Process(target=append_in_child, args=(store,))
    child.start()
    for _ in range(50):
        say(store, "parent")
    child.join()

    assert (child.exitcode, len(texts(store))) == (0, 102)
    assert not verify(store).findings


@pytest.mark.parametrize("method", ["lock", "drop", "keep"])
def test_a_child_process_leaves_its_parents_lock(store: DirectoryStore, method: str) -> None:
    """The child closes the files that it has inherited while the parent appends."""
    logs = store.guards.logs
    open_log = logs._open_logs["a"]
    open_log.log.lock(0)

    child = multiprocessing.get_context("fork").Process(
        target=close_in_child, args=(logs, open_log, method)
    )
    child.start()
    child.join()

    assert child.exitcode == 0
    path = str(Path(store.locate("a"), "lock"))
    with pytest.raises(StoreError), locked(path, wait_seconds=0):
        pass


def close_in_child(logs: open_files.LogCache, open_log: open_files.OpenLog, method: str) -> None:
    if method == "lock":
        assert logs.lock("a", 0) is None
    elif method == "drop":
        logs.drop("a")
    else:
        logs.keep("a", open_log)  # replaces itself, as another thread's does


def test_few_stay_open_and_none_without_the_store(store: DirectoryStore, tmp_path: Path) -> None:
    """A process has a limit of open files."""
    before = count_open(tmp_path)
    for number in range(3 * open_files.CAPACITY):
        store.create(f"c{number}", ConversationMetadata())
        settle()
        say(store, "0", f"c{number}")

    assert len(store.guards.logs._open_logs) == open_files.CAPACITY
    assert count_open(tmp_path) == before + 3 * (open_files.CAPACITY - 1)
    store.guards.logs.__del__()
    assert count_open(tmp_path) == before - 3

    other = DirectoryStore(tmp_path)
    say(other, "1", "c1")
    del other
    gc.collect()
    assert count_open(tmp_path) == before - 3


def test_a_reference_cycle_with_open_files_is_collected_without_a_complaint(
    store: DirectoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The garbage collector closes the files first, which are older here."""
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    logs: Any = open_files.LogCache()
    logs.keep("a", store.guards.logs._open_logs.pop("a"))
    logs.cycle = logs
    before = count_open(tmp_path)
    del logs
    gc.collect()
    assert complaints == []
    assert count_open(tmp_path) == before - 3


def count_open(folder: Path) -> int:
    """Count the open files below a folder; threads of other tests may open others."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # closed in the middle of this loop
            count += descriptor.readlink().is_relative_to(folder)
    return count


def test_files_of_a_new_conversation_do_not_stay_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File systems round times: a change within the same moment would not show."""
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    store.create("a", ConversationMetadata())
    say(store, "0")
    assert not keeps(store)

    later = time.time_ns() + open_files.SETTLED_NS
    monkeypatch.setattr(time, "time_ns", lambda: later)
    say(store, "1")
    assert keeps(store)


def test_a_crash_at_any_step_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was acknowledged is there; what was not is there as a whole, or not at all."""
    monkeypatch.setattr(open_files, "SETTLED_NS", 0)
    counts = set()
    for step in range(1, 6):
        disk = CrashingDisk(1_000)
        store = DirectoryStore(tmp_path / str(step), disk=disk)
        store.create("a", ConversationMetadata())
        settle()
        say(store, "0")
        say(store, "1")
        assert keeps(store)
        store.marks._times.clear()
        disk.steps = step
        with contextlib.suppress(Crash):
            say(store, "2")

        other = DirectoryStore(tmp_path / str(step))
        say(other, "3")
        found = texts(other)
        counts.add((disk.steps > 0, len(found)))
        assert found in (["0", "1", "3"], ["0", "1", "2", "3"])
        assert not verify(other).findings
    assert counts == {(False, 3), (False, 4), (True, 4)}


def test_an_append_to_open_files_survives_a_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for the disk, once."""
    monkeypatch.setattr(open_files, "SETTLED_NS", 0)
    ledger = Ledger()
    store = DirectoryStore(tmp_path, disk=ledger)
    store.create("a", ConversationMetadata())
    settle()
    for text in "012":
        say(store, text)
        assert ledger.settle() == set()
    assert keeps(store)


APPEND_CALLS = 28
"""Maximum of Python functions in an append to open files; 39 before it was shortened.

After the disk was waited for, little of the code is in the caches of the processor: then each
function takes about two microseconds.
"""


def test_an_append_to_open_files_takes_few_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_files, "SETTLED_NS", 0)
    store = DirectoryStore(tmp_path)
    store.create("a", ConversationMetadata())
    settle()
    position = store.read("a").position
    for number in range(3):
        position = store.append("a", [UserCanister(str(number))], after=position).position
    canisters = [UserCanister("more")]
    names: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            names.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        store.append("a", canisters, after=position)
    finally:
        sys.setprofile(None)

    assert keeps(store)
    assert len(names) <= APPEND_CALLS, names


def test_two_stores_with_open_files_append_in_turn(store: DirectoryStore, tmp_path: Path) -> None:
    """Each finds the end that the other has made, and counts its lines."""
    other = DirectoryStore(tmp_path, disk=HastyDisk())
    settle()
    position = store.read("a").position
    stale = position
    for number in range(2, 8):
        writer = (store, other)[number % 2]
        position = writer.append("a", [UserCanister(str(number))], after=position).position
        assert keeps(writer)

    for each in (store, other):
        with pytest.raises(StaleConversationError):
            each.append("a", [UserCanister("late")], after=stale)
    assert texts(store) == [str(number) for number in range(8)]
    path = Path(store.layout.messages("a"))
    assert read_tally(str(path.with_suffix(".tally"))) == Tally(8, path.stat().st_size)
