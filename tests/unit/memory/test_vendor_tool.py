"""The memory tool that Anthropic defines, on notes."""

from __future__ import annotations

import inspect
import tomllib

import pytest

from vibe_llms.conversations.notes.in_memory import NoteTable
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.package_data import access_data
from vibe_llms.memory import NoteBook
from vibe_llms.memory.ensemble import MemoryEnsemble
from vibe_llms.memory.paths import NotePaths
from vibe_llms.memory.vendor_tool import MemoryCommands


@pytest.fixture
def memory() -> MemoryCommands:
    return MemoryCommands(NoteBook(store=NoteTable(), paths=NotePaths(project="web")))


def test_files_are_created_viewed_and_listed(memory: MemoryCommands) -> None:
    assert memory.view("/memories") == "Notes below /memories: 0."
    memory.create("/memories/tea.md", "one\ntwo\nthree")
    memory.create("/memories/project/plan.md", "x")

    assert memory.view("/memories/tea.md") == (
        "/memories/tea.md:\n     1\tone\n     2\ttwo\n     3\tthree"
    )
    assert memory.view("/memories/tea.md", [2, -1]).endswith(":\n     2\ttwo\n     3\tthree")
    assert memory.view("/memories/tea.md", [2, 2]).endswith(":\n     2\ttwo")
    assert memory.view("/memories/").splitlines() == [
        "Notes below /memories: 2.",
        "13 bytes\t/memories/tea.md",
        "1 bytes\t/memories/project/plan.md",
    ]
    assert "1 bytes\t/memories/project/plan.md" in memory.view("/memories/project")


def test_a_text_that_occurs_once_is_replaced(memory: MemoryCommands) -> None:
    memory.create("/memories/tea.md", "one\ntwo\ntwo\n")

    assert memory.str_replace("/memories/tea.md", "one", "1\n2") == (
        "/memories/tea.md was edited:\n     1\t1\n     2\t2\n     3\ttwo"
    )
    for old in ("two", "none", ""):
        with pytest.raises(StoreError, match="not once"):
            memory.str_replace("/memories/tea.md", old, "x")
    assert memory.book.read("tea").text == "1\n2\ntwo\ntwo\n"


def test_lines_are_inserted(memory: MemoryCommands) -> None:
    memory.create("/memories/tea.md", "one\nthree")
    memory.insert("/memories/tea.md", 1, "two\n")
    memory.insert("/memories/tea.md", 0, "zero")
    memory.insert("/memories/tea.md", 4, "four")

    assert memory.book.read("tea").text == "zero\none\ntwo\nthree\nfour\n"
    with pytest.raises(StoreError, match="from 0 to 5"):
        memory.insert("/memories/tea.md", 6, "x")


def test_files_and_folders_are_renamed_and_deleted(memory: MemoryCommands) -> None:
    for name in ("a/one.md", "a/two.md"):
        memory.create(f"/memories/{name}", "x")

    memory.rename("/memories/a", "/memories/tags/b")
    memory.rename("/memories/tags/b/one.md", "/memories/one.md")
    assert memory.delete("/memories/tags/b") == "/memories/tags/b was deleted: 1 note."
    assert [note.path for note in memory.book.list()] == ["one.md"]
    with pytest.raises(StoreError):
        memory.delete("/memories")


@pytest.mark.parametrize("path", ["/memories/../x", "/etc/passwd", "/memories/.x", "/memoriesx/y"])
def test_paths_stay_below_the_folder(memory: MemoryCommands, path: str) -> None:
    for act in (
        lambda: memory.view(path),
        lambda: memory.create(path, "x"),
        lambda: memory.delete(path),
        lambda: memory.rename(path, "/memories/x"),
    ):
        with pytest.raises(StoreError):
            act()
    assert memory.book.list() == ()


def test_what_is_missing_or_exists_is_told(memory: MemoryCommands) -> None:
    memory.create("/memories/tea.md", "x")

    with pytest.raises(StoreError, match="already exists"):
        memory.create("/memories/tea.md", "y")
    for act in (
        lambda: memory.view("/memories/milk.md"),
        lambda: memory.insert("/memories/milk.md", 0, "x"),
        lambda: memory.str_replace("/memories/milk.md", "x", "y"),
        lambda: memory.rename("/memories/milk.md", "/memories/m.md"),
    ):
        with pytest.raises(StoreError, match=r"does not exist|no note"):
            act()
    with pytest.raises(StoreError, match="view_range"):
        memory.view("/memories/tea.md", [0, 1])


def test_the_arguments_are_those_of_the_vendor() -> None:
    with access_data("dialects/server_tools.toml").open("rb") as file:
        schema = tomllib.load(file)["messages"]["memory"][0]["function"]["schema"]
    parameters = inspect.signature(MemoryEnsemble.memory).parameters

    assert set(schema["properties"]) == set(parameters) - {"self", "context"}
    assert all(hasattr(MemoryCommands, name) for name in schema["properties"]["command"]["enum"])
