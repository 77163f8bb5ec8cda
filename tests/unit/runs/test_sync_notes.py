"""Notes of two stores are synchronized: no text is lost, and each conflict becomes two notes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.conversations import DirectoryStore, MemoryStore
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import StoreError
from vibe_llms.runs.sync_reports import SyncReport
from vibe_llms.runs.syncing import sync_stores

TEA = "own/user/tea.md"


def put(store: ConversationStore, key: str, text: str | None) -> None:
    """Write or delete a note."""
    store.notes.change(key, lambda _: text)


def read(store: ConversationStore) -> dict[str, str]:
    """Return all notes."""
    return dict(store.notes.read(store.notes.survey("")))


def tell(report: SyncReport) -> list[tuple[str, str, str]]:
    """Return the changes of notes."""
    assert report.is_whole
    return [(each.side, each.change, each.key) for each in report.note_changes]


def test_each_side_gets_the_notes_of_the_other(tmp_path: Path) -> None:
    here, there = DirectoryStore(tmp_path / "here"), MemoryStore()
    put(here, TEA, "Green tea.")
    put(there, "own/tags/cooking/rice.md", "Rinse it.")
    report = sync_stores(here, there)
    assert read(here) == read(there)
    assert sorted(tell(report)) == [
        ("here", "added", "own/tags/cooking/rice.md"),
        ("there", "added", TEA),
    ]
    assert tell(sync_stores(here, there)) == []


@pytest.mark.parametrize("changed", ["here", "there"])
def test_a_text_that_one_side_has_changed_replaces_the_other(changed: str) -> None:
    """A correction is not a conflict, if the last synchronization is known."""
    here, there = MemoryStore(), MemoryStore()
    put(here, TEA, "Green tea.")
    known = sync_stores(here, there).note_digests
    put(here if changed == "here" else there, TEA, "Black tea.")
    report = sync_stores(here, there, note_digests=known)
    assert read(here) == read(there) == {TEA: "Black tea."}
    assert tell(report) == [("there" if changed == "here" else "here", "changed", TEA)]


def test_texts_that_both_have_changed_become_two_notes() -> None:
    """The later one keeps the name, on both sides, whoever begins."""
    results = []
    for turns in (False, True):
        here, there = MemoryStore(), MemoryStore()
        put(here, TEA, "Green tea.")
        known = sync_stores(here, there).note_digests
        put(here, TEA, "---\nupdated: 2026-11-29T12:00:00Z\n---\nBlack tea.\n")
        put(there, TEA, "---\nupdated: 2026-11-28T12:00:00Z\n---\nWhite tea.\n")
        sides = (there, here) if turns else (here, there)
        report = sync_stores(*sides, note_digests=known)
        assert read(here) == read(there)
        assert tell(sync_stores(*sides, note_digests=report.note_digests)) == []
        (conflict, _) = [each for each in report.note_changes if each.change == "conflict"]
        assert (conflict.conflicts_with, conflict.key.startswith("own/user/tea.conflict-")) == (
            *(TEA, True),
        )
        results.append(read(here))
    assert results[0] == results[1]
    assert "Black" in results[0].pop(TEA)
    assert ["White" in each for each in results[0].values()] == [True]


def test_a_deletion_reaches_every_store(tmp_path: Path) -> None:
    """Also by way of a store that others synchronize with, and if the state was lost."""
    here, stick, other = (
        DirectoryStore(tmp_path / "a"),
        DirectoryStore(tmp_path / "b"),
        MemoryStore(),
    )
    put(here, TEA, "Green tea.")
    put(here, "own/user/old.md", "Old.")
    for store in (here, other):
        sync_stores(store, stick)
    put(here, TEA, None)
    here.notes.move({"own/user/old.md": "own/user/new.md"})
    changes = tell(sync_stores(here, stick))
    assert sorted(changes) == [
        ("there", "added", "own/user/new.md"),
        ("there", "deleted", "own/user/old.md"),
        ("there", "deleted", TEA),
    ]
    assert sorted(tell(sync_stores(other, stick))) == [("here", *each[1:]) for each in changes]
    assert read(here) == read(stick) == read(other) == {"own/user/new.md": "Old."}


def test_a_note_that_was_changed_before_its_deletion_is_deleted_on_the_other_side() -> None:
    """The other side has the text of the last synchronization."""
    here, there = MemoryStore(), MemoryStore()
    put(here, TEA, "Green tea.")
    known = sync_stores(here, there).note_digests
    put(here, TEA, "Black tea.")
    put(here, TEA, None)
    assert tell(sync_stores(here, there, note_digests=known)) == [("there", "deleted", TEA)]


def test_a_note_that_was_changed_on_the_other_side_comes_back_with_a_notice() -> None:
    here, there = MemoryStore(), MemoryStore()
    put(here, TEA, "Green tea.")
    known = sync_stores(here, there).note_digests
    put(here, TEA, None)
    put(there, TEA, "White tea.")
    report = sync_stores(here, there, note_digests=known)
    assert tell(report) == [("here", "added", TEA)]
    assert [each.place for each in report.notices] == [f"note {TEA}"]
    assert sync_stores(here, there, note_digests=report.note_digests).notices == ()


@pytest.mark.parametrize("text", ["Green tea.", "White tea."])
def test_a_note_that_was_written_again_stays(text: str) -> None:
    """Whichever side writes it, also with the text that was deleted."""
    for writes_here in (True, False):
        here, there = MemoryStore(), MemoryStore()
        put(here, TEA, "Green tea.")
        known = sync_stores(here, there).note_digests
        put(here, TEA, None)
        known = sync_stores(here, there, note_digests=known).note_digests
        put(here if writes_here else there, TEA, text)
        report = sync_stores(here, there, note_digests=known)
        assert read(here) == read(there) == {TEA: text}
        assert report.notices == ()
        assert tell(sync_stores(here, there, note_digests=report.note_digests)) == []


def test_a_file_that_was_removed_by_hand_comes_back(tmp_path: Path) -> None:
    """A folder that is not there, such as one that is not mounted, deletes nothing elsewhere."""
    here, there = DirectoryStore(tmp_path), MemoryStore()
    put(here, TEA, "Green tea.")
    known = sync_stores(here, there).note_digests
    (tmp_path / "notes" / TEA).unlink()
    assert tell(sync_stores(here, there, note_digests=known)) == [("here", "added", TEA)]


def test_a_note_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """Its bytes stay, on no other side, and the others are synchronized."""
    here, there = DirectoryStore(tmp_path), MemoryStore()
    put(here, TEA, "Green tea.")
    put(here, "own/user/a.md", "A")
    file = tmp_path / "notes" / TEA
    file.write_bytes(b"Th\xe9 vert.")
    report = sync_stores(here, there)
    (refused,) = report.refused
    assert refused.place == f"note {TEA}"
    assert str(file) in refused.message
    assert "UTF-8" in refused.message
    assert read(there) == {"own/user/a.md": "A"}
    assert file.read_bytes() == b"Th\xe9 vert."


def test_without_the_list_of_deleted_notes_they_come_back(tmp_path: Path) -> None:
    """That it cannot be read is reported."""
    here, there = DirectoryStore(tmp_path), MemoryStore()
    put(here, TEA, "Green tea.")
    known = sync_stores(here, there).note_digests
    put(here, TEA, None)
    (tmp_path / "notes/.deleted.json").write_bytes(b"{")
    report = sync_stores(here, there, note_digests=known)
    assert [each.place for each in report.refused] == ["deleted notes here"]
    assert read(there) == {TEA: "Green tea."}


def test_a_note_that_cannot_be_written_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are synchronized."""
    here, there = MemoryStore(), MemoryStore()
    put(here, TEA, "Green tea.")
    put(here, "own/user/z.md", "z")
    change = there.notes.change

    def fail(key: str, produce: object) -> None:
        if key == TEA:
            raise StoreError(detail="The disk is full.")
        change(key, produce)  # type: ignore[arg-type]

    monkeypatch.setattr(type(there.notes), "change", lambda _, *arguments: fail(*arguments))
    report = sync_stores(here, there)
    assert [each.place for each in report.refused] == [f"note {TEA}"]
    monkeypatch.undo()
    assert read(there) == {"own/user/z.md": "z"}


TEXTS = st.sampled_from(["a", "b", "c", None])


@examples(40)
@given(
    st.lists(st.tuples(st.booleans(), st.sampled_from("xyz"), TEXTS), max_size=12), st.booleans()
)
def test_no_text_is_lost(steps: list[tuple[bool, str, str | None]], keeps: bool) -> None:
    """Whatever both sides write between synchronizations, and if the state is lost."""
    here, there = MemoryStore(), MemoryStore()
    known: dict[str, str] = {}
    for number, (is_here, name, text) in enumerate(steps):
        side, key = here if is_here else there, f"own/user/{name}.md"
        deleted = {read(side).get(key)} if text is None else set()
        put(side, key, text and f"{text} {number}")  # as real notes, which have their time
        before = {*read(here).values(), *read(there).values()} - deleted
        report = sync_stores(here, there, note_digests=known if keeps else {})
        known = dict(report.note_digests)
        after = read(here)
        assert after == read(there)
        if not keeps:
            assert before <= {*after.values()}
        if text is None:
            assert key not in after
        assert tell(sync_stores(there, here, note_digests=known)) == []


@pytest.mark.parametrize("name", ["\u8336" * 60 + ".md", "a." + "b" * 190, "c" * 200])
def test_a_conflict_of_a_long_name_keeps_both_texts(name: str) -> None:
    """The name of the second note is shortened by its bytes, which are limited."""
    here, there = MemoryStore(), MemoryStore()
    put(here, f"own/user/{name}", "Green tea.")
    put(there, f"own/user/{name}", "Black tea.")
    assert sync_stores(here, there).is_whole
    assert read(here) == read(there)
    assert sorted(read(here).values()) == ["Black tea.", "Green tea."]


def test_a_second_note_that_was_edited_does_not_replace_another_text() -> None:
    """The same conflict again gets a third note."""
    here, there = MemoryStore(), MemoryStore()
    put(here, TEA, "A")
    put(there, TEA, "B")
    known = sync_stores(here, there).note_digests
    (second,) = {*read(here)} - {TEA}
    for store in (here, there):
        put(store, second, "Edited.")
    put(here, TEA, "A")
    put(there, TEA, "C")
    assert sync_stores(here, there, note_digests=known).is_whole
    assert read(here) == read(there)
    assert sorted(read(here).values()) == ["A", "C", "Edited."]


def test_a_link_among_the_notes_does_not_stop_the_others(tmp_path: Path) -> None:
    here, there = DirectoryStore(tmp_path / "here"), MemoryStore()
    put(here, TEA, "Green tea.")
    (tmp_path / "here/notes/own/user/linked").symlink_to(tmp_path)
    put(there, "own/user/linked/a.md", "A")
    put(there, "own/user/rice.md", "Rinse it.")
    report = sync_stores(here, there)
    assert [each.place for each in report.refused] == ["note own/user/linked/a.md"]
    assert {*read(here)} == {TEA, "own/user/rice.md"}
    assert TEA in read(there)
