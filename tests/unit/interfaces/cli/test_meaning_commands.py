"""``vibe search --meaning`` and ``vibe recall``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vibe_llms.interfaces.cli.group import produce_group


@pytest.fixture(autouse=True)
def _words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An embedder without a download, and directories of the test's own."""
    monkeypatch.setenv("VIBE_LLMS_EMBEDDER", "scripted:words")
    monkeypatch.setenv("VIBE_LLMS_DIRECTORIES_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("VIBE_LLMS_DIRECTORIES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(produce_group(), list(arguments))


def ask(text: str) -> None:
    assert run("ask", "--model", "scripted:echo", text).exit_code == 0


def test_a_search_by_meaning_prints_the_nearest_message_first() -> None:
    ask("bread from rye")
    ask("the bridge over the river")

    done = run("search", "--meaning", "river", "--role", "user")

    assert done.exit_code == 0, done.output
    first = done.stdout.splitlines()[0].split("\t")
    assert first[1:] == ["0", "user", "the bridge over the river"]


def test_json_has_the_fields_of_a_search_for_words() -> None:
    ask("the bridge")

    meaning = json.loads(run("search", "--meaning", "--json", "bridge").stdout)
    words = json.loads(run("search", "--json", "bridge").stdout)

    assert meaning[0].keys() == words[0].keys()
    assert {hit["canister_id"] for hit in meaning} == {hit["canister_id"] for hit in words}


def test_without_conversations_a_note_says_how_to_begin() -> None:
    done = run("search", "--meaning", "bridge")

    assert done.exit_code == 0
    assert "vibe chat" in done.stderr


def test_folders_are_added_listed_searched_and_removed(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "keys.md").write_text("# Budgets\n\nLimit the money of a key.\n")

    added = run("recall", "add", str(folder))
    assert added.exit_code == 0, added.output
    assert "New passages: 1" in added.stdout

    assert json.loads(run("recall", "list", "--json").stdout) == [
        {"folder": str(folder), "files": 1}
    ]
    found = run("recall", "search", "money")
    assert f"{folder}/keys.md:3  Budgets\n  Limit the money of a key.\n" in found.stdout

    assert run("recall", "remove", str(folder)).exit_code == 0
    assert json.loads(run("recall", "list", "--json").stdout) == []
    assert "No matches." in run("recall", "search", "--documents", "money").stderr


def test_a_folder_is_added_once(tmp_path: Path) -> None:
    run("recall", "add", str(tmp_path))
    run("recall", "add", str(tmp_path))

    assert len(json.loads(run("recall", "list", "--json").stdout)) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("recall", "add", "/nowhere"), "/nowhere is not a folder"),
        (("recall", "remove", "/nowhere"), "/nowhere is not searched"),
        (("search", "--meaning", "--role", "result", "x"), "'result'"),
        (("search", "--meaning", " "), "empty or blank"),
    ],
)
def test_mistakes_are_named_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)

    assert done.exit_code != 0
    assert words in str(done.exception) + done.output
