"""``vibe memory``: notes listed, shown, added, edited, searched and deleted."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest

from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations import DirectoryStore
from vibe_llms.memory import NoteOrigin
from vibe_llms.memory.books import open_book
from vibe_llms.memory.paths import NotePaths

Vibe = Callable[..., Any]


def test_notes_are_added_shown_and_deleted(vibe: Vibe, home: Path) -> None:
    assert "There are no notes yet" in vibe("memory", "list").err
    vibe("memory", "add", "tea", "Likes", "green tea.")
    vibe("memory", "add", "project/plan.md", stdin=b"# Plan\n\nShip it.\n")
    vibe("memory", "add", "tea.md", "No sugar.")

    assert vibe("memory", "show", "tea").out == "Likes green tea.\nNo sugar.\n"
    assert [row["path"] for row in vibe("memory", "list", "--json").read_json()] == [
        "tea.md",
        "project/plan.md",
    ]
    assert vibe("memory", "list", "project").out.startswith("project/plan.md\t")
    refused = vibe("memory", "delete", "tea")
    assert (refused.code != 0, "--yes" in refused.err) == (True, True)
    assert vibe("memory", "delete", "tea", "project", "--yes").code == 0
    assert vibe("memory", "list", "--json").read_json() == []
    assert not list((home / ".local/share/vibe-llms/notes").rglob("*.md"))


def test_a_note_shows_its_conversation(vibe: Vibe, home: Path) -> None:
    book = open_book(DirectoryStore(home / ".local/share/vibe-llms"), load_configuration())
    time = datetime(2026, 11, 29, 12, tzinfo=UTC)
    book.write("tea", "Green.", NoteOrigin(conversation="c1", turn=3, time=time))

    shown = vibe("memory", "show", "tea")
    assert shown.out == "Green.\n"
    assert "from conversation c1, turn 3. See it: vibe show c1" in shown.err
    (origin,) = vibe("memory", "show", "tea", "--json").read_json()["origins"]
    assert origin == {"conversation": "c1", "turn": 3, "time": "2026-11-29T12:00:00+00:00"}
    assert "c1" in vibe("memory", "list").out


def test_other_projects_are_listed_on_request(vibe: Vibe, home: Path) -> None:
    book = open_book(DirectoryStore(home / ".local/share/vibe-llms"), load_configuration())
    other = NotePaths(project="other")
    book.store.change(other.locate("project/plan"), lambda _: "Another plan.")

    assert vibe("memory", "list").out == ""
    assert "projects/other/plan.md" in vibe("memory", "list", "--all").out
    assert vibe("memory", "show", "projects/other/plan").out == "Another plan.\n"
    assert vibe("memory", "search", "plan").out == ""
    assert "projects/other/plan.md:1" in vibe("memory", "search", "plan", "--all").out


def test_notes_are_searched(vibe: Vibe, home: Path) -> None:
    vibe("memory", "add", "a", "Green tea is hot.")
    vibe("memory", "add", "b", "Tea.")

    words = vibe("memory", "search", "hot", "tea", "--json").read_json()
    assert [hit["path"] for hit in words] == ["a.md", "b.md"]
    assert "No matches" in vibe("memory", "search", "milk").err
    assert vibe("memory", "search", "hot").out == "a.md:1\n  Green tea is hot.\n"


def test_notes_are_searched_by_meaning(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIBE_LLMS_EMBEDDER", "scripted:words")
    vibe("memory", "add", "a", "Green tea is hot.")

    (hit,) = vibe("memory", "search", "--meaning", "hot tea", "--json").read_json()
    assert hit == {"path": "a.md", "line": 1, "text": "Green tea is hot."}


def test_a_note_is_edited(vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vibe("memory", "edit", "tea", stdin=b"Green.")
    assert vibe("memory", "show", "tea").out == "Green.\n"

    edited: list[str] = []

    def edit(filename: str) -> None:
        edited.append(Path(filename).read_text())
        Path(filename).write_text("Black.\n")

    monkeypatch.setattr(click, "edit", edit)
    monkeypatch.setattr("vibe_llms.interfaces.cli.commands.memory.writing.can_edit", lambda: True)
    vibe("memory", "edit", "tea")
    assert vibe("memory", "show", "tea").out == "Black.\n"
    assert "unchanged" in vibe("memory", "edit", "tea").err
    assert edited == ["Green.\n", "Black.\n"]


def read_kept(errors: str) -> str:
    """Return the text of the file that an error names, and delete it."""
    match = re.search(r"Your text is in (.*\.md)\.$", errors, re.M)
    assert match is not None
    text = Path(match[1]).read_text()
    Path(match[1]).unlink()
    return text


def test_a_change_during_an_edit_is_not_lost(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vibe("memory", "add", "tea", "Green.")
    book = open_book(DirectoryStore(home / ".local/share/vibe-llms"), load_configuration())

    def edit(filename: str) -> None:
        book.add("tea", "Hot.")
        Path(filename).write_text("Black.\n\nMilk.\n")

    monkeypatch.setattr(click, "edit", edit)
    monkeypatch.setattr("vibe_llms.interfaces.cli.commands.memory.writing.can_edit", lambda: True)
    outcome = vibe("memory", "edit", "tea")

    assert outcome.code != 0
    assert "changed by another program" in outcome.err
    assert read_kept(outcome.err) == "Black.\n\nMilk.\n"
    assert vibe("memory", "show", "tea").out == "Green.\nHot.\n"


def test_a_text_that_cannot_be_stored_is_kept(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text above the limit; and one whose editor fails after saving."""
    crashing = [False, True]
    text = "x" * 1_000_001

    def edit(filename: str) -> None:
        Path(filename).write_text(text)
        if crashing.pop(0):
            raise click.ClickException("Editing failed")

    monkeypatch.setattr(click, "edit", edit)
    monkeypatch.setattr("vibe_llms.interfaces.cli.commands.memory.writing.can_edit", lambda: True)
    for _ in range(2):
        outcome = vibe("memory", "edit", "tea")
        assert outcome.code != 0
        assert read_kept(outcome.err) == text
    assert vibe("memory", "list").out == ""


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "none", "tags/x"])
def test_invalid_paths_are_one_line(vibe: Vibe, home: Path, path: str) -> None:
    outcome = vibe("memory", "show", path)

    assert outcome.code != 0
    assert len(outcome.err.strip().splitlines()) == 1
    assert "note" in outcome.err
