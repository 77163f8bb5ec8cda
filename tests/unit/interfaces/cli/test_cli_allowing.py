"""Where nobody can be asked, one is told what would have allowed it: in a command that does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from support.runs.acting import invoke, say
from support.runs.scripting import write_script
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.group import produce_group

Vibe = Callable[..., Any]


@pytest.fixture
def folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where files may be written."""
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    return home / "work"


@pytest.fixture
def address(home: Path) -> str:
    """A model that writes two files, and then says so."""
    calls = [invoke("write_file", letter, path=f"{letter}.txt", text="eggs") for letter in "ab"]
    return f"scripted:{write_script(home, {'contents': calls}, {'contents': [say('Done.')]})}"


def find_command(text: str) -> list[str]:
    """Returns the words of the one command that is printed after the name of the program."""
    (line,) = [line for line in text.splitlines() if "To allow it: " in line]
    return shlex.split(line.partition("To allow it: ")[2])


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", "--tools", "io", "Write what's on my list!"],
        ["ask", "--tools", "io", "--", "--write-what?"],
        ["ask", "-y", "--tools", "io", "Write!"],
    ],
)
def test_a_refusal_names_what_would_allow_it(
    vibe: Vibe, folder: Path, address: str, arguments: list[str]
) -> None:
    """Once, however many calls wait; and the command that is printed is right."""
    arguments[1:1] = ["--model", address]

    refused = vibe(*arguments)
    program, *again = find_command(refused.err)
    written_before = list(folder.glob("?.txt"))
    assert refused.code == ExitCode.CONSENT
    allowed = vibe(*again)

    assert Path(program).name == "vibe"
    assert not written_before
    assert allowed.code == 0
    assert "To allow it" not in allowed.err
    assert sorted(path.name for path in folder.glob("?.txt")) == ["a.txt", "b.txt"]


def test_a_call_by_hand_names_it_in_its_error(vibe: Vibe, folder: Path) -> None:
    """Consent to downloads is none to that, and says so."""
    refused = vibe("tools", "call", "-y", "write_file", "-t", "io", "path=a.txt", "text=eggs")
    _, *again = find_command(refused.err)

    assert refused.code == 9
    assert vibe(*again).code == 0
    assert (folder / "a.txt").read_text() == "eggs"


@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "-t", "io", "--allow", "reed_file", "Hi"),
        ("chat", "-t", "io", "--allow", "list_files,reed_file", "Hi"),
        ("tools", "call", "-t", "io", "--allow", "reed_file", "read_file", "path=a.txt"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_slip_in_what_is_allowed_is_told(vibe: Vibe, arguments: tuple[str, ...]) -> None:
    """It would allow nothing, and one would be asked all the same."""
    outcome = vibe(*arguments)

    assert outcome.code == ExitCode.NOT_FOUND
    assert outcome.out == ""
    assert "did you mean 'read_file'?" in outcome.err


def test_what_is_allowed_without_tools_is_refused(vibe: Vibe) -> None:
    """Nothing could be executed; the options that were forgotten are named."""
    outcome = vibe("ask", "--allow", "read_file", "Hi")

    assert outcome.code == ExitCode.NOT_FOUND
    assert "--tools or --mcp" in outcome.err


@pytest.mark.parametrize("words", [["ask"], ["chat"], ["tools", "call"]])
def test_help_says_that_yes_allows_no_call(vibe: Vibe, words: list[str]) -> None:
    """What is agreed to by a letter is little."""
    text = " ".join(vibe(*words, "--help").out.split())

    assert re.search("--yes Allow downloads .*--allow", text)


def list_examples(command: click.Command, path: str) -> Iterator[tuple[str, str]]:
    """Yields the examples in the help of a command, and of those in it."""
    for block in (command.help or "").split("\b")[1:]:
        for line in block.partition("\n\n")[0].splitlines():
            if "vibe " in line and ">" not in line:  # completion is for one shell each
                yield path, line.strip()
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            each = command.get_command(context, name)
            assert each is not None
            yield from list_examples(each, f"{path} {name}")


EXAMPLES = list(list_examples(produce_group(), "vibe"))


@pytest.mark.parametrize(("path", "example"), EXAMPLES, ids=[each[1] for each in EXAMPLES])
def test_no_shell_makes_something_else_of_an_example(path: str, example: str) -> None:
    """Signs that a shell takes for patterns stand in quotes: zsh refuses what matches nothing.

    Each shell has the same folder for the ``~/`` at the beginning of a word.
    """
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", example).replace(" ~/", " /")

    assert not set("?*[]!{}~") & set(bare), f"{path}: {example}"
    assert shlex.split(example)


def test_there_are_examples() -> None:
    """A search that finds nothing would pass."""
    assert len(EXAMPLES) > 5


@pytest.mark.slow
@pytest.mark.parametrize("words", [["ask"], ["chat"], ["ask", "--json"]])
def test_a_call_waits_where_nobody_can_be_asked(
    vibe: Vibe, folder: Path, address: str, words: list[str]
) -> None:
    """It is not denied: an answer that comes later counts, and the run goes on with it."""
    asked = vibe(*words, "--model", address, "--tools", "io", "Write!")

    assert asked.code == ExitCode.CONSENT
    assert "write_file awaits approval" in asked.err
    (row,) = vibe("runs", "list", "--json").read_json()
    assert (row["state"], row["waiting"]) == ("waiting", 2)
    if "--json" in words:
        assert [each["name"] for each in asked.read_json()["waiting"]] == ["write_file"] * 2
    for digest in [each["digest"] for each in read_requests(vibe, row["id"])]:
        assert vibe("runs", "approve", row["id"], "--allow", "--digest", digest).code == 0
    done = vibe("runs", "resume", row["id"], "--tools", "io")
    assert (done.code, done.out) == (0, "Done.\n")
    assert sorted(path.name for path in folder.glob("?.txt")) == ["a.txt", "b.txt"]


def test_what_is_not_kept_is_denied_where_nobody_can_be_asked(
    vibe: Vibe, folder: Path, address: str
) -> None:
    """Nothing could wait for an answer."""
    asked = vibe("ask", "--no-save", "--model", address, "--tools", "io", "Write!")

    assert (asked.code, asked.out) == (0, "Done.\n")
    assert "write_file was not executed" in asked.err
    assert not list(folder.glob("?.txt"))


def read_requests(vibe: Vibe, identity: str) -> list[dict[str, Any]]:
    """Returns the calls that wait in a run."""
    requests: list[dict[str, Any]] = vibe("runs", "show", identity, "--json").read_json()[
        "requests"
    ]
    return requests
