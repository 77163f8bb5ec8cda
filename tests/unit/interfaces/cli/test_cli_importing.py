"""That conversations of elsewhere come in by one command, whole, once, and told of."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.stores.exports import (
    make_chatgpt,
    make_chatgpt_node,
    make_claude,
    make_claude_message,
    write_zip,
)
from support.stores.sessions import answer_claude, ask_claude, write_lines
from vibe_llms.conversations import DirectoryStore
from vibe_llms.exceptions import StoreError
from vibe_llms.interfaces.cli.errors import ExitCode

Vibe = Callable[..., Any]

QUESTION = make_chatgpt_node("q", "root", "user", "Where?")
ANSWER = make_chatgpt_node("a", "q", "assistant", "Right.")
AGAIN = make_chatgpt_node("q2", "a", "user", "And then?")


def save(path: Path, *tables: Any) -> Path:
    path.write_text(json.dumps(tables), encoding="utf-8")
    return path


def test_an_archive_is_imported_and_can_be_shown(vibe: Vibe, home: Path) -> None:
    """The ZIP file of a service comes in as it is."""
    lost = {"content_type": "reasoning_recap", "content": "8 s"}
    nodes = (
        QUESTION,
        make_chatgpt_node("r", "q", "assistant", lost),
        make_chatgpt_node("a", "r", "assistant", "Right."),
    )
    write_zip(home / "export.zip", {"conversations.json": [make_chatgpt(*nodes)]})

    outcome = vibe("import", "export.zip")
    shown = vibe("show")

    assert (outcome.code, outcome.err.splitlines()) == (
        0,
        ["dropped: a summary of reasoning", "1 imported"],
    )
    identity, name = outcome.out.rstrip("\n").split("\t")
    assert name == "A walk"
    assert shown.out.startswith(identity)
    assert "Right." in shown.out


def test_what_was_imported_stands_where_it_was_last_talked(vibe: Vibe, home: Path) -> None:
    """Not before what was said here since: ``--continue`` goes on with that."""
    nodes = [
        make_chatgpt_node(f"n{hour}", "root", "user", "Where?", at=1_700_000_000 + 3600 * hour)
        for hour in (1, 5)
    ]
    old, less_old = (make_chatgpt(n, conversation_id=f"c-{n['id']}", title=n["id"]) for n in nodes)
    save(home / "old.json", less_old, old)
    vibe("ask", "Hello")

    vibe("import", "old.json")
    rows = vibe("list", "--json").read_json()
    vibe("ask", "Again", "--continue")

    assert [row["name"] for row in rows] == [None, "n5", "n1"]
    assert rows[1]["updated"].startswith("2023-11-15T03:13:20")
    assert vibe("list", "--json").read_json()[0]["canisters"] == 4


def test_what_was_imported_is_not_stored_twice(vibe: Vibe, home: Path) -> None:
    """A second time nothing is new; what has grown since is added, what went on here is kept."""
    save(home / "one.json", make_chatgpt(QUESTION, ANSWER))
    save(home / "two.json", make_chatgpt(QUESTION, ANSWER, AGAIN))

    first = vibe("import", "one.json", "--json").read_json()
    again = vibe("import", "one.json", "--json").read_json()
    grown = vibe("import", "two.json", "--json").read_json()
    shrunk = vibe("import", "one.json", "--json").read_json()

    [identity] = first["imported"]
    assert again == {
        "imported": [],
        "forked": {},
        "extended": [],
        "already_there": [identity],
        "losses": [],
    }
    assert (grown["extended"], shrunk["already_there"]) == ([identity], [identity])
    assert len(vibe("show", identity, "--json").read_json()["canisters"]) == 3


def test_a_bad_file_leaves_nothing_behind(vibe: Vibe, home: Path) -> None:
    """One mistake in one of several files, however late, and nothing is stored of any."""
    save(home / "good.json", make_claude(make_claude_message("m", "human", "Hi")))
    save(home / "bad.json", make_chatgpt(QUESTION), {"mapping": 5})

    outcome = vibe("import", "good.json", "bad.json")

    assert (outcome.code != 0, outcome.out) == (True, "")
    assert "bad.json" in outcome.err
    assert "$[1].mapping" in outcome.err
    assert len(outcome.err.strip().splitlines()) == 1
    assert vibe("list", "--json").out.strip() in ("", "[]")


def test_a_store_that_fails_keeps_no_half(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk ends the import; what had come before stays, and is there the next time."""
    tables = [make_chatgpt(QUESTION, ANSWER, conversation_id=name) for name in ("one", "two")]
    save(home / "export.json", *tables)
    plant, count = DirectoryStore.plant, 0

    def fail(self: DirectoryStore, *arguments: Any, **more: Any) -> Any:
        nonlocal count
        count += 1
        if count == 2:
            raise StoreError(detail="No space left on device.")
        return plant(self, *arguments, **more)

    monkeypatch.setattr(DirectoryStore, "plant", fail)

    failed = vibe("import", "export.json")
    again = vibe("import", "export.json", "--json").read_json()

    assert failed.code != 0
    assert "1 imported" in failed.err
    assert (len(again["imported"]), len(again["already_there"])) == (1, 1)


def test_export_and_import_are_inverse(vibe: Vibe, home: Path) -> None:
    """Our own JSON brings a conversation back with its id, its name and all that was said."""
    identity = vibe("ask", "--json", "Good morning").read_json()["conversation"]
    vibe("rename", identity, "Morning")
    vibe("export", identity, "-o", "there.json")
    before = vibe("show", identity, "--json").read_json()
    vibe("delete", "--yes", identity)

    outcome = vibe("import", "there.json")

    after = vibe("show", identity, "--json").read_json()
    assert outcome.out == f"{identity}\tMorning\n"
    assert after["canisters"] == before["canisters"]
    assert after["metadata"]["name"] == "Morning"


def test_a_form_can_be_forced_and_a_slip_is_told(vibe: Vibe, home: Path) -> None:
    """``--form`` reads what is not recognized by its name; unknown forms name the nearest."""
    save(home / "dump.txt", make_claude(make_claude_message("m", "human", "Hi")))

    unknown = vibe("import", "dump.txt")
    forced = vibe("import", "--form", "claude", "dump.txt")
    slip = vibe("import", "--form", "cloude", "dump.txt")
    missing = vibe("import", "nothing.json")
    os.mkfifo(home / "pipe.zip")
    endless = vibe("import", "--form", "chatgpt", "pipe.zip")

    assert "is not in a known format" in unknown.err
    assert forced.code == 0
    assert (slip.code, "did you mean 'claude'?" in slip.err) == (ExitCode.NOT_FOUND, True)
    assert "Cannot read nothing.json" in missing.err
    assert "Cannot read pipe.zip" in endless.err


def test_the_newest_is_forked_and_renamed_where_none_is_named(vibe: Vibe) -> None:
    """Who goes on with what was just said need not copy its id; a lone id is no name."""
    vibe("ask", "First")
    newest = vibe("ask", "--json", "Second").read_json()["conversation"]

    renamed = vibe("rename", "Two")
    lone = vibe("rename", newest)
    forked = vibe("fork", "--json")

    assert renamed.code == 0
    assert vibe("show", newest, "--json").read_json()["metadata"]["name"] == "Two"
    assert (lone.code, "the new name is missing" in lone.err) == (ExitCode.USAGE, True)
    assert forked.read_json()["parent"] == newest


def test_many_conversations_show_on_a_terminal_how_far_they_are(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for a large export sees it being read, then being stored; a pipe sees neither."""
    tables = [
        make_claude(make_claude_message("m", "human", "Hi"), uuid=str(number))
        for number in range(25)
    ]
    save(home / "export.json", *tables)

    silent = vibe("import", "export.json")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = vibe("import", "export.json")

    assert silent.err == "25 imported\n"
    assert "20 conversations read" in shown.err
    assert "20 of 25 conversations stored" in shown.err


def test_a_folder_of_a_coding_agent_is_imported(vibe: Vibe, home: Path) -> None:
    """Each session is a conversation; losses are reported, and a second time nothing is new."""
    question = ask_claude("u", None, "What is here?")
    tool = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    lines = [question, answer_claude("a", "u", tool), {"type": "progress", "data": {}}]
    write_lines(home / "projects" / "shop" / "one.jsonl", *lines)
    write_lines(home / "projects" / "shop" / "two.jsonl", question)

    outcome = vibe("import", "projects")
    again = vibe("import", "projects", "--form", "claude-code")

    assert outcome.err.splitlines() == [
        "dropped: a line of the kind 'progress' is not a message",
        "2 imported",
    ]
    assert again.err == "0 imported, 2 already stored\n"
    blamed = vibe("blame", outcome.out.split("\t")[0], "--json").read_json()
    assert [each["model"] for each in blamed] == [None, "anthropic:claude-sonnet-4-5-20250929"]
    (home / "empty").mkdir()
    assert vibe("import", "empty").code == ExitCode.REQUEST


def test_a_session_that_was_rewound_becomes_a_fork(vibe: Vibe, home: Path) -> None:
    """The next import extends the fork; a message from here is a branch of its own."""

    def say(identity: str, parent: str | None, text: str) -> list[dict[str, Any]]:
        answer = answer_claude(
            f"a{identity}", identity, {"type": "text", "text": f"{text}!"}, answer=identity
        )
        return [ask_claude(identity, parent, text), answer]

    def import_lines(*lines: dict[str, Any]) -> dict[str, Any]:
        write_lines(home / "s.jsonl", *lines)
        document: dict[str, Any] = vibe("import", "s.jsonl", "--json").read_json()
        return document

    def read_texts(identity: str) -> list[str]:
        document = vibe("show", identity, "--json").read_json()
        return [each["content"][0]["text"] for each in document["canisters"]]

    old = [*say("1", None, "One"), *say("2", "a1", "Old")]
    new = [*old, *say("3", "a1", "New")]
    [first] = import_lines(*old)["imported"]

    rewound = import_lines(*new)
    [fork] = rewound["imported"]
    assert rewound["forked"] == {fork: first}
    assert read_texts(first) == ["One", "One!", "Old", "Old!"]
    assert read_texts(fork) == ["One", "One!", "New", "New!"]
    assert vibe("show", fork, "--json").read_json()["metadata"]["parent"] is not None
    assert vibe("import", "s.jsonl").err.endswith("0 imported, 1 already stored\n")

    grown = import_lines(*new, *say("4", "a3", "Then"))
    assert (grown["imported"], grown["extended"]) == ([], [fork])
    again = import_lines(*new, *say("5", "a3", "Again"))
    assert list(again["forked"].values()) == [fork]
    vibe("delete", "--yes", *again["imported"], fork)
    assert f"does not continue {first}" in vibe("import", "s.jsonl").err


def test_two_messages_with_one_id_are_refused_before_anything_is_stored(
    vibe: Vibe, home: Path
) -> None:
    identity = vibe("ask", "--json", "Hello").read_json()["conversation"]
    vibe("export", identity, "-o", "one.json")
    document = json.loads((home / "one.json").read_text(encoding="utf-8"))
    vibe("delete", "--yes", identity)
    document["canisters"].append(document["canisters"][0])
    (home / "two.json").write_text(json.dumps(document), encoding="utf-8")
    save(home / "good.json", make_claude(make_claude_message("m", "human", "Hi")))

    outcome = vibe("import", "good.json", "two.json")

    assert outcome.code == ExitCode.REQUEST
    assert "two.json" in outcome.err
    assert "attrs" not in outcome.err
    assert vibe("list", "--json").out.strip() in ("", "[]")
