"""A plugin keeps the conversations, by the user's choice: every command goes on there."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.runs.acting import invoke, say
from support.runs.scripting import write_script
from vibe_llms import Application, Conversation, SyncEngine
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.messages.views import text_of

Vibe = Callable[..., Any]
Plug = Callable[..., Path]

EXAMPLES = Path(__file__).parents[3] / "fixtures" / "example-plugins"

CLUMSY = """
from vibe_llms.conversations import ConversationStore, MemoryStore, StoreDefaults
from vibe_llms.plugins import StoreSpecification, hook

def break_down(context):
    raise OSError("no shelf")

class Sealed(MemoryStore):
    def __init__(self, context):
        super().__init__()

    def survey(self):
        raise ValueError("signed")
        yield

    def append(self, identity, canisters, *, after=None):
        raise ValueError("signed")

class Short:
    def __init__(self):
        for name in vars(ConversationStore):
            if not name.startswith("_") and name not in vars(StoreDefaults):
                setattr(self, name, getattr(MemoryStore(), name))

@hook
def survey_stores():
    return [
        StoreSpecification("broken", "cannot be made", break_down),
        StoreSpecification("hollow", "is no store", lambda context: {}),
        StoreSpecification("short", "has no defaults", lambda context: Short()),
        StoreSpecification("directory", "takes another's place", break_down),
        StoreSpecification("signed", "fails later", Sealed),
    ]
"""


@pytest.fixture
def plug(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plug]:
    """Configures a store and the plugin that has it, which may be written here."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.syspath_prepend(home)

    def perform(store: str, module: str = "sqlite_store", text: str = "", more: str = "") -> Path:
        if text:
            (home / f"{module}.py").write_text(text, encoding="utf-8")
        file = home / ".config/vibe-llms/config.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"store = '{store}'\n[plugins.{module}]\nmodule = '{module}'\n{more}\n")
        return file

    yield perform
    for name in ("sqlite_store", "clumsy", "torn"):
        sys.modules.pop(name, None)


@pytest.fixture
def database(plug: Plug, home: Path) -> Iterator[Path]:
    """The file of the store that is configured. Nothing is in the directory that ships."""
    plug("sqlite")
    yield home / ".local/share/vibe-llms/stores/sqlite/conversations.sqlite"
    assert not (home / ".local/share/vibe-llms/conversations").exists()
    assert not (home / ".cache/vibe-llms/index.sqlite").exists()


def ask(vibe: Vibe, *arguments: str) -> str:
    """Asks and returns the id of the conversation."""
    return str(vibe("ask", "--json", *arguments).read_json()["conversation"])


def read_texts(vibe: Vibe, *identity: str) -> list[str]:
    """Returns what was said in a conversation, the newest by default."""
    document = vibe("show", "--json", *identity).read_json()
    return [each["content"][0]["text"] for each in document["canisters"]]


def test_what_is_asked_is_kept_by_the_plugin_s_store(vibe: Vibe, database: Path) -> None:
    """``ask``, ``ask --continue`` and ``chat`` go on with one another's conversations."""
    identity = ask(vibe, "Good morning")
    vibe("ask", "--continue", identity, "Good evening")
    vibe("chat", "--continue", stdin=b"Good night\n")

    greetings = ["Good morning", "Good evening", "Good night"]
    assert read_texts(vibe) == [text for text in greetings for _ in range(2)]
    with sqlite3.connect(database) as connection:
        (count,) = connection.execute("SELECT count(*) FROM canisters").fetchone()
    connection.close()
    assert count == 6


def test_it_is_listed_and_searched(vibe: Vibe, database: Path) -> None:
    """The latest first; what a fork shares is found once; words are marked; the slips, too."""
    first = ask(vibe, "the red fox")
    second = ask(vibe, "a hare")
    fork = vibe("fork", first).out.strip()
    vibe("ask", "--continue", fork, "one fox more")

    listed = vibe("list", "--json").read_json()
    hits = vibe("search", "--json", "--role", "user", "FOX").read_json()

    assert [row["id"] for row in listed] == [fork, second, first]
    assert [row["canisters"] for row in listed] == [4, 2, 2]
    assert [row["first_words"] for row in listed] == ["the red fox", "a hare", "the red fox"]
    assert listed[0]["parent"] == first
    assert {(hit["id"], hit["index"]) for hit in hits} == {(first, 0), (fork, 2)}
    for hit in hits:
        ((start, end),) = hit["marks"]
        assert hit["snippet"][start:end] == "fox"
    assert vibe("list", "-n", "1", "--json").read_json() == listed[:1]
    assert vibe("search", "unicorn").out == ""
    assert "Unknown role 'usr'" in vibe("search", "--role", "usr", "fox").err


def test_it_is_renamed_shown_and_deleted(vibe: Vibe, database: Path) -> None:
    """By shortened ids, and the latest without one."""
    first, second = ask(vibe, "one"), ask(vibe, "two")

    assert vibe("rename", "A second").code == 0
    assert vibe("rename", first, "A", "first").code == 0
    assert [row["name"] for row in vibe("list", "--json").read_json()] == ["A second", "A first"]
    assert "A second" in vibe("show").out
    fork = vibe("fork", "--from", "1", second).out.strip()
    assert vibe("delete", "--yes", second).code == 0

    assert read_texts(vibe, fork) == ["two"]
    assert {row["id"] for row in vibe("list", "--json").read_json()} == {first, fork}
    assert vibe("show", second).code == ExitCode.NOT_FOUND


def test_it_is_exported_imported_proven_and_cleared(vibe: Vibe, home: Path, database: Path) -> None:
    """With its pictures; what comes back is what has gone."""
    (home / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    identity = ask(vibe, "--file", "dot.png", "What is this?")
    before = vibe("show", "--json", identity).read_json()["canisters"]
    assert vibe("export", identity, "--output", "whole.json").code == 0
    vibe("delete", "--yes", identity)

    assert vibe("import", "whole.json").code == 0
    proof = vibe("verify", "--json").read_json()
    cleared = vibe("gc", "--yes", "--json").read_json()

    assert vibe("show", "--json", identity).read_json()["canisters"] == before
    assert (proof["conversations"], proof["contents"], proof["findings"]) == (1, 1, [])
    assert cleared["removed"] == []


def test_a_tag_stays_with_a_conversation(vibe: Vibe, database: Path) -> None:
    """From the library; the command line lists it."""
    application = Application.load()
    identity = ask(vibe, "one")

    application.store.update_metadata(identity, tags=["zoo", "fox"])

    assert vibe("list", "--json").read_json()[0]["tags"] == ["zoo", "fox"]
    assert application.index.survey()[0].tags == ("zoo", "fox")


def test_a_run_with_tools_is_kept_step_by_step(
    vibe: Vibe, home: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log is where the store puts it, and goes with the conversation."""
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    call = invoke("write_file", "call-1", path="a.txt", text="eggs")
    script = write_script(home, {"contents": [call]}, {"contents": [say("Done.")]})

    outcome = vibe(
        *("ask", "--json", "--model", f"scripted:{script}", "--tools", "io"),
        *("--allow", "write_file", "Write!"),
    )
    assert outcome.code == 0, outcome.err

    identity = outcome.read_json()["conversation"]
    assert (home / "work" / "a.txt").read_text() == "eggs"
    roles = [each["role"] for each in vibe("show", "--json").read_json()["canisters"]]
    assert roles == ["user", "invocation", "result", "assistant"]
    log = database.parent / "runs" / identity / "runs.jsonl"
    kinds = [json.loads(line)["event"]["type"] for line in log.read_text().splitlines()]
    assert "invocation.started" in kinds
    assert vibe("verify", "--json").read_json()["events"] == len(kinds)
    assert "calls" in vibe("show", "--usage").out
    vibe("delete", "--yes", identity)
    assert not log.exists()


def test_the_library_uses_the_configured_store(database: Path) -> None:
    """What a program says in the application's store, its engine restores."""
    application = Application.load()
    with SyncEngine("scripted:echo", store=application.store) as engine:
        conversation = engine.run("Hello")
    again = Conversation.restore(Application.load().store, conversation.id)

    assert [text_of(each) for each in again.canisters] == ["Hello", "Hello"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "words"),
    [
        ("sqlit", "Unknown store 'sqlit'; did you mean 'sqlite'?"),
        (
            "broken",
            "The store 'broken' of [plugins.clumsy] (clumsy) cannot be created: OSError: no",
        ),
        ("hollow", "returned dict, which is not a store: it lacks contents, create, append"),
        ("short", "returned Short, which is not a store: it lacks index, content_backends"),
        ("short", "(vibe_llms.conversations.StoreDefaults, inherited, has index, content_backends"),
    ],
)
def test_a_store_that_cannot_be_had_is_named_by_every_command(
    vibe: Vibe, plug: Plug, home: Path, store: str, words: str
) -> None:
    """One line with the plugin, its table and what to do; nothing is kept elsewhere instead."""
    plug(store, *(() if store == "sqlit" else ("clumsy", CLUMSY)))

    for command in (
        ("list",),
        ("search", "x"),
        ("show",),
        ("ask", "Hi"),
        ("export",),
        ("verify",),
        ("gc",),
        ("delete", "abcd"),
    ):
        outcome = vibe(*command)
        assert outcome.code in (ExitCode.NOT_FOUND, ExitCode.CONFIGURATION), command
        assert words in outcome.err
        assert "Traceback" not in outcome.err
    if store != "sqlit":
        assert "store = 'directory' stores conversations in files again" in outcome.err
    assert not (home / ".local/share/vibe-llms/conversations").exists()


@pytest.mark.parametrize(
    ("command", "method"),
    [(("list",), "survey"), (("show", "abcd"), "survey"), (("ask", "Hi"), "append")],
)
def test_what_a_store_does_wrong_later_is_told_as_its_own(
    vibe: Vibe, plug: Plug, command: tuple[str, ...], method: str
) -> None:
    """It is no defect of ours, and never an empty list."""
    plug("signed", "clumsy", CLUMSY)

    outcome = vibe(*command)

    assert outcome.code != 0
    words = f"The store 'signed' of [plugins.clumsy] failed: {method} raised ValueError: signed."
    assert words in outcome.err


def test_a_plugin_that_fails_is_named_where_its_store_is_wanted(vibe: Vibe, plug: Plug) -> None:
    """Whoever chooses what it would have brought reads why it is not there."""
    plug("torn", "torn", "raise ValueError('torn in two')")

    outcome = vibe("list")

    assert outcome.code == ExitCode.NOT_FOUND
    assert "Unknown store 'torn'" in outcome.err
    assert "torn (" in outcome.err
    assert "ValueError: torn in two" in outcome.err


def test_settings_that_do_not_hold_are_named_with_their_line(vibe: Vibe, plug: Plug) -> None:
    """By the place that the plugin says."""
    file = plug("sqlite", more="file = 'here.sqlite'")

    outcome = vibe("list")

    assert outcome.code == ExitCode.CONFIGURATION
    assert f"{file}:4: plugins.sqlite_store.file: It must be a whole path." in outcome.err


def test_the_store_that_ships_is_nobody_else_s(vibe: Vibe, plug: Plug, home: Path) -> None:
    """``directory`` is ours, whatever a plugin calls its own; no plugin is loaded for it."""
    plug("directory", "clumsy", CLUMSY)

    assert vibe("ask", "Hi").code == 0
    assert len(vibe("list", "--json").read_json()) == 1
    assert "clumsy" not in sys.modules or (home / ".local/share/vibe-llms/conversations").exists()


@pytest.mark.parametrize("text", ["store = 'directory'\n", "plugins.sqlite_store.file = '/x'\n"])
def test_an_untrusted_project_moves_no_conversation(
    vibe: Vibe, home: Path, database: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by choosing the store, nor by the settings of the one that is chosen."""
    (home / "work" / ".vibe-llms").mkdir(parents=True)
    (home / "work" / ".vibe-llms" / "config.toml").write_text(text)
    monkeypatch.chdir(home / "work")

    identity = ask(vibe, "Hi")

    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT id FROM conversations").fetchall()
    connection.close()
    assert rows == [(identity,)]


def test_a_file_that_is_no_database_is_an_error_of_the_store(vibe: Vibe, database: Path) -> None:
    """In one line, with the file."""
    database.parent.mkdir(parents=True)
    database.write_text("No database at all, but a text that is long enough to be looked at.")

    outcome = vibe("list")

    assert outcome.code == ExitCode.STORE
    assert str(database) in outcome.err
