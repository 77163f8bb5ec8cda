"""Each command does what its help says, and every mistake has its exit code."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest

from vibe_llms.exceptions import ConverseError
from vibe_llms.interfaces.cli.command_line import run
from vibe_llms.interfaces.cli.command_table import COMMANDS, SUBCOMMANDS
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.group import produce_group
from vibe_llms.messages.codec.errors import decode_error

Vibe = Callable[..., Any]

_PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


def _ask(vibe: Vibe, *arguments: str) -> str:
    """Asks and returns the id of the conversation."""
    outcome = vibe("ask", "--json", *arguments)
    assert outcome.code == 0, outcome.err
    identity = outcome.read_json()["conversation"]
    assert isinstance(identity, str)
    return identity


def test_the_table_of_commands_is_true(vibe: Vibe) -> None:
    """Every command is where the table says, under its name, and has help of its own."""
    group = produce_group()
    for section in COMMANDS.values():
        for name in section:
            command = group.get_command(None, name)  # type: ignore[arg-type]

            assert command is not None
            assert command.name == name
            assert vibe(name, "--help").out.startswith(f"Usage: vibe {name}")


@pytest.mark.parametrize("name", sorted(SUBCOMMANDS))
def test_the_commands_below_others_are_where_the_table_says(vibe: Vibe, name: str) -> None:
    """Under their names; and the command above them lists them all, with or without ``--help``."""
    group = produce_group().get_command(None, name)  # type: ignore[arg-type]
    told = vibe(name, "--help").out

    assert isinstance(group, click.Group)
    assert told == vibe(name).out
    for below, (_, summary) in SUBCOMMANDS[name].items():
        command = group.get_command(None, below)  # type: ignore[arg-type]
        assert command is not None
        assert command.name == below
        assert summary in " ".join(told.split())


def test_help_lists_every_command(vibe: Vibe) -> None:
    """``vibe`` alone and ``vibe --help`` show the same."""
    outcome = vibe("--help")

    assert outcome.code == 0
    assert outcome.out == vibe().out
    for section in COMMANDS.values():
        for name, (_, summary) in section.items():
            assert name in outcome.out
            assert summary in outcome.out


@pytest.mark.parametrize(
    ("arguments", "most"),
    [
        (("list",), 20),
        (("search",), 20),
        (("runs", "list"), 20),
        (("batches", "list"), 20),
        (("memory", "search"), 20),
        (("recall", "search"), 5),
    ],
)
def test_lists_and_searches_are_short_by_default(
    vibe: Vibe, arguments: tuple[str, ...], most: int
) -> None:
    """Their help names the number, and none of them shows less than one."""
    assert f"[default: {most};" in " ".join(vibe(*arguments, "--help").out.split())
    assert vibe(*arguments, "x", "--limit", "0").code == ExitCode.USAGE


def test_ask_prints_the_answer_and_nothing_else(vibe: Vibe) -> None:
    """In a pipe, standard output is the answer; standard error stays empty."""
    outcome = vibe("ask", "Hello", "there")

    assert (outcome.code, outcome.out, outcome.err) == (0, "Hello there\n", "")


def test_ask_reads_its_question_from_standard_input(vibe: Vibe) -> None:
    """Without arguments the input is the question."""
    assert vibe("ask", stdin="日本語?\n".encode()).out == "日本語?\n"


@pytest.mark.parametrize("question", ["", " ", "\n\t"])
def test_a_question_of_blanks_is_none(vibe: Vibe, question: str) -> None:
    """Nothing is asked of a model; an empty question beside an input leaves the input's."""
    refused = vibe("ask", question, stdin=b" \n")

    assert (refused.code, refused.out) == (ExitCode.USAGE, "")
    assert "question is missing" in refused.err
    assert vibe("ask", question, stdin=b"Hello").out == "Hello\n"


def test_with_a_question_the_input_is_a_document(vibe: Vibe) -> None:
    """What is piped in is what the question is about."""
    identity = _ask(vibe, "--no-stream", "Sum it up")
    piped = vibe("ask", "--json", "Sum it up", stdin=b"a long letter").read_json()["conversation"]

    roles = [c["role"] for c in vibe("show", "--json", piped).read_json()["canisters"]]
    assert roles == ["document", "user", "assistant"]
    assert len(vibe("show", "--json", identity).read_json()["canisters"]) == 2


def test_files_go_with_the_question(vibe: Vibe, home: Path) -> None:
    """A picture is seen as one by its content, whatever its name."""
    (home / "photo.dat").write_bytes(_PNG)
    (home / "notes.md").write_text("# Notes")
    identity = _ask(vibe, "-f", "photo.dat", "-f", "notes.md", "Who?")

    canisters = vibe("show", "--json", identity).read_json()["canisters"]

    assert canisters[0]["title"] == "notes.md"
    assert [c["type"] for c in canisters[1]["content"]] == ["image", "text"]
    assert canisters[1]["content"][0]["mime_type"] == "image/png"


def test_instructions_come_first(vibe: Vibe) -> None:
    """``--system`` is a supervisor's canister before the question."""
    identity = _ask(vibe, "--system", "Be brief.", "Hi")

    canisters = vibe("show", "--json", identity).read_json()["canisters"]
    assert [c["role"] for c in canisters] == ["supervisor", "user", "assistant"]


def test_nothing_is_kept_on_request(vibe: Vibe) -> None:
    """``--no-save`` leaves no conversation."""
    assert vibe("ask", "--no-save", "Hi").out == "Hi\n"
    assert vibe("list", "--json").read_json() == []


def test_saving_that_was_asked_for_is_told(vibe: Vibe) -> None:
    """``--save`` says the id on standard error."""
    outcome = vibe("ask", "--save", "Hi")

    assert vibe("list", "--json").read_json()[0]["id"] in outcome.err


def test_an_unknown_model_leaves_no_conversation(vibe: Vibe) -> None:
    """What cannot even be asked is not kept."""
    outcome = vibe("ask", "-m", "scripted:nothing", "Hi")

    assert outcome.code == ExitCode.NOT_FOUND
    assert vibe("list", "--json").read_json() == []


def test_what_arrived_before_a_failure_is_kept(vibe: Vibe, home: Path) -> None:
    """The partial answer is stored, marked as not complete."""
    (home / "cut.toml").write_text(
        "[[responses]]\n"
        'contents = [{ text = "abcdefghij" }]\n'
        'fault = { at_chunk = 1, kind = "overloaded" }\n'
    )

    outcome = vibe("ask", "-m", "scripted:./cut.toml", "Hi")

    assert outcome.code == ExitCode.PROVIDER
    assert outcome.out == "abcde\n"
    identity = vibe("list", "--json").read_json()[0]["id"]
    answer = vibe("show", "--json", identity).read_json()["canisters"][-1]
    assert answer["content"][0]["text"] == "abcde"
    assert answer["origin"]["stop_reason"] in ("interrupted", "failed")


def test_ids_may_be_shortened(vibe: Vibe) -> None:
    """Any unique beginning of an id names its conversation."""
    identity = _ask(vibe, "Hi")

    assert vibe("show", identity[:4]).out.startswith(identity)


def test_search_finds_words(vibe: Vibe) -> None:
    """Words are found in questions and answers, with the conversation's id."""
    identity = _ask(vibe, "The quick brown fox")
    _ask(vibe, "Something else")

    hits = vibe("search", "--json", "brown").read_json()

    assert {hit["id"] for hit in hits} == {identity}
    assert {hit["role"] for hit in hits} == {"user", "assistant"}
    assert vibe("search", "nowhere").out == ""


def test_a_fork_shares_what_is_asked_for(vibe: Vibe) -> None:
    """``vibe fork --from`` prints the id of a conversation with the first canisters."""
    identity = _ask(vibe, "Hi")

    child = vibe("fork", identity, "--from", "1").out.strip()

    assert len(vibe("show", "--json", child).read_json()["canisters"]) == 1
    assert vibe("fork", identity, "--from", "9").code == ExitCode.USAGE


def test_a_name_is_given_and_taken_away(vibe: Vibe) -> None:
    """The list shows the name; an empty one removes it."""
    identity = _ask(vibe, "Hi")

    vibe("rename", identity, "My", "chat")
    named = vibe("list", "--json").read_json()[0]["name"]
    vibe("rename", identity, "")

    assert named == "My chat"
    assert vibe("list", "--json").read_json()[0]["name"] is None


def test_deleting_wants_consent(vibe: Vibe) -> None:
    """Where nobody can be asked, nothing is deleted without ``--yes``."""
    identity = _ask(vibe, "Hi")

    assert vibe("delete", identity).code == ExitCode.CONSENT
    assert vibe("delete", "--yes", identity).code == 0
    assert vibe("list", "--json").read_json() == []


@pytest.mark.parametrize(
    ("suffix", "beginning"),
    [("md", "---"), ("", "---"), ("json", "{"), ("html", "<!doctype html>")],
)
def test_the_form_of_an_export_follows_from_its_name(
    vibe: Vibe, home: Path, suffix: str, beginning: str
) -> None:
    """``vibe export ID -o FILE`` writes Markdown, JSON or HTML."""
    identity = _ask(vibe, "Hi")

    outcome = vibe("export", identity, "-o", f"out.{suffix}".rstrip("."))

    assert outcome.code == 0
    assert (home / f"out.{suffix}".rstrip(".")).read_text().lower().startswith(beginning)


def test_damage_is_found_and_told(vibe: Vibe, home: Path) -> None:
    """``vibe verify`` ends with the code for stores, and names file and line."""
    identity = _ask(vibe, "Hi")
    (lines,) = (home / ".local/share/vibe-llms/conversations").glob(f"*/{identity}/messages.jsonl")
    whole = lines.read_text()
    lines.write_text(whole.replace('"role"', '"rule"', 1))

    outcome = vibe("verify")
    lines.write_text(whole)

    assert outcome.code == ExitCode.STORE
    assert "messages.jsonl:1" in outcome.out
    assert vibe("verify", identity).code == 0


def test_damage_in_the_log_of_a_run_is_found_and_told(vibe: Vibe, home: Path) -> None:
    """Each line of it is proven, and a torn end is told of; nothing is changed."""
    identity = _ask(vibe, "Hi")
    (folder,) = (home / ".local/share/vibe-llms/conversations").glob(f"*/{identity}")
    log = folder / "runs.jsonl"
    event = '{"type":"run.state","state":"generate","turn":0}'
    line = '{"sequence":%d,"timestamp":"2025-01-01T00:00:00Z","run_id":"r","event":%s}\n'
    log.write_text(line % (1, event) + line % (2, event))
    assert "2 events. Findings: 0" in vibe("verify", identity).err
    damaged = line % (1, event) + "nonsense\n" + line % (4, event) + "torn"
    log.write_text(damaged)

    outcome = vibe("verify")

    assert outcome.code == ExitCode.STORE
    assert "runs.jsonl:2: Cannot read the line" in outcome.out
    assert "runs.jsonl:3: Cannot read the line: its own number is 4" in outcome.out
    assert "(4 bytes, never acknowledged)" in outcome.out
    assert vibe("verify", "--json").read_json()["events"] == 3
    assert log.read_text() == damaged


def test_content_that_nothing_needs_is_shown_and_left_for_an_hour(vibe: Vibe, home: Path) -> None:
    """``vibe gc`` leaves alone what a program may be about to speak of."""
    (home / "photo.png").write_bytes(_PNG)
    identity = _ask(vibe, "-f", "photo.png", "Who?")
    vibe("delete", "--yes", identity)

    fresh = vibe("gc", "--json").read_json()

    assert fresh == {"removable": [], "removed": [], "size_bytes": 0}


def test_providers_are_listed_with_their_state_and_source(vibe: Vibe) -> None:
    """The listing says how far each is from being used, and which file names it."""
    listed = {each["name"]: each for each in vibe("providers", "--json").read_json()}

    assert listed["scripted"]["state"] == "available"
    assert "defaults.toml" in listed["local"]["source"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("aks", "hi"), "ask"),
        (("chat", "--provider", "opanai"), "'openai'"),
        (("ask", "-m", "antropic", "Hi"), "'anthropic'"),
        (("ask", "-m", "scripted:ecko", "Hi"), "'echo'"),
        (("models", "list", "--provider", "gemni"), "'gemini'"),
        (("models", "show", "mistrl"), "'mistral'"),
        (("credentials", "set", "grok"), "'groq'"),
        (("modles",), "'models'"),
        (("config", "shwo"), "'show'"),
        (("ask", "--modle", "x", "Hi"), "'--model'"),
        (("ask", "--tools", "shel", "Hi"), "'shell'"),
        (("models", "show", "gtp-5.1"), "'gpt-5.1'"),
        (("ask", "--skill", "reviewr", "Hi"), "'reviewer'"),
        (("ask", "-c", "temprature=1", "Hi"), "'temperature'"),
        (("completion", "bsh"), "'bash'"),
        (("config", "set", "aliases.mine", "opnai:x"), "'openai'"),
        (("config", "set", "embedder", "opnai:x"), "'openai'"),
        (("config", "set", "limits.atempts", "3"), "'limits.attempts'"),
    ],
)
def test_a_slip_in_a_name_is_answered_with_the_nearest(
    vibe: Vibe, arguments: tuple[str, ...], nearest: str
) -> None:
    """Providers, models, commands, options and their words, tools, skills, controls, settings."""
    outcome = vibe(*arguments)

    assert outcome.code != 0
    assert len(outcome.err.splitlines()) == 1
    assert "id you mean" in outcome.err
    assert nearest in outcome.err


def test_mistakes_inside_tables_are_found_with_line_and_nearest_word(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of providers, by whichever name, of servers, of ensembles, of aliases and of the model."""
    file = home / "own.toml"
    file.write_text(
        'model = "antropic"\n'
        '[aliases]\nx = "grok"\n'
        '[providers.openai]\nbase_urll = "https://x"\ntransport = "sdkk"\n'
        "[providers.groq]\nquirks = { take_parts = true }\n"
        "[providers.local]\ncontext = 5\n"
        '[mcp.files]\ncomand = "x"\n'
        "[mcp.other]\ncommand = 5\n"
        '[ensembles.io]\ndirectoriess = ["."]\n'
    )
    monkeypatch.setenv("VIBE_LLMS_CONFIG", str(file))
    monkeypatch.delenv("VIBE_LLMS_MODEL")

    outcome = vibe("config", "check")

    found = [line.removeprefix(f"vibe: error: {file}:") for line in outcome.err.splitlines()]
    assert outcome.code == ExitCode.CONFIGURATION
    assert {line.partition(":")[0]: line.rpartition("did you mean ")[2] for line in found} == {
        "1": "'anthropic'? Write provider:model.",
        "3": "'groq'?",
        "5": "'base_url'?",
        "6": "'sdk'?",
        "8": "'takes_parts'?",
        "10": "'context_tokens'?",
        "12": "'command'?",
        "14": "14: mcp.other.command: It must be a text that is not empty, not a number.",
        "16": "'directories'?",
    }


def test_each_provider_says_what_it_lacks_and_how_that_is_had(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key, a variable, a server; also that its table does not hold. One line for each."""
    for variable in [name for name in os.environ if name.endswith(("_API_KEY", "_ENDPOINT"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("GROQ_API_KEY", "k")
    (home / "own.toml").write_text(
        '[providers.llamacpp]\nbase_url = "http://127.0.0.1:9/v1"\n[providers.xai]\nmodell = "m"\n'
    )
    monkeypatch.setenv("VIBE_LLMS_CONFIG", str(home / "own.toml"))

    listed = {each["name"]: each for each in vibe("providers", "--json").read_json()}
    lines = dict(line.split("\t", 1) for line in vibe("providers").out.splitlines())

    missing = {name: [each["name"] for each in row["missing"]] for name, row in listed.items()}
    assert missing["scripted"] == missing["groq"] == []
    assert missing["anthropic"] == ["ANTHROPIC_API_KEY"]
    assert missing["azure"] == ["AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY"]
    assert missing["llamacpp"] == ["127.0.0.1:9"]
    assert "Start it: llama-server" in listed["llamacpp"]["missing"][0]["remedy"]
    assert listed["xai"]["state"] == "failed"
    assert "did you mean 'model'?" in listed["xai"]["reason"]
    assert lines["groq"] == "\tready\t"
    assert lines["openai_responses"].startswith("openai\tneeds OPENAI_API_KEY\tSet OPENAI_API_KEY")
    assert lines["xai"].startswith("\tmisconfigured\t")


def test_each_attribute_of_a_model_has_a_source(vibe: Vibe) -> None:
    """``vibe models show`` explains where every value comes from."""
    shown = vibe("models", "show", "local:smollm2", "--json").read_json()

    assert shown["address"] == "local:smollm2"
    assert all(row["layer"] and row["file"] for row in shown["attributes"])
    assert "local:smollm2" in vibe("models").out


@pytest.mark.parametrize("typed", ["gpt-5.1", "openai:gpt-5.1", "openai_responses:gpt-5.1"])
def test_a_model_is_shown_by_every_name_by_which_it_is_asked(vibe: Vibe, typed: str) -> None:
    """A provider's usual name is followed, and the bare name goes where a question would go."""
    shown = vibe("models", "show", typed, "--json").read_json()

    assert shown["address"] == "openai_responses:gpt-5.1"


def test_what_lacks_its_key_is_not_called_ready(
    vibe: Vibe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``vibe models pull`` fetches nothing for a vendor, and says what is missing."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    outcome = vibe("models", "pull", "openai")

    assert outcome.code != 0
    assert "Set OPENAI_API_KEY" in outcome.err
    assert "is ready" not in outcome.err


def test_a_model_of_an_unknown_provider_is_not_found(vibe: Vibe) -> None:
    """A typing mistake in a model's address is not explained away."""
    assert vibe("models", "show", "lokal:smollm2").code == ExitCode.NOT_FOUND
    assert vibe("models", "list", "--provider", "lokal").code == ExitCode.NOT_FOUND


def test_the_configuration_is_shown_with_sources(vibe: Vibe) -> None:
    """The environment wins over the shipped default, and is named."""
    rows = {row["name"]: row for row in vibe("config", "show", "--json").read_json()}

    assert rows["model"]["value"] == "scripted:echo"
    assert "VIBE_LLMS_MODEL" in rows["model"]["source"]


def test_mistakes_in_the_configuration_are_told_all_at_once(vibe: Vibe, home: Path) -> None:
    """Each with file, line and the nearest right word; the exit code says configuration."""
    file = home / ".config/vibe-llms/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("modell = 'a:b'\nstream = 3\n")

    outcome = vibe("config", "check")

    assert outcome.code == ExitCode.CONFIGURATION
    assert f"{file}:1:" in outcome.err
    assert f"{file}:2:" in outcome.err
    assert "'model'" in outcome.err


def test_a_plugin_that_fails_is_named_by_the_check(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``vibe config check`` loads every plugin and says which cannot be, and where it is named."""
    file = home / ".config/vibe-llms/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[plugins.broken]\nmodule = 'broken_vibe_plugin'\n")
    (home / "broken_vibe_plugin.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(home)

    outcome = vibe("config", "check")

    assert outcome.code == ExitCode.CONFIGURATION
    assert f"{file}:" in outcome.err
    assert "broken" in outcome.err


def test_the_check_finds_all_that_is_wrong_with_plugins(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modules, hooks, names and data about models: each mistake is one line, told once."""
    file = home / ".config/vibe-llms/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(
        "[plugins.shouting]\nmodule = 'shouting_vibe_plugin'\n"
        "[providers.missing]\nmodule = 'missing_vibe_plugin'\n"
        "[providers.later]\nmodule = 'later_vibe_plugin'\npackage = 'later-vibe-plugin'\n"
        "[providers.parrot]\nmodule = 'vibe_llms.providers.scripted'\n"
        "[[models]]\npattern = 'x'\nsupports_images = 'perhaps'\n"
    )
    (home / "shouting_vibe_plugin.py").write_text("raise ValueError('first\\n\\nsecond')")
    monkeypatch.syspath_prepend(home)

    outcome = vibe("config", "check")

    assert outcome.code == ExitCode.CONFIGURATION
    lines = outcome.err.strip().splitlines()
    for words in (
        "shouting: It cannot be imported: ValueError: first second.",
        "missing: It cannot be imported: ModuleNotFoundError: No module named 'missing_vibe",
        "has no provider 'parrot'",
        "supports_images",
    ):
        assert len([line for line in lines if words in line]) == 1, (words, lines)
    assert len(lines) == 4


def test_a_plugin_adds_a_command(vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It receives its arguments as they are, options too, and decides the exit code."""
    file = home / ".config/vibe-llms/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[plugins.greeter]\nmodule = 'greeting_vibe_plugin'\n")
    (home / "greeting_vibe_plugin.py").write_text(
        "from vibe_llms.plugins.markers import hook\n"
        "from vibe_llms.plugins import CommandSpecification\n"
        "@hook\n"
        "def survey_commands():\n"
        "    return [CommandSpecification('greet', 'Greets.', 'greeting_vibe_plugin:greet')]\n"
        "def greet(arguments):\n"
        "    print('greetings', *arguments)\n"
        "    return 17\n"
    )
    monkeypatch.syspath_prepend(home)

    outcome = vibe("greet", "--loud", "you", "--help")

    assert (outcome.code, outcome.out) == (17, "greetings --loud you --help\n")


def test_a_folder_is_trusted_after_consent_only(vibe: Vibe, home: Path) -> None:
    """A project's file is inert until its owner says yes."""
    (home / ".vibe-llms").mkdir()
    (home / ".vibe-llms/config.toml").write_text("[providers.mine]\nmodule = 'mine'\n")

    assert vibe("trust").code == ExitCode.CONSENT
    assert "untrusted" in vibe("providers").out
    assert vibe("trust", "--yes").code == 0
    assert "untrusted" not in vibe("providers").out
    vibe("trust", "--revoke")
    assert "untrusted" in vibe("providers").out


def test_errors_are_json_where_results_are(vibe: Vibe) -> None:
    """With ``--json``, an error is one line of JSON that reads back as its class."""
    outcome = vibe("show", "--json", "zz")

    error = decode_error(outcome.err)
    assert outcome.code == ExitCode.NOT_FOUND
    assert outcome.out == ""
    assert type(error).__name__ == "UnknownConversationError"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("--nonsense",),
        ("list", "--nonsense"),
        ("ask", "-c", "temperature", "Hi"),
        ("ask",),
        ("ask", "--schema", "/nowhere.json", "Hi"),
        ("ask", "--provider", "local", "-m", "scripted:echo", "Hi"),
        ("completion", "tcsh"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_one_line(
    vibe: Vibe, arguments: tuple[str, ...]
) -> None:
    """The exit code is 2, and standard error has one line."""
    outcome = vibe(*arguments)

    assert outcome.code == ExitCode.USAGE
    assert outcome.out == ""
    assert outcome.err.startswith("vibe: error: ")
    assert outcome.err.count("\n") == 1


def test_a_mistyped_command_is_recognized(vibe: Vibe) -> None:
    """The nearest right word is named."""
    assert "'search'" in vibe("serach", "x").err


def test_a_control_outside_its_domain_is_a_matter_of_the_request(vibe: Vibe, home: Path) -> None:
    """The model's controls check the values; the code says request."""
    outcome = vibe("ask", "-m", "scripted:echo", "-c", "temperatur=0.2", "Hi")

    assert outcome.code == ExitCode.REQUEST


def test_a_schema_is_read_from_its_file(vibe: Vibe, home: Path) -> None:
    """A schema that is no object is refused before anything is asked."""
    (home / "list.json").write_text(json.dumps([1]))

    assert vibe("ask", "--schema", "list.json", "Hi").code == ExitCode.USAGE


def test_a_schema_that_is_none_is_refused_with_its_place(vibe: Vibe, home: Path) -> None:
    """The mistake is found before anything is asked, and nothing is stored."""
    (home / "bad.json").write_text('{"properties": {"age": {"type": "numbr"}}}')

    outcome = vibe("ask", "--schema", "bad.json", "Hi")

    assert outcome.code == ExitCode.USAGE
    assert "$.properties.age.type" in outcome.err
    assert vibe("list", "--json").read_json() == []


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ('{"age": 7}', 0, ""),
        ('{"age": "seven"}', ExitCode.PROVIDER, "$.age"),
        ('{"age": 7', ExitCode.PROVIDER, "not JSON"),
    ],
)
def test_an_answer_that_does_not_conform_is_said(
    vibe: Vibe, home: Path, text: str, code: int, word: str
) -> None:
    """The answer is printed and kept; the exit code tells a script not to trust it."""
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}}
    (home / "schema.json").write_text(json.dumps(schema))

    outcome = vibe("ask", "--schema", "schema.json", text)

    assert (outcome.code, outcome.out) == (code, text + "\n")
    assert word in outcome.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_vibe(vibe: Vibe, shell: str) -> None:
    """Each shell gets a script that asks ``vibe`` what there is."""
    assert "_VIBE_COMPLETE" in vibe("completion", shell).out


def test_words_are_completed(vibe: Vibe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands, ids, providers and models are offered; a mistake offers nothing."""
    identity = _ask(vibe, "Hi")

    def complete(line: str) -> str:
        monkeypatch.setenv("_VIBE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_LINE", line)
        out = vibe().out
        assert isinstance(out, str)
        return out

    assert "rename" in complete("vibe re")
    assert identity in complete(f"vibe show {identity[:3]}")
    assert "scripted" in complete("vibe ask --provider s")
    assert "local:smollm2" in complete("vibe models show local:")


def test_a_closed_pipe_is_no_mistake(vibe: Vibe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever stops reading gets no traceback and no message."""
    import sys

    identity = _ask(vibe, "Hi")

    def refuse(text: str) -> int:
        raise BrokenPipeError

    with monkeypatch.context() as patched:
        patched.setattr(sys.stdout, "write", refuse)
        patched.setattr("vibe_llms.interfaces.cli.command_line._silence", lambda: None)
        outcome = vibe("show", identity)

    assert (outcome.code, outcome.err) == (ExitCode.PIPE_CLOSED, "")


def test_a_traceback_is_shown_on_request_only(vibe: Vibe) -> None:
    """``--debug`` lets the error through, wherever it stands on the line."""
    assert vibe("show", "zz").err.count("\n") == 1
    with pytest.raises(LookupError):
        vibe("show", "zz", "--debug")


def test_what_the_model_cannot_take_is_not_kept(vibe: Vibe) -> None:
    """A control out of range leaves no conversation with a question and no answer behind."""
    outcome = vibe("ask", "-c", "temperature=99", "Hello")

    assert outcome.code == ExitCode.REQUEST
    assert vibe("list", "--json").read_json() == []


def test_an_empty_name_of_a_model_is_not_the_default(vibe: Vibe) -> None:
    """A variable of the shell that is not set asks nobody by mistake."""
    assert vibe("ask", "-m", "", "Hello").code == ExitCode.USAGE


def test_a_folder_must_be_there_to_be_trusted(vibe: Vibe) -> None:
    """A misspelt folder is a mistake, and not one that asks for nothing."""
    assert vibe("trust", "nowhere").code == ExitCode.USAGE


def test_text_in_a_poor_locale_is_kept_whole(vibe: Vibe) -> None:
    """Python hands over bytes it cannot read as halves of surrogates; they are joined again."""
    garbled = "hé".encode().decode("ascii", "surrogateescape")

    assert vibe("ask", garbled).out == "hé\n"


@pytest.mark.parametrize("name", ["stdin", "stdout", "stderr"])
def test_streams_may_be_closed(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A service that starts vibe without one of its streams gets no defect."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
        patch.setattr(sys, name, None)
        code = run(["ask", "Hello"])
        getattr(sys, name).close()

    assert code == ExitCode.SUCCESS


def test_a_full_disk_is_told_in_one_line(vibe: Vibe, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that cannot be written is no defect of vibe."""

    def fail(self: io.StringIO, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", type("Full", (io.StringIO,), {"write": fail})())
        outcome = vibe("providers")

    assert outcome.code == ExitCode.STORE
    assert outcome.err == (
        f"vibe: error: Cannot write standard output: {os.strerror(errno.ENOSPC)}. "
        "Free space on that disk, and try again.\n"
    )


def keep_survey(home: Path, age: timedelta) -> None:
    """Puts a vendor's list where the provider keeps it."""
    directory = home / ".cache" / "vibe-llms" / "providers" / "scripted"
    directory.mkdir(parents=True)
    document = {
        "format": 1,
        "fetched_at": (datetime.now(UTC) - age).isoformat(),
        "address": "",
        "models": [{"name": "parrot-2", "title": None}, {"name": "echo"}],
    }
    (directory / "models.json").write_text(json.dumps(document))


def test_the_models_that_a_vendor_listed_are_shown_with_their_age(vibe: Vibe, home: Path) -> None:
    """``vibe models list`` asks nobody: it shows what was listed last, and when that was."""
    keep_survey(home, timedelta(hours=3, minutes=5))

    shown = vibe("models", "list", "--provider", "scripted")
    listed = vibe("models", "list", "--provider", "scripted", "--json").read_json()

    assert "*\tscripted:echo\tconverser\tas of 3 hours ago" in shown.out.splitlines()
    assert "\tscripted:parrot-2\tconverser\tas of 3 hours ago" in shown.out.splitlines()
    assert [row["address"] for row in listed] == ["scripted:echo", "scripted:parrot-2"]
    assert all(row["fetched_at"].startswith("20") for row in listed)


def test_refreshing_asks_every_provider_and_tells_of_those_that_cannot_be_asked(
    vibe: Vibe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One vendor that is down does not hide the others."""
    from vibe_llms.providers.scripted.client import ScriptedClient

    async def survey(self: object, *, refresh: bool = False) -> list[object]:
        raise ConverseError(detail=f"No answer; refresh was {refresh}.")

    monkeypatch.setattr(ScriptedClient, "survey_models", survey)

    outcome = vibe("models", "list", "--refresh", "--provider", "scripted")

    assert outcome.code == 0
    assert "Cannot ask scripted: " in outcome.err
    assert "refresh was True" in outcome.err
    assert "scripted:echo" in outcome.out


_LATIN = "Was heißt Größe?\n".encode("latin-1")


def test_latin_1_is_told_wherever_text_is_read(vibe: Vibe, home: Path) -> None:
    """Through a pipe, in a chat, in a batch, a schema, a skill and the configuration."""
    (home / "lines.txt").write_bytes(_LATIN)
    (home / "schema.json").write_bytes(b'{"title": "Gr\xf6\xdfe"}')
    (home / "skill.toml").write_bytes(b'prompt = "Gr\xf6\xdfe"\n')

    for outcome in (
        vibe("ask", stdin=_LATIN),
        vibe("ask", "-f", "lines.txt", "What?"),
        vibe("ask", "Gr\udcf6\udcdfe?"),  # as Python reads Latin-1 on a command line
        vibe("chat", stdin=_LATIN),
        vibe("batch", "lines.txt", "--text", "-o", "out.jsonl"),
        vibe("batch", "-", "--text", "-o", "out.jsonl", stdin=_LATIN),
        vibe("ask", "--schema", "schema.json", "What?"),
        vibe("ask", "--skill", "./skill.toml", "What?"),
    ):
        assert outcome.code != 0
        assert "in Latin-1, not in UTF-8" in outcome.err
        assert "iconv -f LATIN1 -t UTF-8" in outcome.err
        assert outcome.err.count("\n") == 1
    assert vibe("list").out == ""
    (home / ".config" / "vibe-llms").mkdir(parents=True)
    (home / ".config" / "vibe-llms" / "config.toml").write_bytes(b"# Gr\xf6\xdfe\n")
    assert "Latin-1" in vibe("config", "check").err
