"""Cherry-picks and merges: complete turns in a new fork; the others stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stores.disks import HastyDisk
from support.stores.stored import describe
from support.stores.talks import call, exchange, fork, save
from vibe_llms.conversations import DirectoryStore, MemoryStore, verify
from vibe_llms.conversations.compaction import read_whole
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.lineage.grafts import Ending, merge_conversations, pick_turns
from vibe_llms.exceptions import RequestError, StoreError, UnknownConversationError
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.providers.summaries import Summary

Store = DirectoryStore | MemoryStore


@pytest.fixture(params=["memory", "directory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return an empty store."""
    memory = request.param == "memory"
    return MemoryStore() if memory else DirectoryStore(tmp_path, disk=HastyDisk())


def read_texts(store: Store, identity: str) -> list[str]:
    return [each.text for each in store.read(identity).canisters]


def check_others(store: Store, before: dict[str, object]) -> None:
    """Check that all conversations from before are the same, and the store is intact."""
    after = describe(store)["conversations"]
    assert {each: after[each] for each in before} == before
    assert not verify(store).findings


def test_picked_turns_are_whole_and_keep_their_ids(store: Store) -> None:
    source = save(store, [*exchange("one"), *call("count", "a"), *exchange("three")])
    target = save(store, exchange("start"), name="Target")
    before = describe(store)["conversations"]
    graft = pick_turns(store, source, [3, 2], target)
    assert (graft.parent, graft.added, graft.conflicts, graft.is_new) == (target, 6, (), True)
    history = store.read(graft.identity)
    taken = store.read(source).canisters
    assert history.canisters == (*store.read(target).canisters, *taken[6:], *taken[2:6])
    assert (history.metadata.name, history.metadata.tags) == ("Target", (f"from:{source}",))
    assert history.metadata.parent is not None
    assert history.metadata.parent.identity == target
    check_others(store, before)


def test_a_turn_is_not_picked_twice(store: Store) -> None:
    source, target = save(store, exchange("one")), save(store, exchange("start"))
    first = pick_turns(store, source, [1], target)
    second = pick_turns(store, source, [1, 1], first.identity)
    assert (second.identity, second.is_new, second.added) == (first.identity, False, 0)
    assert second.conflicts == (f"Turn 1 of {source} is already there; skipped.",)


@pytest.mark.parametrize("number", [0, 2, -1])
def test_an_unknown_turn_stores_nothing(store: Store, number: int) -> None:
    source, target = save(store, exchange("one")), save(store, exchange("start"))
    with pytest.raises(RequestError, match=f"Unknown turn {number}: .* has 1 turns"):
        pick_turns(store, source, [1, number], target)
    with pytest.raises(UnknownConversationError):
        pick_turns(store, "unknown", [1], target)
    assert sorted(store.survey()) == sorted([source, target])


def test_calls_without_a_result_are_conflicts() -> None:
    store = MemoryStore()
    source = save(store, call("count", "a", result=None))
    target = save(store, call("count", "b", result=None))
    graft = pick_turns(store, source, [1], target)
    assert graft.conflicts == (
        f"{target} ends with a call without a result: count.",
        f"Turn 1 of {source} has calls without a result: count.",
    )


def test_a_merge_has_both_endings_in_order(store: Store) -> None:
    first = save(store, [*exchange("one"), *exchange("two")])
    second = fork(store, first, [*call("count", "a"), *exchange("four")], at=2)
    store.append(first, exchange("three"))
    before = describe(store)["conversations"]
    graft = merge_conversations(store, first, second)
    assert graft.conflicts == ()
    assert graft.added == 6
    ones, others = store.read(first).canisters, store.read(second).canisters
    assert store.read(graft.identity).canisters == (*ones, *others[2:])
    check_others(store, before)
    # A merge contains both sides; merging them again has nothing to do.
    for side in (first, second):
        again = merge_conversations(store, graft.identity, side)
        assert (again.identity, again.is_new) == (graft.identity, False)
    assert merge_conversations(store, first, graft.identity).identity == graft.identity


@pytest.mark.parametrize(("take", "end"), [("first", "two!"), ("second", "zwei!")])
def test_one_ending_can_be_taken(take: Ending, end: str) -> None:
    store = MemoryStore()
    first = save(store, [*exchange("one"), *exchange("two")])
    second = fork(store, first, exchange("zwei"), at=2)
    graft = merge_conversations(store, first, second, take=take)
    assert read_texts(store, graft.identity)[2:] == [end[:-1], end]
    kept, left = (first, second) if take == "first" else (second, first)
    metadata = store.read_metadata(graft.identity)
    assert (graft.parent, metadata.tags) == (kept, (f"from:{left}",))


def test_two_answers_to_one_question_are_a_conflict() -> None:
    store = MemoryStore()
    first = save(store, [*exchange("one"), *exchange("why?", "because")])
    second = fork(store, first, [AssistantCanister("who knows")], at=3)
    graft = merge_conversations(store, first, second)
    assert graft.conflicts == (
        f"Turn 2 of {second} continues a message that is there; it is repeated.",
    )
    assert read_texts(store, graft.identity)[2:] == ["why?", "because", "why?", "who knows"]
    ids = [each.id for each in store.read(graft.identity).canisters]
    assert len(set(ids)) == len(ids)


def test_contradicting_instructions_and_open_calls_are_conflicts() -> None:
    store = MemoryStore()
    first = save(store, exchange("one"))
    brief: list[AnyCanister] = [SupervisorCanister("Be brief."), *call("two", "x", result=None)]
    second = fork(store, first, [SupervisorCanister("Be long."), UserCanister("three")], at=2)
    store.append(first, brief)
    assert merge_conversations(store, first, second).conflicts == (
        f"{first} ends with a call without a result: count.",
        f"Both endings change the instructions; those of {second} come last.",
    )


def test_strangers_are_not_merged() -> None:
    store = MemoryStore()
    first, second = save(store, exchange("one")), save(store, exchange("one"))
    with pytest.raises(RequestError, match="no common beginning"):
        merge_conversations(store, first, second)
    assert merge_conversations(store, first, first).identity == first


def _compact(store: Store, identity: str, count: int) -> str:
    """Store a compacted fork whose summary replaces the first messages after the first one."""
    conversation = Conversation.restore(store, identity)
    first, *rest = conversation.canisters
    summary = Summary(text="Summary").produce_document(rest[:count], identity)
    compacted = conversation.fork_compacted([first, summary, *rest[count:]])
    compacted.save(store)
    return compacted.id


def test_a_compacted_fork_merges_with_its_parent(store: Store) -> None:
    """Messages that the summary replaces are in both."""
    parent = save(store, [SupervisorCanister("Hi"), *exchange("1"), *exchange("2")])
    compacted = _compact(store, parent, 2)
    store.append(compacted, exchange("fork"))
    assert merge_conversations(store, parent, compacted).identity == compacted
    assert merge_conversations(store, compacted, parent).identity == compacted

    store.append(parent, exchange("parent"))
    after_parent = merge_conversations(store, parent, compacted).identity
    after_fork = merge_conversations(store, compacted, parent).identity

    parents, forks = read_texts(store, parent), read_texts(store, compacted)
    assert read_texts(store, after_parent) == [*parents, "fork", "fork!"]
    assert read_texts(store, after_fork) == [*forks, "parent", "parent!"]
    assert merge_conversations(store, after_fork, parent).identity == after_fork
    store.delete(parent)
    with pytest.raises(RequestError, match="lacks messages that its summary replaces"):
        merge_conversations(store, after_parent, compacted)


def test_a_picked_summary_replaces_nothing(store: Store) -> None:
    """It is a document of the turn; the messages that it replaced are not of the other one."""
    source = _compact(store, save(store, [*exchange("0"), *exchange("1"), *exchange("2")]), 3)
    target = save(store, exchange("start"))

    graft = pick_turns(store, source, [1], target)

    history = store.read(graft.identity)
    assert [each.text for each in history.canisters[2:]] == ["0", "Summary", "2", "2!"]
    assert read_whole(store, history) == (list(history.canisters), [])


def test_a_failed_write_leaves_no_fork(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = save(store, exchange("one")), save(store, exchange("start"))

    def fail(*_: object, **__: object) -> None:
        raise StoreError(detail="The disk is full.")

    monkeypatch.setattr(type(store), "plant", fail)
    with pytest.raises(StoreError):
        pick_turns(store, source, [1], target)
    assert sorted(store.survey()) == sorted([source, target])


def test_pins_go_with_their_messages(store: Store) -> None:
    """A repeated message is pinned under its new id."""
    first = save(store, [*exchange("one"), *exchange("two")[:1]])
    question = store.read(first).canisters[2]
    second = fork(store, first, exchange("three"), at=3)
    last = store.read(second).canisters[-1]
    store.append(first, exchange("four")[1:])
    store.update_metadata(first, pinned=[store.read(first).canisters[0].id])
    store.update_metadata(second, pinned=[question.id, last.id])
    for graft in (merge_conversations(store, first, second), pick_turns(store, second, [2], first)):
        history = store.read(graft.identity)
        texts = {each.id: each.text for each in history.canisters}
        pinned = [texts[each] for each in history.metadata.pinned]
        assert pinned[0] == "one"
        assert set(pinned[1:]) == {"two", "three!"} - ({"three!"} if graft.added == 1 else set())
