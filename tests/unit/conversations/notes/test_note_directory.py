"""Notes in a directory: keys that cannot escape, and files that people have put there."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.stores.disks import Crash, CrashingDisk, HastyDisk, Ledger
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.notes import interfaces
from vibe_llms.conversations.notes.directory import NoteDirectory
from vibe_llms.conversations.notes.interfaces import NOTE_BYTES
from vibe_llms.exceptions import CorruptionError, StoreError


@pytest.fixture
def notes(tmp_path: Path) -> NoteDirectory:
    return DirectoryStore(tmp_path, disk=HastyDisk()).notes


def put(notes: NoteDirectory, key: str, text: str) -> None:
    notes.change(key, lambda _: text)


@pytest.mark.parametrize(
    "key",
    [
        *["../x", "a/../../x", "/etc/x", "a//b", "a/./b", ".lock", "a/.b", "a\\b", "a/ b", ""],
        *["a\nb", "a\0b", "\udce9", "x" * 201, "/".join("a" * 13), "/".join(["x" * 190] * 6)],
    ],
)
def test_invalid_keys_are_refused(notes: NoteDirectory, tmp_path: Path, key: str) -> None:
    for act in (lambda: put(notes, key, "text"), lambda: notes.read([key])):
        with pytest.raises(StoreError, match="Invalid name of a note"):
            act()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"] == []


def test_links_are_not_followed(notes: NoteDirectory, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("secret")
    put(notes, "own/a.md", "text")
    own = tmp_path / "notes" / "own"
    (own / "folder").symlink_to(outside)
    (own / "file.md").symlink_to(outside / "x.md")

    for key in ("own/folder/x.md", "own/file.md"):
        for act in (lambda key=key: put(notes, key, "text"), lambda key=key: notes.read([key])):
            with pytest.raises(StoreError, match="symbolic link"):
                act()
    with pytest.raises(StoreError, match="symbolic link"):
        notes.move({"own/a.md": "own/folder/a.md"})
    with pytest.raises(StoreError, match="symbolic link"):
        notes.survey("own/folder/")
    assert [*notes.survey("")] == ["own/a.md"]
    assert [path.name for path in outside.iterdir()] == ["x.md"]
    assert (outside / "x.md").read_text() == "secret"


def test_files_that_are_not_notes_are_ignored(notes: NoteDirectory, tmp_path: Path) -> None:
    put(notes, "own/a.md", "text")
    own = tmp_path / "notes" / "own"
    (own / ".a.md.0123abcd").write_text("draft")
    (own / "large.md").write_bytes(b"x" * (NOTE_BYTES + 1))
    (own / "odd.md").write_bytes(b"\xff")

    assert [*notes.survey("own/")] == ["own/a.md", "own/odd.md"]
    assert notes.read(["own/large.md", "own/none.md", "own"]) == {}
    assert notes.read(["own/odd.md"], tolerant=True) == {"own/odd.md": "\ufffd"}
    for act in (lambda: put(notes, "own/odd.md", "text"), lambda: notes.read(["own/odd.md"])):
        with pytest.raises(CorruptionError, match="not UTF-8"):
            act()
    with pytest.raises(StoreError, match="larger"):
        put(notes, "own/large.md", "text")
    with pytest.raises(StoreError, match="folder"):
        put(notes, "own", "text")


@pytest.mark.parametrize("text", ["a\0b", "\udce9", "x" * (NOTE_BYTES + 1)])
def test_invalid_texts_are_refused(notes: NoteDirectory, text: str) -> None:
    put(notes, "own/a.md", "text")

    with pytest.raises(StoreError):
        put(notes, "own/a.md", text)

    assert notes.read(["own/a.md"]) == {"own/a.md": "text"}


def test_an_error_of_a_change_leaves_the_note(notes: NoteDirectory) -> None:
    put(notes, "own/a.md", "text")

    def fail(old: str | None) -> str:
        raise StoreError(detail=f"No: {old}.")

    with pytest.raises(StoreError, match="No: text"):
        notes.change("own/a.md", fail)
    put(notes, "own/a.md", "other")  # the lock is free
    assert notes.read(["own/a.md"]) == {"own/a.md": "other"}


def test_empty_folders_are_removed(notes: NoteDirectory, tmp_path: Path) -> None:
    put(notes, "own/a/b/c.md", "text")
    put(notes, "own/d.md", "text")
    notes.move({"own/a/b/c.md": "own/e/c.md"})
    notes.change("own/e/c.md", lambda _: None)

    names = sorted(path.name for path in (tmp_path / "notes").rglob("*"))
    assert names == [".deleted.json", ".lock", "d.md", "own"]


def test_a_crash_during_a_deletion_leaves_the_note_or_the_trace(tmp_path: Path) -> None:
    """A note that is gone without a trace would come back from another machine."""
    put(DirectoryStore(tmp_path).notes, "own/a.md", "text")
    left = DirectoryStore(tmp_path).notes
    for steps in range(1, 20):
        notes = DirectoryStore(tmp_path, disk=CrashingDisk(steps)).notes
        try:
            notes.change("own/a.md", lambda _: None)
        except Crash:
            assert left.survey("") or left.survey_deleted()
        else:
            break
        put(left, "own/a.md", "text")
    assert steps > 2
    assert [*left.survey_deleted()] == ["own/a.md"]


def test_the_latest_deletions_are_remembered(
    notes: NoteDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interfaces, "DELETIONS", 2)
    for name in "abc":
        put(notes, f"own/{name}.md", name)
        notes.change(f"own/{name}.md", lambda _: None)
    assert [*notes.survey_deleted()] == ["own/b.md", "own/c.md"]


def test_every_change_is_on_the_disk_when_it_returns(tmp_path: Path) -> None:
    disk = Ledger()
    notes = DirectoryStore(tmp_path, disk=disk).notes

    put(notes, "own/a/b.md", "text")
    assert disk.settle() == set()
    put(notes, "own/a/b.md", "other")
    assert disk.settle() == set()
    notes.move({"own/a/b.md": "own/c/b.md"})
    assert disk.settle() == set()
    notes.change("own/c/b.md", lambda _: None)
    assert disk.settle() == set()
