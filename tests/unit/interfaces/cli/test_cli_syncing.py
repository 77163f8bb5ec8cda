"""``vibe sync``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.stores.talks import exchange, save
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.exceptions import StoreError
from vibe_llms.interfaces.cli.errors import ExitCode

Vibe = Callable[..., Any]


def test_a_folder_is_synchronized(vibe: Vibe, home: Path) -> None:
    here = DirectoryStore(home / ".local/share/vibe-llms")
    identity = save(here, exchange("one"), name="Piles")
    there = DirectoryStore(home / "stick")
    first = vibe("sync", "./stick")
    assert first.out == f"there\tadded\t{identity}\tPiles\n"
    assert first.err == "1 added there.\n"
    here.append(identity, exchange("two"))
    there.append(identity, exchange("three"))
    second = vibe("sync", "./stick", "--json").read_json()
    assert (second["whole"], second["conversations"], second["refused"]) == (True, 1, [])
    assert [(each["side"], each["change"], each["parent"]) for each in second["changes"]] == [
        ("there", "forked", identity),
        ("here", "forked", identity),
    ]
    third = vibe("sync", "./stick")
    assert (third.code, third.out, third.err) == (0, "", "Nothing to do.\n")
    graph = vibe("log", "--graph", identity).out
    assert graph.count("Piles") == 2
    merged = vibe("merge", identity, second["changes"][1]["identity"])
    assert merged.code == ExitCode.SUCCESS


def test_notes_are_synchronized_and_conflicts_told(vibe: Vibe, home: Path) -> None:
    vibe("memory", "add", "tea.md", "Green tea.")
    first = vibe("sync", "./stick")
    assert (first.out, first.err) == (
        *("there\tadded\tnote own/user/tea.md\t\n", "1 note added there.\n"),
    )
    (file,) = (home / "stick").rglob("tea.md")
    file.write_text("White tea.", encoding="utf-8")
    vibe("memory", "add", "tea.md", "No sugar.")
    second = vibe("sync", "./stick")
    assert second.out.count("conflict in own/user/tea.md") == 2
    assert "kept as a second note" in second.err
    listed = vibe("memory", "list").out
    assert "White tea." in listed
    assert vibe("sync", "./stick").err == "Nothing to do.\n"
    vibe("memory", "delete", "tea.md", "--yes")
    third = vibe("sync", "./stick")
    assert third.out == "there\tdeleted\tnote own/user/tea.md\t\n"
    assert third.err == "1 note deleted there.\n"


def test_a_missing_folder_is_told_if_there_is_nothing_to_copy(vibe: Vibe, home: Path) -> None:
    refused = vibe("sync", "./stik")
    assert refused.code == ExitCode.STORE
    assert "./stik does not exist" in refused.err
    (home / "empty").mkdir()
    assert vibe("sync", "./empty").err == "Nothing to do.\n"


def test_an_error_is_reported(vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identity = save(DirectoryStore(home / ".local/share/vibe-llms"), exchange("one"))

    def fail(*_: object, **__: object) -> None:
        raise StoreError(detail="The disk is full.")

    monkeypatch.setattr(DirectoryStore, "plant", fail)
    refused = vibe("sync", "./stick")
    assert refused.code == ExitCode.STORE
    assert refused.err.splitlines() == [
        f"{identity}: The disk is full.",
        "Nothing to do. NOT synchronized: 1, see above.",
    ]
    assert vibe("sync", "ftp://example.org").code == ExitCode.CONFIGURATION


@pytest.mark.parametrize("notes", ["whole", "damaged"])
def test_a_new_name_is_told_from_an_old_one(vibe: Vibe, home: Path, notes: str) -> None:
    """The names after the last time are in the cache, which may be lost."""
    here = DirectoryStore(home / ".local/share/vibe-llms")
    identity = save(here, exchange("one"), name="Old")
    there = DirectoryStore(home / "stick")
    vibe("sync", "./stick")
    if notes == "damaged":
        (file,) = (home / ".cache/vibe-llms/sync").iterdir()
        file.write_text("[1]", encoding="utf-8")
    here.update_metadata(identity, name="New")
    outcome = vibe("sync", "./stick")
    wanted = "New" if notes == "whole" else "Old"
    assert there.read_metadata(identity).name == wanted
    assert ("two names" in outcome.err) == (notes == "damaged")
