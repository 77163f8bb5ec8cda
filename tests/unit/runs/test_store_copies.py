"""A store is copied into another whole, says so because it has looked, and writes over nothing."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import STEP, examples
from support.stores.disks import Crash, CrashingDisk, HastyDisk
from support.stores.stored import ENDED, add_run, change_at_random, describe, is_whole
from vibe_llms.conversations import DirectoryStore, MemoryStore, verify
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.events.engine import RunStartedEvent
from vibe_llms.events.runs import MessageReceivedEvent
from vibe_llms.exceptions import Finding, StoreError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.codec.canister_lines import encode_canister
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.runs.copying import copy_store


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
        change_at_random(source, seed)
        check_equal(source, target)
        change_without_loss(source, seed + 1)
        check_equal(source, target)
        check_equal(target, produce(Path(folder, "back") if here else None))


def change_without_loss(store: DirectoryStore | MemoryStore, seed: int) -> None:
    """Lets every conversation go on; what was deleted stays at the other side."""
    for identity in list(store.survey()):
        add_run(store, identity, f"more {seed}")
        store.update_metadata(identity, name=f"{seed}")


def test_010_what_nobody_wrote_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A side that keeps less than it was given fails the comparison."""
    source, target = MemoryStore(), MemoryStore()
    source.create("a", ConversationMetadata())
    add_run(source, "a", "hello")
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
    add_run(target, "ahead", "more")
    log = target.open_log("log")
    log.claim()
    log.append("run", ENDED)
    log.close()
    before = describe(target)["conversations"]

    report = copy_store(source, target)

    told = {each.place: each.message for each in report.refused}
    assert "differs from canister 1 on" in told["differs"]
    assert "Delete one of them" in told["differs"]
    assert "ahead: it has 2 more canister(s)" in told["ahead"]
    assert "in the other direction" in told["ahead"]
    assert "ahead: it has 1 more event(s)" in told["log"]
    assert told["fork"] == "Its parent differs was not copied."
    assert report.added == ("whole",)
    assert not report.is_whole
    after = describe(target)["conversations"]
    assert {each: after[each] for each in before} == before


def test_030_a_run_on_its_way_is_told_and_not_disturbed() -> None:
    """It is copied as far as it was; a later copy has the rest."""
    source, target = MemoryStore(), MemoryStore()
    source.create("a", ConversationMetadata())
    log = source.open_log("a")
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
    add_run(source, "a", "more")
    claimed = target.open_log("a")
    claimed.claim()

    report = copy_store(source, target)

    assert "already active" in report.refused[0].message
    assert not list(claimed.read())


@pytest.mark.slow
def test_050_killed_at_any_write_the_copy_leaves_whole_conversations(tmp_path: Path) -> None:
    """Each is there with all that belongs to it, or not at all; the next copy brings the rest."""
    source = MemoryStore()
    for seed in range(3):
        change_at_random(source, seed, 10)
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
        add_run(source, identity, identity)
    for identity, name in (("a", "messages.jsonl"), ("b", "runs.jsonl")):
        path = Path(source.locate(identity), name)
        path.write_bytes(b"?" + path.read_bytes()[1:])

    report = copy_store(source, target)

    told = {each.place: each.message for each in report.refused}
    assert told.keys() == {"a", "b"}
    assert "messages.jsonl" in told["a"]
    assert "runs.jsonl" in told["b"]
    assert list(target.survey()) == ["c"]


def test_070_a_store_is_not_copied_into_itself(tmp_path: Path) -> None:
    """However it is written."""
    with pytest.raises(StoreError, match="into itself"):
        copy_store(DirectoryStore(tmp_path), DirectoryStore(tmp_path / "x" / ".."))


class Heard:
    """Notes how far a copy has come."""

    def __init__(self, patience: int = 9) -> None:
        self.told: list[tuple[object, ...]] = []
        self._patience = patience

    def start(self, total: int | None, label: str) -> None:
        self.told.append((total, label))

    def advance(self, amount: int) -> None:
        self.told.append((amount,))
        self._patience -= 1
        if not self._patience:
            raise InterruptedError

    def finish(self) -> None:
        self.told.append(())


def test_080_each_conversation_is_told_to_whoever_listens() -> None:
    """And that it is over, also where it is given up."""
    source, heard, tired = MemoryStore(), Heard(), Heard(1)
    for identity in ("a", "b"):
        source.create(identity, ConversationMetadata())

    copy_store(source, MemoryStore(), progress=heard)
    with pytest.raises(InterruptedError):
        copy_store(source, MemoryStore(), progress=tired)

    assert heard.told == [(2, "copy"), (1,), (1,), ()]
    assert tired.told == [(2, "copy"), (1,), ()]


def test_081_what_is_chosen_comes_with_its_parents_and_the_content_that_it_names() -> None:
    """And nothing else; of what has grown since, only what is new is brought."""
    source, target = MemoryStore(), MemoryStore()
    for identity in ("root", "other"):
        source.create(identity, ConversationMetadata())
        add_run(source, identity, identity)
    source.fork("root", child="fork-a")
    source.fork("fork-a", child="fork-b")
    source.contents.add(b"alone", mime_type="text/plain")
    message = MessageReceivedEvent(canister=UserCanister("later"), message_id="one")
    source.open_inbox("root").put(message)
    named = {hashlib.sha256(b"root").hexdigest()}

    report = copy_store(source, target, identities=["fork-b", "root"])

    assert report.added == ("root", "fork-a", "fork-b")
    assert set(target.contents.survey()) == named
    sums = {each.kind: each.target.count for each in report.comparisons}
    assert sums == {
        **{"conversations": 3, "canisters": 2, "events": 2},
        **{"messages": 1, "notes": 0, "contents": 1},
    }
    assert report.is_whole
    assert [*target.open_inbox("root").read()] == [message]
    (contents,) = [each.source for each in report.comparisons if each.kind == "contents"]
    written = b"%d:%b" % (64, named.pop().encode())
    assert contents.digest == hashlib.sha256(written).hexdigest()
    add_run(source, "root", "more")
    again = copy_store(source, target, identities=["root"])
    assert (again.added, again.extended, again.is_whole) == ((), ("root",), True)
    third = copy_store(source, target, identities=["root"])
    assert (third.added, third.extended, third.is_whole) == ((), (), True)


def test_082_what_is_deleted_meanwhile_is_told_and_missed_by_nobody() -> None:
    """It was there when the store was surveyed."""

    class Vanishing(MemoryStore):
        def survey(self) -> Iterator[str]:
            return iter([*super().survey(), "gone"])

    source = Vanishing()
    source.create("a", ConversationMetadata())

    report = copy_store(source, MemoryStore())

    message = "It was deleted while the store was copied."
    assert report.notices == (Finding(place="gone", message=message),)
    assert (report.added, report.is_whole) == (("a",), True)


def test_083_content_that_cannot_be_read_is_told_and_the_rest_copied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target = MemoryStore(), MemoryStore()
    damaged, whole = (
        source.contents.add(each, mime_type="text/plain", name="n.txt") for each in (b"1", b"2")
    )
    kind = type(source.contents)
    read = kind.read

    def refuse(self: Any, content_id: str) -> bytes:
        if content_id == damaged:
            raise StoreError(detail="It is damaged.")
        return read(self, content_id)

    monkeypatch.setattr(kind, "read", refuse)
    report = copy_store(source, target)

    (finding,) = report.refused
    assert finding.place == damaged
    assert "It is damaged." in finding.message
    assert [*target.contents.survey()] == [whole]
    about = target.contents.access_metadata(whole)
    assert (about.mime_type, about.name) == ("text/plain", "n.txt")
    assert [(each.source.count, each.target.count) for each in report.comparisons][-1] == (2, 1)


@attrs.frozen
class Shelves:
    """The content of one database, in one place or another."""

    address: str
    held: dict[str, list[str]]
    brought: list[str] = attrs.field(factory=list, eq=False)

    def survey(self) -> list[str]:
        return self.held["ids"]

    def bring(self, content_id: str) -> None:
        self.brought.append(content_id)

    def read(self, content_id: str) -> None:
        if content_id not in self.brought or content_id == "lost":
            raise StoreError(detail="It is lost.")


@attrs.frozen
class Database:
    """Of two URLs of it that differ in where content is to lie, both are the same."""

    contents: Any = attrs.field(eq=False)
    has_backends: bool = attrs.field(default=True, eq=False)

    @property
    def content_backends(self) -> Any:
        return self.contents if self.has_backends else None


def test_084_content_of_one_database_is_moved_to_where_it_is_to_lie() -> None:
    """Each is read back from there; where nothing is to be moved it is said."""
    held = {"ids": ["b", "lost", "a"]}
    source, target = Database(Shelves("here", held)), Database(Shelves("there", held))

    report = copy_store(source, target)  # type: ignore[arg-type]

    assert target.contents.brought == ["a", "b", "lost"]
    assert source.contents.brought == []
    (refused,) = report.refused
    assert (refused.place, "It is lost." in refused.message) == ("lost", True)
    (contents,) = [each for each in report.comparisons if each.kind == "contents"]
    assert (contents.source.count, contents.target.count) == (3, 2)
    written = b"".join(b"%d:%b" % (len(each), each.encode()) for each in ("a", "b", "lost"))
    assert contents.source.digest == hashlib.sha256(written).hexdigest()
    for one, same in (
        (source, Database(Shelves("here", held))),
        (source, Database(Shelves("there", held), False)),
        (Database(Shelves("here", held), False), target),
    ):
        with pytest.raises(StoreError, match="into itself"):
            copy_store(one, same)  # type: ignore[arg-type]


def test_085_what_a_conversation_is_said_to_be_counts() -> None:
    """A side that keeps another name, label, model or moment is not the same."""
    about = ConversationMetadata(name="n", tags=("t",), model="m")
    said = [UserCanister("one"), UserCanister("two")]
    digests = set()
    for metadata in (
        about,
        attrs.evolve(about, name="x"),
        attrs.evolve(about, tags=("t", "u")),
        attrs.evolve(about, model="x"),
        attrs.evolve(about, created=about.created + timedelta(seconds=1)),
    ):
        source = MemoryStore()
        source.create("a", metadata)
        source.append("a", said)
        report = copy_store(source, MemoryStore())
        digests.add(report.comparisons[0].source.digest)
    assert len(digests) == 5
    document = {
        "id": "a",
        "name": "n",
        "tags": ["t"],
        "model": "m",
        "created": about.created.isoformat(),
        "history": hashlib.sha256(b"\n".join(map(encode_canister, said))).hexdigest(),
    }
    line = encode_document(document)
    assert hashlib.sha256(b"%d:%b" % (len(line), line)).hexdigest() in digests


def test_089_a_note_that_is_not_utf_8_is_refused_and_the_others_are_copied(tmp_path: Path) -> None:
    source, target = DirectoryStore(tmp_path, disk=HastyDisk()), MemoryStore()
    for key in ("own/user/a.md", "own/user/b.md"):
        source.notes.change(key, lambda _: "text")
    (tmp_path / "notes/own/user/a.md").write_bytes(b"\xe9")
    report = copy_store(source, target)
    assert [each.place for each in report.refused] == ["own/user/a.md"]
    assert [*target.notes.survey("")] == ["own/user/b.md"]


def test_090_notes_are_copied_and_never_overwritten(tmp_path: Path) -> None:
    """A note that the target has with another text stays, and is named."""
    source, target = MemoryStore(), DirectoryStore(tmp_path, disk=HastyDisk())
    for key in ("own/user/a.md", "own/user/b.md"):
        source.notes.change(key, lambda _, key=key: f"source {key}")
    target.notes.change("own/user/b.md", lambda _: "target")

    report = copy_store(source, target)

    assert not report.is_whole
    assert [each.place for each in report.refused] == ["own/user/b.md"]
    assert target.notes.read(["own/user/a.md", "own/user/b.md"]) == {
        "own/user/a.md": "source own/user/a.md",
        "own/user/b.md": "target",
    }
    target.notes.change("own/user/b.md", lambda _: None)
    report = copy_store(source, target)
    assert report.is_whole
    assert {each.kind: each.target.count for each in report.comparisons}["notes"] == 2
