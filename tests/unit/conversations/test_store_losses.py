"""What was acknowledged and is gone is told, whatever took it, and for as long as it is gone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.stores.disks import HastyDisk
from vibe_llms.conversations import Conversation, DirectoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.exceptions import CorruptionError, StoreError
from vibe_llms.logs.log import Log
from vibe_llms.logs.tallies import Tally, encode_tally, read_tally
from vibe_llms.messages.canisters import UserCanister


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    store.create("a", ConversationMetadata())
    for text in ("0", "1", "2"):
        store.append("a", [UserCanister(text)])
    return store


def messages_of(store: DirectoryStore, identity: str = "a") -> Path:
    return Path(store.layout.messages(identity))


def findings_of(store: DirectoryStore) -> list[str]:
    return [finding.message for finding in verify(store).findings]


def test_an_emptied_file_is_a_loss(store: DirectoryStore) -> None:
    """A file without lines is not taken for a conversation in which nothing was said."""
    messages_of(store).write_bytes(b"")

    (message,) = findings_of(store)
    (notice,) = store.read("a").notices

    assert "0 lines, but 3 were acknowledged: 3 are lost" in message
    assert notice.message == message


def test_a_loss_is_told_after_more_was_said(store: DirectoryStore) -> None:
    """Going on is possible and hides nothing, until the file is restored."""
    whole = messages_of(store).read_bytes()
    messages_of(store).write_bytes(whole[: whole.index(b"\n") + 1])

    store.append("a", [UserCanister("3")])
    store.append("a", [UserCanister("4")])

    assert "3 lines, but 5 were acknowledged" in findings_of(store)[0]
    said_since = messages_of(store).read_bytes()[whole.index(b"\n") + 1 :]
    messages_of(store).write_bytes(whole + said_since)
    assert findings_of(store) == []


def test_a_lost_end_is_told_after_a_read_has_moved_it_away(store: DirectoryStore) -> None:
    """What was torn off in the middle of a line that had been acknowledged stays a finding."""
    path = messages_of(store)
    path.write_bytes(path.read_bytes()[:-5])

    assert len(store.read("a").canisters) == 2
    (message,) = findings_of(store)

    assert "2 lines, but 3 were acknowledged" in message
    assert [Path(each.place).name for each in verify(store).remarks] == ["messages.torn-1"]


def test_a_doubled_file_is_found(store: DirectoryStore) -> None:
    """The same canister twice is damage, also after more was said behind it."""
    path = messages_of(store)
    path.write_bytes(path.read_bytes() * 2)

    assert "occurs 2 times, and 2 more are repeated" in findings_of(store)[0]
    store.append("a", [UserCanister("3")])
    assert "occurs 2 times, and 2 more are repeated" in findings_of(store)[0]


def test_the_same_canister_is_not_stored_twice_at_once(store: DirectoryStore) -> None:
    """Two of one id in an append are refused, and nothing is written."""
    canister = UserCanister("3")
    before = messages_of(store).read_bytes()

    with pytest.raises(StoreError, match=canister.id):
        store.append("a", [canister, canister])

    assert messages_of(store).read_bytes() == before


@pytest.mark.parametrize("tally", [None, b"?", b"lines = 1\n", encode_tally(Tally(1, 9))[:-3]])
def test_what_nobody_has_counted_is_not_known(store: DirectoryStore, tally: bytes | None) -> None:
    """A conversation of an earlier version is whole as far as can be told; that is said."""
    path = Path(store.layout.tally("a"))
    path.unlink() if tally is None else path.write_bytes(tally)

    proof = verify(store)

    assert proof.findings == ()
    assert ["not counted" in each.message for each in proof.remarks] == [True]
    assert len(store.read("a").canisters) == 3
    store.append("a", [UserCanister("3")])
    assert verify(store).remarks == ()
    messages_of(store).write_bytes(b"")
    assert "4 were acknowledged" in findings_of(store)[0]


def test_a_line_that_a_person_has_corrected_is_no_loss(store: DirectoryStore) -> None:
    """Lines are counted, not their bytes: files stay what people may edit."""
    path = messages_of(store)
    path.write_bytes(path.read_bytes().replace(b'"text":"1"', b'"text":"one"'))

    store.append("a", [UserCanister("3")])

    assert findings_of(store) == []
    assert read_tally(store.layout.tally("a")) == Tally(4, path.stat().st_size)


def test_a_writer_that_died_before_it_counted_is_caught_up_with(store: DirectoryStore) -> None:
    """The tally may be late, and is right again after the next append."""
    tally = Path(store.layout.tally("a"))
    late = tally.read_bytes()
    store.append("a", [UserCanister("3"), UserCanister("4")])
    tally.write_bytes(late)

    assert findings_of(store) == []
    store.append("a", [UserCanister("5")])
    assert read_tally(str(tally)) == Tally(6, messages_of(store).stat().st_size)


def test_a_loss_that_somebody_puts_up_with_stays_forgotten(store: DirectoryStore) -> None:
    """Whoever had the conversation open does not bring back what the tally had said."""
    whole = messages_of(store).read_bytes()
    messages_of(store).write_bytes(whole[: whole.index(b"\n") + 1])
    position = store.append("a", [UserCanister("3")]).position
    assert "2 lines, but 4 were acknowledged" in findings_of(store)[0]

    Path(store.layout.tally("a")).unlink()
    position = store.append("a", [UserCanister("4")], after=position).position
    store.append("a", [UserCanister("5")], after=position)

    assert findings_of(store) == []
    assert read_tally(store.layout.tally("a")) == Tally(4, messages_of(store).stat().st_size)


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_tally_that_failed_once_is_caught_up_with(
    store: DirectoryStore, failure: BaseException
) -> None:
    """What could not be noted is not taken for noted by whoever goes on."""
    failing = False

    class Disk(HastyDisk):
        def overwrite_start(self, descriptor: int, data: bytes) -> None:
            if failing:
                raise failure
            super().overwrite_start(descriptor, data)

    path, tally = str(messages_of(store)), store.layout.tally("a")
    with Log(path, Disk(), tally=tally) as log:
        log.append(b"{}\n", durable=True)
        failing = True
        with suppress(KeyboardInterrupt):
            log.append(b"{}\n", durable=True)
        assert log.acknowledged is None
        failing = False
        log.append(b"{}\n", durable=True)

    assert log.acknowledged == 6
    assert read_tally(tally) == Tally(6, messages_of(store).stat().st_size)


def test_a_tally_that_cannot_be_written_fails_no_append(store: DirectoryStore) -> None:
    """What is on the disk was said, whether it is tallied or not."""

    class DiskWithoutNotes(HastyDisk):
        def overwrite_start(self, descriptor: int, data: bytes) -> None:
            raise OSError(28, "No space left on device")

    DirectoryStore(messages_of(store).parents[3], disk=DiskWithoutNotes()).append(
        "a", [UserCanister("3")]
    )

    assert len(store.read("a").canisters) == 4
    assert findings_of(store) == []


def test_forks_are_tallied_with_what_a_deleted_parent_leaves_them(store: DirectoryStore) -> None:
    """What came over from a parent is missed, too, should it go."""
    store.fork("a", child="b")
    store.append("b", [UserCanister("own")])

    store.delete("a")

    path = messages_of(store, "b")
    assert read_tally(store.layout.tally("b")) == Tally(4, path.stat().st_size)
    path.write_bytes(b"")
    assert "4 were acknowledged" in findings_of(store)[0]


def test_a_parent_that_has_lost_its_end_is_not_deleted(store: DirectoryStore) -> None:
    """Its forks would lose what they share, and nobody would know."""
    store.fork("a", child="b")
    messages_of(store).write_bytes(b"")

    with pytest.raises(CorruptionError, match="has only 0 of the"):
        store.delete("a")

    assert set(store.survey()) == {"a", "b"}


@given(
    sizes=st.lists(st.integers(1, 3), max_size=6),
    cut=st.integers(0, 20),
    more=st.integers(0, 3),
)
def test_whatever_is_cut_off_is_told(sizes: list[int], cut: int, more: int) -> None:
    """Any beginning of a file that is shorter than what was acknowledged is a finding."""
    with tempfile.TemporaryDirectory() as folder:
        store = DirectoryStore(folder, disk=HastyDisk())
        store.create("a", ConversationMetadata())
        for size in sizes:
            store.append("a", [UserCanister("x") for _ in range(size)])
        path = messages_of(store)
        kept = path.read_bytes().splitlines(keepends=True)[: max(0, sum(sizes) - cut)]
        path.write_bytes(b"".join(kept))

        for _ in range(more):
            store.append("a", [UserCanister("y")])
        store.read("a")

        is_told = any("were acknowledged" in message for message in findings_of(store))
        assert is_told == (min(cut, sum(sizes)) > 0)


SAVES: dict[str, Callable[[Conversation, DirectoryStore], object]] = {
    "save": lambda conversation, store: conversation.save(store),
    "merge": lambda conversation, store: conversation.save(store, merge=True),
    "catch up": lambda conversation, store: conversation.catch_up(store),
}


@pytest.mark.parametrize("name", SAVES)
def test_an_interrupt_between_store_and_conversation_stores_nothing_twice(
    name: str, tmp_path: Path
) -> None:
    """Saved again, with or without merging, each canister is there once."""

    class Interrupted(DirectoryStore):
        interrupts = 0

        def append(self, *arguments: object, **options: object) -> object:
            receipt = super().append(*arguments, **options)
            if self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            return receipt

        def create(self, *arguments: object, **options: object) -> object:
            position = super().create(*arguments, **options)
            if self.interrupts:
                self.interrupts -= 1
                raise KeyboardInterrupt
            return position

    store = Interrupted(tmp_path, disk=HastyDisk())
    conversation = Conversation()
    conversation.add_user_message("0")

    for text in ("1", "2"):
        store.interrupts = 2
        for _ in range(store.interrupts):
            with pytest.raises(KeyboardInterrupt):
                SAVES[name](conversation, store)
        conversation.add_user_message(text)
        SAVES[name](conversation, store)
        conversation.add_user_message("unsaved " + text)

    stored = [canister.id for canister in store.read(conversation.id).canisters]
    assert stored == [canister.id for canister in conversation.canisters][: len(stored)]
    assert len(stored) == len(conversation.canisters) - 1


def test_others_are_shown_once_where_an_interrupted_save_had_stored_ours(tmp_path: Path) -> None:
    """A merge puts behind the others only what is not there yet."""
    store = DirectoryStore(tmp_path, disk=HastyDisk())
    conversation = Conversation()
    conversation.save(store)
    ours = [conversation.add_user_message("ours"), conversation.add_user_message("more")]
    store.append(conversation.id, ours[:1])
    theirs = UserCanister("theirs")
    store.append(conversation.id, [theirs])

    conversation.save(store, merge=True)

    expected = [ours[0].id, theirs.id, ours[1].id]
    assert [canister.id for canister in conversation.canisters] == expected
    assert [canister.id for canister in store.read(conversation.id).canisters] == expected


@pytest.mark.slow
@pytest.mark.parametrize("within", [False, True])
def test_a_proof_reads_each_file_as_often_however_deep_the_forks_are(
    within: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice as many forks of forks take twice as many reads, not four times."""
    original = os.open
    opened: list[str] = []

    def count(path: str, *arguments: int, **options: object) -> int:
        opened.append(Path(path).name)
        return original(path, *arguments, **options)

    counts: dict[int, dict[str, int]] = {}
    for depth in (40, 80):
        store = DirectoryStore(tmp_path / str(depth), disk=HastyDisk())
        store.create("f000", ConversationMetadata())
        for number in range(depth):
            store.append(f"f{number:03}", [UserCanister("x")])
            at = number + 1 if within else None
            store.fork(f"f{number:03}", from_index=at, child=f"f{number + 1:03}")
        opened.clear()
        monkeypatch.setattr(os, "open", count)
        assert verify(store).findings == ()
        monkeypatch.undo()
        names = ("metadata.toml", "messages.jsonl")
        counts[depth + 1] = {name: opened.count(name) for name in names}

    for conversations, found in counts.items():
        assert all(number <= 2 * conversations for number in found.values()), found


def test_a_break_in_a_chain_of_forks_is_told_once(store: DirectoryStore) -> None:
    """What is wrong with a parent is one finding, however many descend from it."""
    store.fork("a", child="b")
    store.fork("b", child="c")
    store.fork("c", child="d")
    messages_of(store).write_bytes(b"")
    Path(store.layout.tally("a")).unlink()

    (message,) = findings_of(store)

    assert "parent a has fewer than" in message
    assert [each.message for each in verify(store, ["d"]).findings] == [message]
