"""What a person is told: what there is not, what was meant, and where one sentence ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.interfaces.cli.command_table import COMMANDS
from vibe_llms.interfaces.cli.errors import ExitCode, compose_lines
from vibe_llms.interfaces.cli.group import produce_group
from vibe_llms.interfaces.cli.synonyms import SYNONYMS, find_command

Vibe = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "said", "advice"),
    [
        (("credentials",), "No keys are stored", "vibe credentials set"),
        (("credentials", "list"), "No keys are stored", "vibe credentials set"),
        (("keys",), "There are no keys", "vibe keys add"),
        (("keys", "usage"), "No key has spent anything", "vibe keys list"),
        (("list",), "There are no conversations yet", "vibe chat"),
        (("search", "walnut"), "There are no conversations yet", "vibe chat"),
        (("plugins",), "No plugins were added", "vibe plugins add"),
        (("models", "list", "--provider", "lmstudio"), "No models of lmstudio", "--refresh"),
    ],
)
def test_a_list_of_nothing_says_what_there_is_not_and_how_it_is_had(
    vibe: Vibe, words: tuple[str, ...], said: str, advice: str
) -> None:
    """On standard error, so that who reads the list reads an empty one."""
    outcome = vibe(*words)

    assert (outcome.code, outcome.out) == (ExitCode.SUCCESS, "")
    assert said in outcome.err
    assert advice in outcome.err
    assert len(outcome.err.splitlines()) == 1
    is_group = words in (("credentials",), ("keys",), ("plugins",))
    plain = vibe(*words, *(["list"] if is_group else []), "--json")
    assert (plain.read_json(), plain.err) == ([], "")


def test_what_is_not_found_says_how_else_it_may_be_found(vibe: Vibe) -> None:
    """Where there are conversations, other words may be in them."""
    vibe("ask", "Hello")

    outcome = vibe("search", "walnut")

    assert "No matches" in outcome.err
    assert "fewer words" in outcome.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("ls",), "'list'"),
        (("rm", "ab"), "'delete'"),
        (("mv", "ab", "name"), "'rename'"),
        (("cat", "ab"), "'show'"),
        (("find", "word"), "'search'"),
        (("help",), "--help"),
        (("version",), "--version"),
        (("settings",), "'config'"),
        (("config", "get", "model"), "'show'"),
        (("config", "ls"), "'show'"),
        (("config", "rm", "model"), "'unset'"),
        (("config", "shaw"), "'show'"),
        (("credentials", "add", "openai"), "'set'"),
        (("credentials", "rm", "openai"), "'remove'"),
        (("keys", "new", "ada"), "'add'"),
        (("keys", "rm", "ada"), "'revoke'"),
        (("keys", "costs"), "'usage'"),
        (("plugins", "install", "some"), "'add'"),
        (("plugins", "create", "some"), "'new'"),
        (("models", "get", "local"), "'show'"),
        (("models", "download", "local"), "'pull'"),
        (("tools", "run", "read_file"), "'call'"),
    ],
)
def test_another_word_for_a_command_leads_to_it(
    vibe: Vibe, words: tuple[str, ...], meant: str
) -> None:
    """Other programs call the same thing so; how many letters differ says nothing of that."""
    outcome = vibe(*words)

    assert outcome.code == ExitCode.USAGE
    assert meant in outcome.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--mcp", "nope"), "Unknown MCP server 'nope'. Known: harbour. Configure it: [mcp.nope]"),
        (("--mcp", "harbor"), "Unknown MCP server 'harbor'; did you mean 'harbour'? Configure it"),
        (("-t", "shel"), "Unknown ensemble 'shel'; did you mean 'shell'?"),
        (("--skill", "plainwords"), "Unknown skill 'plainwords'; did you mean 'plain-words'?"),
        (("-m", "antropic"), "Unknown provider or model 'antropic'; did you mean 'anthropic'?"),
    ],
)
def test_a_slip_in_a_name_is_answered_with_the_names_that_there_are(
    vibe: Vibe, home: Path, words: tuple[str, ...], said: str
) -> None:
    """Whatever is named, and what to do where the name was meant."""
    file = home / ".config/vibe-llms/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text('[mcp.harbour]\ncommand = "true"\n')

    outcome = vibe("ask", *words, "Hello")

    assert outcome.code == ExitCode.NOT_FOUND
    assert said in outcome.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ask", "-f", "none", "Hi"), "Cannot read none: No such file or directory. Check the"),
        (("ask", "--schema", "none", "Hi"), "Cannot read the schema none: No such file or"),
        (("import", "none"), "Cannot read none: No such file or directory. Check the path"),
        (("import", "."), ". is not in a known format. Known: json ("),
        (("ask", "-f", ".", "Hi"), "Cannot read .: Is a directory. Name a file."),
        (("batch", "none"), "Cannot read none: No such file or directory."),
    ],
)
def test_a_file_that_is_not_there_is_told_so(vibe: Vibe, words: tuple[str, ...], said: str) -> None:
    """Rather than of what might be in it."""
    outcome = vibe(*words)

    assert outcome.code != 0
    assert said in outcome.err


@pytest.mark.parametrize("words", [("ask",), ("ask", "Hi"), ("ask", "-f", "-", "Hi")])
def test_what_was_piped_is_called_standard_input(vibe: Vibe, home: Path, words: tuple[str]) -> None:
    """Nobody who pipes has typed a dash."""
    file = home / ".config/vibe-llms/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[limits]\nattachment_bytes = 10\n")

    outcome = vibe(*words, stdin=b"more than ten bytes")

    assert outcome.code == ExitCode.LIMIT
    assert "error: Standard input is larger than the limit of 10 bytes" in outcome.err


@pytest.mark.parametrize(
    ("line", "meant"), [("/exit", "/quit"), ("/reset", "/new"), ("/models", "/model")]
)
def test_another_word_for_a_slash_command_leads_to_it(line: str, meant: str) -> None:
    """In a chat as well."""
    from vibe_llms.interfaces.cli.chat.commands import COMMANDS as SLASHES

    assert find_command(line, SLASHES) == meant


def test_every_synonym_leads_to_a_command() -> None:
    """And none of them is the name of the command that it would lead to."""
    words = {name for each in COMMANDS.values() for name in each} | {
        "--help",
        "--version",
        "quit",
        "continue",
    }
    group = produce_group()
    for name in list(words):
        command = group.get_command(click.Context(group), name)
        words |= set(getattr(command, "commands", ()))

    for word, meant in SYNONYMS.items():
        assert set(meant) & words, word
        assert word not in meant


@given(st.text("abcXYZ .?!:)", min_size=1).filter(str.strip), st.sampled_from(["Try.", ""]))
def test_a_remedy_begins_behind_a_whole_sentence(detail: str, remedy: str) -> None:
    """Whatever somebody forgot to put at the end of what happened."""
    told = str(ConverseError(detail=detail, remedy=remedy))

    assert told.startswith(detail.rstrip() if remedy else detail)
    assert not remedy or re.search(r"[.?!:] Try\.$", told)


@pytest.mark.parametrize(
    "words", [("providers", "show", "openai"), ("list", "--limt", "3"), ("ask", "--window", "x")]
)
def test_where_more_is_told_is_a_sentence_of_its_own(vibe: Vibe, words: tuple[str, ...]) -> None:
    """What was wrong ends before it."""
    assert re.search(r"[.?] Try: vibe", vibe(*words).err)


def test_names_that_are_known_come_in_one_order(vibe: Vibe) -> None:
    """Whoever says that there is no such provider, these are the same, by the alphabet."""
    lists = [
        re.search(r"Known: (.*?)\.(?= |\n)", vibe(*words).err)
        for words in (
            ("ask", "-m", "nothing", "Hi"),
            ("ask", "-m", "nothing:x", "Hi"),
            ("credentials", "set", "nothing"),
            ("models", "list", "--provider", "nothing"),
        )
    ]

    told = {found[1] for found in lists if found}
    assert len(lists) == 4
    assert all(lists)
    assert len(told) == 1
    names = told.pop().split(", ")
    assert names == sorted(names)
    assert {"openai", "openai_responses", "gemini"} <= set(names)


def test_another_name_of_a_model_is_no_provider(vibe: Vibe, home: Path) -> None:
    """It is not among the providers that are known, nor completed as one."""
    from vibe_llms.interfaces.cli.completing import survey_providers

    (home / ".config" / "vibe-llms").mkdir(parents=True)
    aliases = '[aliases]\nfast = "quick"\nquick = "groq:m"\nmine = "groq"\n'
    (home / ".config" / "vibe-llms" / "config.toml").write_text(aliases)

    told = vibe("credentials", "set", "nothing").err

    assert "mine" in told
    assert "fast" not in told
    assert "quick" not in told
    assert [name for name, _ in survey_providers("") if name in ("fast", "quick", "mine")] == [
        "mine"
    ]


def test_known_names_are_told_by_the_alphabet() -> None:
    """The nearest come first for programs; nobody is near where all are told."""
    error = UnknownNameError(kind="tool", name="zzz", known=("b", "c", "a"))

    assert compose_lines(error) == ["Unknown tool 'zzz'. Known: a, b, c."]
