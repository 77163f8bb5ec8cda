"""Two stores are synchronized: each gets what the other has, and nothing is overwritten."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from contextlib import suppress
from itertools import count, permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from support.stores.disks import Crash, CrashingDisk, HastyDisk
from support.stores.stored import ENDED, add_run, change_at_random, describe
from support.stores.talks import exchange, fork, save
from vibe_llms.conversations import DirectoryStore, MemoryStore, verify
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.events.engine import RunStartedEvent
from vibe_llms.events.runs import MessageReceivedEvent
from vibe_llms.exceptions import StaleConversationError, StoreError
from vibe_llms.messages.canisters import AnyCanister, UserCanister
from vibe_llms.messages.contents import ImageContent
from vibe_llms.runs.sync_reports import SyncedLabels, SyncReport
from vibe_llms.runs.syncing import sync_stores

ONE, TWO, THREE, FOUR = map(exchange, ("one", "two", "three", "four"))


def read_histories(store: ConversationStore) -> set[tuple[AnyCanister, ...]]:
    """Return all histories of a store; the ids of the conversations may differ."""
    return {store.read(identity).canisters for identity in store.survey()}


def tell(report: SyncReport) -> list[tuple[str, str]]:
    assert report.is_whole, report
    return [(each.side, each.change) for each in report.changes]


def sync(here: ConversationStore, there: ConversationStore) -> list[tuple[str, str]]:
    """Synchronize, and check that it is complete and that a second time changes nothing."""
    changes = tell(sync_stores(here, there))
    assert read_histories(here) == read_histories(there)
    assert tell(sync_stores(here, there)) == []
    assert tell(sync_stores(there, here)) == []
    for store in (here, there):
        assert not verify(store).findings
    return changes


def test_each_side_gets_what_is_new() -> None:
    here, there = MemoryStore(), MemoryStore()
    mine, theirs = save(here, ONE, name="Mine"), save(there, TWO, name="Theirs")
    child = fork(here, mine, THREE, at=1)
    assert sorted(sync(here, there)) == [("here", "added"), ("there", "added"), ("there", "added")]
    assert describe(here) == describe(there)
    link = there.read_metadata(child).parent
    assert link is not None
    assert (link.identity, theirs in list(here.survey())) == (mine, True)


@pytest.mark.parametrize("grown", ["here", "there"])
def test_a_conversation_that_has_grown_is_extended(grown: str) -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    sync(here, there)
    (here if grown == "here" else there).append(identity, TWO)
    assert sync(here, there) == [("there" if grown == "here" else "here", "extended")]


def test_a_conversation_that_has_grown_on_both_sides_becomes_a_fork() -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE, name="Piles")
    sync(here, there)
    here.append(identity, TWO)
    there.append(identity, THREE)
    report = sync_stores(here, there)
    assert tell(report) == [("there", "forked"), ("here", "forked")]
    assert {each.parent for each in report.changes} == {identity}
    mine, theirs = report.changes[1].identity, report.changes[0].identity
    assert here.read(identity).canisters == there.read(theirs).canisters == (*ONE, *TWO)
    assert there.read(identity).canisters == here.read(mine).canisters == (*ONE, *THREE)
    link = here.read_metadata(mine).parent
    assert link is not None
    assert (link.identity, here.read_metadata(mine).name) == (identity, "Piles")
    assert sync(here, there) == []


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("side", ["here", "there"])
def test_an_ending_stays_single_if_its_conversation_was_deleted(side: str, grows: bool) -> None:
    """The deleted conversation comes back under the id of its fork."""
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    sync(here, there)
    here.append(identity, TWO)
    there.append(identity, THREE)
    sync(here, there)
    store, other = (here, there) if side == "here" else (there, here)
    store.delete(identity)
    copy = other.fork(identity)
    if grows:
        other.append(identity, FOUR)
    changes = [("here", "added"), ("here", "added"), ("here", "extended")]
    expected = changes if grows else changes[:2]
    assert sorted(sync(here, there)) == [(side, change) for _, change in expected]
    assert len(list(store.survey())) == len(list(other.survey())) == 3
    assert copy in set(store.survey())


@pytest.mark.parametrize("side", ["here", "there"])
def test_a_fork_from_a_conflict_is_extended_and_not_forked_again(side: str) -> None:
    """Whoever continues either ending, at either side, continues the same conversation."""
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    sync(here, there)
    here.append(identity, TWO)
    there.append(identity, THREE)
    sync(here, there)
    store = here if side == "here" else there
    for each in list(store.survey()):
        store.append(each, exchange(each))
    other = "there" if side == "here" else "here"
    assert sync(here, there) == [(other, "extended"), (other, "extended")]
    assert len(list(here.survey())) == len(list(there.survey())) == 2


def test_a_fork_that_has_grown_on_both_sides_becomes_another_fork() -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    sync(here, there)
    here.append(identity, TWO)
    there.append(identity, THREE)
    sync(here, there)
    (mine,) = set(here.survey()) - {identity}
    here.append(mine, exchange("mine"))
    there.append(identity, exchange("theirs"))
    assert sync(here, there) == [("there", "forked"), ("here", "forked")]
    assert len(read_histories(here)) == 3


def test_a_fork_of_a_conflict_is_copied_with_its_beginning() -> None:
    """Its parent has another id on the other side, or another content."""
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    sync(here, there)
    here.append(identity, TWO)
    there.append(identity, THREE)
    child = fork(here, identity, FOUR, at=3)
    assert ("there", "added") in sync(here, there)
    assert there.read(child).canisters == (*ONE, TWO[0], *FOUR)
    assert there.read_metadata(child).parent is not None


@pytest.mark.parametrize("order", list(permutations([(0, 1), (0, 2), (1, 2)])))
def test_three_machines_agree(order: tuple[tuple[int, int], ...]) -> None:
    """Each pair synchronizes, in any order; then all have the same histories."""
    stores = [MemoryStore() for _ in range(3)]
    identity = save(stores[0], ONE)
    for other in stores[1:]:
        sync_stores(stores[0], other)
    for number, store in enumerate(stores):
        store.append(identity, exchange(f"said at {number}"))
    for _ in range(2):
        for one, other in order:
            assert sync_stores(stores[one], stores[other]).is_whole
    histories = [read_histories(store) for store in stores]
    assert histories[0] == histories[1] == histories[2]
    assert len(histories[0]) == 3
    assert [len(list(store.survey())) for store in stores] == [3, 3, 3]


def test_names_and_tags() -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    sync(here, there)
    here.update_metadata(identity, tags=("red", "blue"))
    there.update_metadata(identity, tags=("green",), name="Named", keep=2, pinned=[ONE[0].id])
    sync(here, there)
    assert (here.read_metadata(identity).keep, here.read_metadata(identity).pinned) == (
        2,
        (ONE[0].id,),
    )
    assert here.read_metadata(identity).name == there.read_metadata(identity).name == "Named"
    assert set(here.read_metadata(identity).tags) == {"red", "blue", "green"}
    here.update_metadata(identity, name="Other")
    report = sync_stores(here, there)
    assert (tell(report), len(report.notices)) == ([], 1)
    assert "'Other' here and 'Named' there" in report.notices[0].message
    assert (here.read_metadata(identity).name, there.read_metadata(identity).name) == (
        "Other",
        "Named",
    )


@pytest.mark.parametrize("renamed", ["here", "there", "both"])
def test_a_new_name_and_a_removed_tag_are_recognized(renamed: str) -> None:
    """With the names and tags after the last synchronization."""
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE, name="Old")
    here.update_metadata(identity, tags=("red", "blue"))
    labels = sync_stores(here, there).labels
    if renamed != "there":
        here.update_metadata(identity, name="New", tags=("red", "green"))
    if renamed != "here":
        there.update_metadata(identity, name="New", tags=("red", "yellow"))
    report = sync_stores(here, there, labels=labels)
    assert (report.is_whole, report.notices) == (True, ())
    green, yellow = ({"green"}, set()) if renamed == "here" else (set(), {"yellow"})
    green = {"green"} if renamed == "both" else green
    for store in (here, there):
        metadata = store.read_metadata(identity)
        assert (metadata.name, set(metadata.tags)) == ("New", {"red"} | green | yellow)
    again = sync_stores(here, there, labels=report.labels)
    assert (again.changes, again.labels) == ((), report.labels)


def test_labels_of_a_conflict_reach_the_other_side() -> None:
    """The conversation has another id there."""
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE, name="Old")
    here.update_metadata(identity, tags=("a", "b"), pinned=[each.id for each in ONE], keep=1)
    labels = sync_stores(here, there).labels
    here.append(identity, TWO)
    there.append(identity, THREE)
    report = sync_stores(here, there, labels=labels)
    (theirs,) = [each.identity for each in report.changes if each.side == "there"]
    here.update_metadata(identity, name="New", tags=("b",), pinned=[ONE[1].id], keep=4)
    report = sync_stores(here, there, labels=report.labels)
    assert (tell(report), report.notices) == ([("there", "extended")], ())
    for metadata in (here.read_metadata(identity), there.read_metadata(theirs)):
        assert (metadata.name, metadata.tags, metadata.keep) == ("New", ("b",), 4)
        assert metadata.pinned == (ONE[1].id,)
    assert there.read_metadata(identity).name == "Old"
    there.update_metadata(theirs, name="Newer", pinned=())
    report = sync_stores(here, there, labels=report.labels)
    assert here.read_metadata(identity).name == "Newer"
    assert here.read_metadata(identity).pinned == ()
    assert sync_stores(here, there, labels=report.labels).changes == ()


def test_two_numbers_of_turns_both_stay() -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    labels = sync_stores(here, there).labels
    here.update_metadata(identity, keep=2)
    there.update_metadata(identity, keep=7)
    report = sync_stores(here, there, labels=labels)
    assert (report.changes, len(report.notices)) == ((), 1)
    here.update_metadata(identity, keep=7)
    assert not sync_stores(here, there, labels=report.labels).notices


def test_two_new_names_both_stay() -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE, name="Old")
    labels = sync_stores(here, there).labels
    here.update_metadata(identity, name="Mine")
    there.update_metadata(identity, name="Theirs")
    report = sync_stores(here, there, labels=labels)
    assert len(report.notices) == 1
    assert report.labels == labels
    here.update_metadata(identity, name="Theirs")
    assert not sync_stores(here, there, labels=report.labels).notices


def test_runs_and_contents_are_copied() -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    add_run(here, identity, "first")
    sync(here, there)
    add_run(there, identity, "second")
    sync(here, there)
    assert describe(here) == describe(there)
    assert len(here.open_log(identity).read()) == 4


def test_a_run_that_is_not_at_rest_is_not_copied() -> None:
    """Otherwise another machine could perform it, too; its messages are copied."""
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    log = here.open_log(identity)
    log.claim()
    log.append("r", RunStartedEvent(run_id="r", conversation_id=identity, length=2))
    report = sync_stores(here, there)
    assert tell(report) == [("there", "added")]
    assert "not at rest" in report.notices[0].message
    assert not there.open_log(identity).read()
    there.append(identity, TWO)
    refused = sync_stores(here, there).refused
    assert "active" in refused[0].message
    log.append("r", ENDED)
    log.close()
    assert tell(sync_stores(here, there)) == [("here", "extended"), ("there", "extended")]
    assert len(there.open_log(identity).read()) == 2


def test_a_message_that_waits_for_a_run_stays_where_it_is() -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    add_run(here, identity, "first")
    here.open_inbox(identity).put(MessageReceivedEvent(canister=TWO[0], message_id="one"))
    for changes in ([("there", "added")], []):
        report = sync_stores(here, there)
        assert (tell(report), len(report.notices)) == (changes, 1)
    assert not there.open_log(identity).read()
    assert not there.open_inbox(identity).read()
    here.open_inbox(identity).empty(lambda _: None)
    assert sync(here, there) == [("there", "extended")]
    assert len(there.open_log(identity).read()) == 2


def test_other_runs_of_one_conversation_both_stay() -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    sync(here, there)
    add_run(here, identity, "mine")
    add_run(there, identity, "theirs")
    report = sync_stores(here, there)
    assert tell(report) == [("there", "forked"), ("here", "forked")]
    assert [len(store.open_log(identity).read()) for store in (here, there)] == [2, 2]
    assert sync(here, there) == []


def test_an_image_goes_with_its_message() -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    sync(here, there)
    here.append(identity, TWO)
    picture = ImageContent(mime_type="image/png", data=b"picture")
    there.append(identity, [UserCanister([picture])])
    sync(here, there)
    assert picture.content_id is not None
    assert here.contents.read(picture.content_id) == b"picture"


def test_an_error_in_one_conversation_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, there = MemoryStore(), MemoryStore()
    first, second = sorted([save(here, ONE), save(here, TWO)])
    read = MemoryStore.read

    def fail(store: MemoryStore, identity: str, **settings: Any) -> Any:
        if identity == first:
            raise StoreError(detail="It is damaged.")
        return read(store, identity, **settings)

    monkeypatch.setattr(MemoryStore, "read", fail)
    report = sync_stores(here, there)
    assert not report.is_whole
    assert [(each.place, each.message) for each in report.refused] == [(first, "It is damaged.")]
    assert list(there.survey()) == [second]


@pytest.mark.parametrize("kind", ["new", "grown", "conflict"])
def test_another_synchronization_may_be_faster(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    if kind != "new":
        sync(here, there)
        here.append(identity, TWO)
    if kind == "conflict":
        there.append(identity, THREE)
    name = "append" if kind == "grown" else "plant"
    write, is_first = getattr(MemoryStore, name), True

    def interrupt(store: MemoryStore, *arguments: Any, **settings: Any) -> Any:
        nonlocal is_first
        if is_first:
            is_first = False
            assert sync_stores(here, there).is_whole
        return write(store, *arguments, **settings)

    monkeypatch.setattr(MemoryStore, name, interrupt)
    assert sync_stores(here, there).is_whole
    assert not is_first
    assert read_histories(here) == read_histories(there)
    assert len(list(here.survey())) == (2 if kind == "conflict" else 1)
    assert sync(here, there) == []


def test_a_conversation_that_keeps_growing_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = MemoryStore(), MemoryStore()
    identity = save(here, ONE)
    sync(here, there)
    here.append(identity, TWO)

    def fail(*_: object, **__: object) -> None:
        raise StaleConversationError(identity=identity, remedy="Append the other messages.")

    monkeypatch.setattr(MemoryStore, "append", fail)
    (refused,) = sync_stores(here, there).refused
    assert refused.message.endswith("another writer changed it. Run `vibe sync` again.")


def test_a_store_is_not_synchronized_with_itself() -> None:
    store = MemoryStore()
    with pytest.raises(StoreError, match="with itself"):
        sync_stores(store, store)


def diverge(here: DirectoryStore, there: DirectoryStore) -> None:
    """Make new, grown and contradicting conversations on both sides."""
    common = [save(here, [*ONE, *exchange(f"{number}")]) for number in range(3)]
    sync_stores(here, there)
    here.append(common[0], TWO)
    there.append(common[0], THREE)
    here.append(common[1], TWO)
    fork(there, common[2], FOUR, at=3)
    add_run(there, common[2], "run")
    add_run(here, save(here, FOUR), "another")


@pytest.mark.slow
@pytest.mark.parametrize("side", ["here", "there"])
def test_killed_at_any_step_it_is_completed_by_the_next_one(tmp_path: Path, side: str) -> None:
    """Each conversation is there completely or not at all; nothing is copied twice."""
    folders = {name: tmp_path / name for name in ("here", "there")}
    stores = {name: DirectoryStore(folder, disk=HastyDisk()) for name, folder in folders.items()}
    diverge(stores["here"], stores["there"])
    wanted = read_histories(stores["here"]) | read_histories(stores["there"])
    crashes = 0
    for number in count(1, 2):
        disk = CrashingDisk(number)
        crashing = {**stores, side: DirectoryStore(folders[side], disk=disk)}
        with suppress(Crash):
            sync_stores(crashing["here"], crashing["there"])
        if disk.steps > 0:
            break
        crashes += 1
        histories = read_histories(stores[side])
        assert all(any(one == two[: len(one)] for two in wanted) for one in histories)
    assert crashes > 5
    assert sync_stores(stores["here"], stores["there"]).is_whole
    assert read_histories(stores["here"]) == read_histories(stores["there"])
    assert len(list(stores["here"].survey())) == len(list(stores["there"].survey()))
    known = read_histories(stores["here"])
    assert all(any(one == two[: len(one)] for two in known) for one in wanted)


@pytest.mark.slow
@examples(30)
@given(seed=st.integers(0, 10_000), here=st.booleans(), there=st.booleans())
def test_whatever_was_done_both_sides_agree(seed: int, here: bool, there: bool) -> None:
    """Random changes on both sides, twice."""
    with tempfile.TemporaryDirectory() as folder:
        stores: list[DirectoryStore | MemoryStore] = [
            DirectoryStore(Path(folder, name), disk=HastyDisk()) if is_folder else MemoryStore()
            for name, is_folder in (("here", here), ("there", there))
        ]
        labels: Mapping[str, SyncedLabels] = {}
        for turn in range(2):
            for number, store in enumerate(stores):
                change_at_random(store, 4 * seed + 2 * turn + number)
            said = [read_histories(store) for store in stores]
            report = sync_stores(stores[0], stores[1], labels=labels)
            labels = report.labels
            assert report.is_whole, report
            assert read_histories(stores[0]) == read_histories(stores[1])
            known = read_histories(stores[0])
            for history in said[0] | said[1]:
                assert any(history == each[: len(history)] for each in known)
            assert not sync_stores(stores[0], stores[1], labels=labels).changes
            for store in stores:
                assert not verify(store).findings
