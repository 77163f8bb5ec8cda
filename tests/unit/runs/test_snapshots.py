"""A conversation with all that lives beside it, taken out of one store and put into another."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

from support.stores.disks import HastyDisk
from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.run_logs.file_log import TALLY
from vibe_llms.conversations.run_logs.log_lines import write_line, write_logged
from vibe_llms.conversations.run_logs.memory_log import MemoryLog
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.conversations.stores.interfaces import History, Position
from vibe_llms.conversations.stores.memory import MemoryStore
from vibe_llms.events.engine import RunEndedEvent, RunStartedEvent, StateEnteredEvent
from vibe_llms.events.runs import MessageReceivedEvent
from vibe_llms.exceptions import CorruptionError, StoreError, UnknownConversationError
from vibe_llms.logs.tallies import Tally, read_tally
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.codec.canister_lines import encode_canister
from vibe_llms.messages.contents import ImageContent
from vibe_llms.runs.compacting import compact_log
from vibe_llms.runs.snapshots import (
    Snapshot,
    extend,
    is_prefix,
    plant,
    take_snapshot,
)

STARTED = RunStartedEvent(run_id="r", conversation_id="a", length=1)
ENDED = RunEndedEvent(run_id="r", reason="answered", settles=True)


def message(name: str) -> MessageReceivedEvent:
    return MessageReceivedEvent(canister=UserCanister(name), message_id=name)


def picture(text: str) -> UserCanister:
    return UserCanister([ImageContent(mime_type="image/png", data=text.encode(), name="p.png")])


def write(store: Any, identity: str, *events: Any) -> None:
    log = store.open_log(identity)
    log.claim()
    for event in events:
        log.append("r", event)
    log.close()


def begin(store: Any) -> Any:
    """Keeps a conversation, a run of it, a message, and a fork that goes on by itself."""
    store.create("a", ConversationMetadata(name="n", tags=("t",), model="m"))
    store.append("a", [picture("one"), UserCanister("two")])
    write(store, "a", STARTED, ENDED)
    store.open_inbox("a").put(message("first"))
    store.fork("a", from_index=1, child="b")
    store.append("b", [picture("three")])
    return store


def produce(kind: str, path: Path) -> Any:
    return MemoryStore() if kind == "memory" else DirectoryStore(path, disk=HastyDisk())


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_a_snapshot_has_all_that_a_conversation_is(kind: str, tmp_path: Path) -> None:
    """What a fork has from its parent is given by a number, which every store understands."""
    store = begin(produce(kind, tmp_path))

    whole, fork = take_snapshot(store, "a"), take_snapshot(store, "b")

    history = store.read("a")
    assert whole == Snapshot(
        identity="a",
        metadata=store.read_metadata("a"),
        canisters=history.canisters,
        inherited=0,
        canister_lines=tuple(encode_canister(each) for each in history.canisters),
        events=tuple(write_logged(each) for each in store.open_log("a").read()),
        messages=whole.messages,
        position=history.position,
        is_working=False,
        notices=(),
    )
    assert [each.message_id for each in whole.messages] == ["first"]
    assert (fork.inherited, len(fork.canisters), fork.events) == (1, 2, ())
    assert fork.metadata.parent == ParentLink(identity="a", canisters=1)
    digests = {text: hashlib.sha256(text.encode()).hexdigest() for text in ("one", "three")}
    assert whole.references == {digests["one"]}
    assert fork.references == {digests["three"]}
    with pytest.raises(UnknownConversationError):
        take_snapshot(store, "c")


def test_what_is_about_to_be_has_its_words_and_the_first_lines_of_its_log() -> None:
    about = ConversationMetadata(name="n")
    made = Snapshot.begin("a", about, [UserCanister("one")], [b"line"])
    assert made == Snapshot(
        identity="a",
        metadata=about,
        canisters=tuple(made.canisters),
        inherited=0,
        canister_lines=(),
        events=(b"line",),
        messages=(),
        position=Position(),
        is_working=False,
        notices=(),
    )
    assert len(made.canisters) == 1


@pytest.mark.parametrize(
    ("events", "is_working"), [((), False), ((STARTED,), True), ((STARTED, ENDED), False)]
)
def test_a_run_that_has_not_ended_is_at_work(events: Any, is_working: bool) -> None:
    store = MemoryStore()
    store.create("a", ConversationMetadata())
    write(store, "a", *events)
    assert take_snapshot(store, "a").is_working == is_working


def test_a_line_that_does_not_read_is_told_with_its_place(tmp_path: Path) -> None:
    store = begin(DirectoryStore(tmp_path, disk=HastyDisk()))
    path = Path(store.locate("a"), "runs.jsonl")
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second.replace(b'"sequence":2', b'"sequence":7'))

    with pytest.raises(
        CorruptionError, match="Cannot read an event of a: its own number"
    ) as raised:
        take_snapshot(store, "a")

    assert (raised.value.path, raised.value.line) == ("a", 2)


@attrs.define(slots=False)
class Busy:
    """Counts how often a fork is read; others write to it until they have had enough."""

    inner: DirectoryStore
    writes: int
    looks: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read(self, identity: str) -> History:
        self.looks += 1
        history = self.inner.read(identity)
        if self.writes:
            self.writes -= 1
            self.inner.append(identity, [UserCanister("more")])
        return history


def test_a_fork_is_looked_at_until_nothing_comes_in_between(tmp_path: Path) -> None:
    """Else it could not be counted what it has from its parent; at some time that is given up."""
    store: Any = Busy(begin(DirectoryStore(tmp_path, disk=HastyDisk())), writes=3)
    store.fork("a", child="c")

    snapshot = take_snapshot(store, "c")

    assert (snapshot.inherited, len(snapshot.canisters), store.looks) == (2, 5, 6)
    assert snapshot.metadata.parent == ParentLink(identity="a", canisters=2)
    store.writes, store.looks = 1000, 0
    with pytest.raises(StoreError, match=r"c keeps changing.*Try again"):
        take_snapshot(store, "c")
    assert store.looks == 32


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_what_is_put_there_is_what_was_taken(kind: str, tmp_path: Path) -> None:
    """And says where it ends, for whoever goes on; what came since is added."""
    source, target = begin(MemoryStore()), produce(kind, tmp_path / "there")
    for store in (source, target):
        store.contents.add(b"one", mime_type="image/png")
        store.contents.add(b"three", mime_type="image/png")
    assert target.plants_whole == (kind == "directory")
    for identity in ("a", "b"):
        position = plant(target, take_snapshot(source, identity))
        assert position == target.read(identity).position
        check_same(source, target, identity)
    if kind == "directory":
        log = Path(target.locate("a"), "runs.jsonl")
        assert read_tally(f"{target.locate('a')}/{TALLY}") == Tally(2, log.stat().st_size)

    source.append("a", [UserCanister("more")])
    write(source, "a", STARTED, ENDED)
    source.open_inbox("a").put(message("second"))
    extend(target, take_snapshot(source, "a"), take_snapshot(target, "a"))
    check_same(source, target, "a")
    updated = target.read_metadata("a")
    extend(target, take_snapshot(source, "a"), take_snapshot(target, "a"))
    assert target.read_metadata("a") == updated
    for changed in ({"name": "x"}, {"tags": ("x",)}, {"model": "x"}):
        source.update_metadata("a", **changed)
        extend(target, take_snapshot(source, "a"), take_snapshot(target, "a"))
        check_same(source, target, "a")
    if kind == "directory":
        log = Path(target.locate("a"), "runs.jsonl")
        assert read_tally(f"{target.locate('a')}/{TALLY}") == Tally(4, log.stat().st_size)


def check_same(source: Any, target: Any, identity: str) -> None:
    one, other = take_snapshot(source, identity), take_snapshot(target, identity)
    for name in ("canister_lines", "events", "messages", "inherited"):
        assert getattr(other, name) == getattr(one, name), name
    for name in ("name", "tags", "model", "parent"):
        assert getattr(other.metadata, name) == getattr(one.metadata, name), name


def test_what_belongs_together_is_read_and_written_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a store can do so: all that is read is of one moment, all is written or nothing."""
    source, target, told = begin(MemoryStore()), MemoryStore(), list[object]()
    target.contents.add(b"one", mime_type="image/png")

    @contextmanager
    def enter(store: object, *, reading: bool = False) -> Iterator[None]:
        told.append((store, reading))
        yield
        told.append("left")

    monkeypatch.setattr(MemoryStore, "transact", enter)
    snapshot = take_snapshot(source, "a")
    existing = attrs.evolve(snapshot, position=plant(target, snapshot))
    extend(target, snapshot, existing)

    assert told == [(source, True), "left", (target, False), "left", (target, False), "left"]


def test_a_log_that_has_grown_there_meanwhile_is_left_alone() -> None:
    source, target = begin(MemoryStore()), MemoryStore()
    target.contents.add(b"one", mime_type="image/png")
    plant(target, take_snapshot(source, "a"))
    existing = take_snapshot(target, "a")
    write(source, "a", STARTED)
    write(target, "a", STARTED)

    with pytest.raises(StoreError, match="A run has written to its log"):
        extend(target, take_snapshot(source, "a"), existing)

    assert len(take_snapshot(target, "a").events) == 3
    target.open_log("a").claim()  # it was given up


def test_only_what_is_new_is_added_and_a_log_that_is_shorter_by_now_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, target, told = begin(MemoryStore()), MemoryStore(), list[tuple[str, int]]()
    target.contents.add(b"one", mime_type="image/png")
    plant(target, take_snapshot(source, "a"))
    adopt, replace = MemoryLog.adopt, MemoryLog.replace

    def note_adopted(log: MemoryLog, lines: Any) -> None:
        told.append(("adopt", len(lines)))
        adopt(log, lines)

    def note_replaced(log: MemoryLog, lines: Any, until: int) -> None:
        told.append(("replace", until))
        replace(log, lines, until)

    write(source, "a", StateEnteredEvent(state="generate", turn=0), STARTED, ENDED)
    monkeypatch.setattr(MemoryLog, "adopt", note_adopted)
    monkeypatch.setattr(MemoryLog, "replace", note_replaced)
    extend(target, take_snapshot(source, "a"), take_snapshot(target, "a"))
    check_same(source, target, "a")
    assert told == [("adopt", 3)]
    source.open_inbox("a").empty(lambda messages: None)
    assert compact_log(source, "a", datetime(9999, 1, 1, tzinfo=UTC)) is not None
    told.clear()
    short = take_snapshot(source, "a")
    extend(target, short, take_snapshot(target, "a"))
    assert take_snapshot(target, "a").events == short.events
    assert told == [("replace", 5)]
    extend(target, short, take_snapshot(target, "a"))
    assert told == [("replace", 5)]


def test_what_others_have_said_there_meanwhile_is_not_mixed_with_it() -> None:
    source, target = begin(MemoryStore()), MemoryStore()
    target.contents.add(b"one", mime_type="image/png")
    plant(target, take_snapshot(source, "a"))
    existing = take_snapshot(target, "a")
    source.append("a", [UserCanister("here")])
    target.append("a", [UserCanister("there")])

    with pytest.raises(StoreError):
        extend(target, take_snapshot(source, "a"), existing)

    assert len(target.read("a").canisters) == 3


def test_a_fork_of_nothing_has_nothing_from_its_parent() -> None:
    store = begin(MemoryStore())
    store.fork("a", from_index=0, child="z")
    assert take_snapshot(store, "z").inherited == 0


def test_a_log_is_read_to_its_end_however_many_pieces_it_comes_in() -> None:
    moment = datetime(2025, 1, 1, tzinfo=UTC)
    lines = [write_line(number, moment, "r", STARTED) for number in (1, 2)]
    pieces: list[Any] = [[], [SimpleNamespace(data=lines[1])], [SimpleNamespace(data=lines[0])]]
    log = SimpleNamespace(tail=lambda: SimpleNamespace(read=pieces.pop))

    class InPieces(MemoryStore):
        def open_log(self, identity: str) -> Any:
            return log

    store = InPieces()
    store.create("a", ConversationMetadata())
    assert take_snapshot(store, "a").events == tuple(lines)


class OwnLogs(MemoryStore):
    """A store that keeps no logs."""

    keeps_logs = False

    def open_log(self, identity: str) -> MemoryLog:
        return MemoryLog()


def test_a_store_that_takes_over_no_logs_says_so() -> None:
    target = OwnLogs()
    target.contents.add(b"one", mime_type="image/png")

    with pytest.raises(StoreError, match=r"OwnLogs cannot take over logs of runs.*`keeps_logs`"):
        plant(target, take_snapshot(begin(MemoryStore()), "a"))


def test_events_are_a_beginning_as_they_are_or_as_a_shorter_log_has_them() -> None:
    """A log that is short there, and was not here, is another."""
    source = MemoryStore()
    source.create("a", ConversationMetadata())
    write(source, "a", STARTED, ENDED, STARTED, ENDED)
    long = take_snapshot(source, "a")
    early = attrs.evolve(long, events=long.events[:2])
    events = list(source.open_log("a").read())
    marked = write_logged(attrs.evolve(events[3], kept=4))
    short = attrs.evolve(long, events=(*long.events[:3], marked))
    other = write_logged(attrs.evolve(events[1], run_id="other"))

    assert is_prefix(early, long)
    assert is_prefix(attrs.evolve(long, events=()), long)
    assert not is_prefix(long, early)
    assert is_prefix(early, short)
    assert is_prefix(long, short)
    assert not is_prefix(short, long)
    assert not is_prefix(attrs.evolve(early, events=(long.events[0], other)), short)
    assert not is_prefix(attrs.evolve(early, events=(long.events[0], other)), long)
