"""A book of notes: written, added to, moved and deleted, within limits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vibe_llms.conversations.notes.in_memory import NoteTable
from vibe_llms.exceptions import StoreError
from vibe_llms.memory import NoteBook, NoteOrigin
from vibe_llms.memory.paths import NotePaths
from vibe_llms.memory.settings import MemorySettings

ORIGIN = NoteOrigin(conversation="c1", turn=1, time=datetime(2026, 11, 29, tzinfo=UTC))


def produce_book(**settings: int) -> NoteBook:
    paths = NotePaths(project="web")
    return NoteBook(store=NoteTable(), paths=paths, settings=MemorySettings(**settings))


@pytest.fixture
def book() -> NoteBook:
    return produce_book()


def list_paths(book: NoteBook, path: str = "") -> list[str]:
    return [note.path for note in book.list(path)]


def test_a_note_remembers_where_it_came_from(book: NoteBook) -> None:
    assert book.write("tea", "Green.", ORIGIN)
    assert not book.write("tea.md", "Black.")

    note = book.read("tea")
    assert (note.text, note.origins) == ("Black.", (ORIGIN,))
    assert note.created is not None
    with pytest.raises(StoreError, match=r"There is no note 'milk'"):
        book.read("milk")


def test_an_equal_text_changes_nothing(book: NoteBook) -> None:
    book.write("tea", "Green.")
    before = book.store.read(["own/user/tea.md"])

    book.write("tea", "Green.", ORIGIN)

    assert book.store.read(["own/user/tea.md"]) == before


def test_added_texts_follow_each_other_once(book: NoteBook) -> None:
    for text in ("one", "two\n", "two", "one"):
        book.add("list", text)

    assert book.read("list").text == "one\ntwo\none\n"


def test_front_matter_of_a_person_stays(book: NoteBook) -> None:
    book.store.change("own/user/tea.md", lambda _: "---\ntitle: Tea\n---\nGreen.\n")
    book.add("tea", "Black.", ORIGIN)

    note = book.read("tea")
    assert (note.text, note.others) == ("Green.\nBlack.\n", {"title": "Tea"})


def test_notes_are_listed_by_scope(book: NoteBook) -> None:
    for path in ("tea", "project/plan", "tags/cooking/rice", "customers/acme"):
        book.write(path, "x")
    book.store.change("own/projects/other/secret.md", lambda _: "x")
    book.store.change("@ann/user/secret.md", lambda _: "x")

    all_paths = ["customers/acme.md", "tea.md", "project/plan.md", "tags/cooking/rice.md"]
    assert list_paths(book) == all_paths
    assert list_paths(book, "tags") == list_paths(book, "tags/cooking") == all_paths[3:]
    assert list_paths(book, "project") == ["project/plan.md"]
    assert list_paths(book, "tea") == ["tea.md"]
    assert list_paths(produce_book(), "project") == []
    with pytest.raises(StoreError):
        book.list("nothing")


def test_a_note_comes_before_a_folder_of_its_name(book: NoteBook) -> None:
    book.write("tea", "x")
    book.write("tea/green", "x")

    assert book.delete("tea") == 1
    assert list_paths(book) == ["tea/green.md"]
    assert book.delete("tea") == 1
    for path in ("tea", "", "/", "tags"):
        with pytest.raises(StoreError):
            book.delete(path)


def test_notes_and_folders_move(book: NoteBook) -> None:
    book.write("tea/green", "x", ORIGIN)
    book.write("tea/black", "y")
    book.move("tea", "tags/drinks/tea")
    book.move("tags/drinks/tea/green", "project/green")

    assert list_paths(book) == ["project/green.md", "tags/drinks/tea/black.md"]
    assert book.read("project/green").origins == (ORIGIN,)
    with pytest.raises(StoreError, match="already exists"):
        book.move("project/green", "tags/drinks/tea/black")
    assert len(list_paths(book)) == 2


def test_sizes_and_numbers_are_bounded() -> None:
    book = produce_book(note_bytes=10, notes=2)
    with pytest.raises(StoreError, match="limit is 10"):
        book.write("a", "x" * 11)
    book.write("a", "x")
    book.add("a", "y" * 7)
    with pytest.raises(StoreError, match="limit is 10"):
        book.add("a", "z")
    book.write("b", "x")
    book.write("b", "y")
    with pytest.raises(StoreError, match="2 notes already"):
        book.write("project/c", "x")
    assert book.read("a").text == "x\nyyyyyyy\n"
