"""``vibe search --meaning`` and ``vibe recall``."""

from __future__ import annotations

import json
import os
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


def test_names_of_folders_with_odd_characters(tmp_path: Path) -> None:
    folder = tmp_path / 'a\x7f"\\ü\u202e'
    folder.mkdir()
    assert run("recall", "add", str(folder)).exit_code == 0
    listed = json.loads(run("recall", "list", "--json").stdout)
    assert listed == [{"folder": str(folder), "files": 0}]


def test_a_folder_whose_name_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("this file system has no such names")
    done = run("recall", "add", str(folder))
    assert done.exit_code == 2
    assert "is not UTF-8" in done.stderr


def test_folders_that_are_no_list_are_not_read_as_one(tmp_path: Path) -> None:
    assert run("recall", "add", str(tmp_path)).exit_code == 0
    (file,) = (tmp_path / "settings").rglob("*.toml")
    file.write_text('[ensembles.recall]\nfolders = "docs"\n')
    done = run("recall", "list")
    assert done.exit_code != 0
    assert "ensembles.recall.folders" in str(done.exception)


def test_escapes_of_a_document_do_not_reach_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a\x1b[31m.md").write_text("# Title\x1b[1m\n\na bridge \x1b]0;x\x07 \u202e here\n")
    assert run("recall", "add", str(folder)).exit_code == 0
    done = run("recall", "search", "--documents", "bridge")
    assert "bridge" in done.stdout
    assert not {"\x1b", "\x07", "\u202e"} & set(done.stdout)


def test_a_conversation_with_damaged_metadata_hides_no_other(tmp_path: Path) -> None:
    ask("the bridge over the river")
    ask("a bridge")
    file = min((tmp_path / "data").rglob("metadata.toml"))
    file.write_text("{")

    done = run("search", "--meaning", "--role", "user", "bridge")

    assert done.exit_code == 0, done.output
    assert len(done.stdout.splitlines()) == 2


def test_a_blank_text_is_refused_before_a_model_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIBE_LLMS_EMBEDDER", "local:e5-small")

    done = run("search", "--meaning", " ")

    assert "empty or blank" in str(done.exception) + done.output
