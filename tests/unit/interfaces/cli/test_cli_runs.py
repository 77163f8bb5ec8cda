"""``vibe runs``: what runs is found from any terminal, and hears what is said there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task
from support.runs.paying import resume_payment_run, start_payment_run
from support.runs.scripting import write_script
from vibe_llms.conversations import DirectoryStore
from vibe_llms.interfaces.cli.completing import survey_runs
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.runs import read_summary, survey_waiting

Vibe = Callable[..., Any]


def begin(home: Path, **settings: Any) -> str:
    return asyncio.run(start_payment_run(home, **settings))


def open_store(home: Path) -> DirectoryStore:
    return DirectoryStore(home / ".local/share/vibe-llms")


def test_000_runs_are_listed_with_where_they_stand(vibe: Vibe, home: Path) -> None:
    """As rows for programs, or as JSON; and by state."""
    assert "no runs yet" in vibe("runs", "list").err
    identity = begin(home)

    outcome = vibe("runs", "list")

    assert outcome.out.split("\t")[:2] == [identity, "waiting for 1 approval"]
    assert outcome.out.rstrip("\n").endswith("Pay, please.")
    (row,) = vibe("runs", "list", "--json").read_json()
    assert (row["id"], row["state"], row["waiting"], row["steps"]) == (identity, "waiting", 1, 1)
    assert vibe("runs", "list", "--state", "waiting").out == outcome.out
    assert vibe("runs", "list", "--state", "ended").out == ""
    assert vibe("runs", "list", "--flow").out == ""
    assert [name for name, _ in survey_runs(identity[:3])] == [identity]


def test_001_what_waits_is_shown_whole(vibe: Vibe, home: Path) -> None:
    """However long its arguments are, and nothing of them is hidden."""
    identity = begin(home, purpose="a" * 9_000 + "\u202e")

    outcome = vibe("runs", "show", identity[:8])

    assert "a" * 9_000 + r"\u202e" in outcome.out
    assert "requests the call pay" in outcome.out
    assert f"runs approve {identity}" in outcome.err
    shown = vibe("runs", "show", identity, "--json").read_json()
    assert json.loads(shown["requests"][0]["arguments"])["cents"] == 100


@pytest.mark.parametrize(
    ("options", "result"),
    [
        (["--allow"], "paid 100"),
        (["--deny", "--reason", "On Monday."], "On Monday."),
        (["--edit", '{"cents": 7}'], "paid 7"),
    ],
)
def test_002_an_answer_is_what_the_run_goes_on_with(
    vibe: Vibe, home: Path, options: list[str], result: str
) -> None:
    """It has counted by then, and who comes later is told so."""
    identity = begin(home)

    outcome = vibe("runs", "approve", identity, *options)

    assert outcome.code == 0, outcome.err
    assert '"cents": 100' in outcome.err
    assert f"runs resume {identity}" in outcome.err
    late = vibe("runs", "approve", identity, "--allow")
    assert late.code == 1
    assert "No call awaits approval" in late.err
    assert vibe("runs", "list").out.split("\t")[1] == "due"
    assert asyncio.run(resume_payment_run(home, identity)).text == "It is paid."
    assert result in vibe("show", identity).out


def test_003_of_several_calls_one_is_named(vibe: Vibe, home: Path) -> None:
    """By its digest; nothing is allowed that was not named."""
    identity = begin(home, calls=2)
    store = open_store(home)
    digests = [each.request.digest for each in survey_waiting(store, identity)]

    unclear = vibe("runs", "approve", identity, "--allow")

    assert unclear.code == ExitCode.USAGE
    assert all(digest[:12] in unclear.err for digest in digests)
    assert len(survey_waiting(store, identity)) == 2
    outcome = vibe("runs", "approve", identity, "--digest", digests[1][:6], "--allow")
    assert (outcome.code, outcome.out) == (0, "Allowed: pay\n")
    assert [each.request.digest for each in survey_waiting(store, identity)] == digests[:1]
    assert vibe("runs", "approve", identity, "--digest", "0000", "--deny").code == (
        ExitCode.NOT_FOUND
    )


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--edit", "nonsense"],
        ["--edit", "[]"],
        ["--edit", "{}", "--deny"],
        ["--allow", "--deny"],
        ["--edit", "{}", "--scope", "always"],
        ["--allow", "--reason", "Well."],
    ],
)
def test_004_what_makes_no_sense_answers_nothing(
    vibe: Vibe, home: Path, options: list[str]
) -> None:
    """The call waits as before."""
    identity = begin(home)

    outcome = vibe("runs", "approve", identity, *options)

    assert outcome.code == ExitCode.USAGE
    assert len(survey_waiting(open_store(home), identity)) == 1


def test_005_a_run_is_followed_from_any_event_on(vibe: Vibe, home: Path) -> None:
    """Until it rests; with JSON, its lines are those of the log."""
    identity = begin(home)
    path = Path(open_store(home).locate(identity)) / "runs.jsonl"

    outcome = vibe("runs", "watch", identity)

    assert "awaits 1 approval" in outcome.out
    assert "runs approve" in outcome.err
    assert vibe("runs", "watch", identity, "--json").out == path.read_text()
    tail = vibe("runs", "watch", identity, "--json", "--after", "6").out
    assert [json.loads(line)["sequence"] for line in tail.splitlines()] == [7]


def test_006_a_run_is_stopped_and_spoken_to(vibe: Vibe, home: Path) -> None:
    """It hears of it at once, as nobody has it; what goes on hears what was said."""
    identity = begin(home)

    assert vibe("runs", "send", identity, "Be quick.").out == "Sent.\n"
    assert read_summary(open_store(home), identity).state == "waiting"
    outcome = vibe("runs", "stop", identity, "--reason", "Enough.")
    assert outcome.out == "It is stopped.\n"
    assert "Enough." in vibe("runs", "show", identity).out
    assert "not active" in vibe("runs", "stop", identity).err
    assert vibe("runs", "send", identity, " ").code == ExitCode.USAGE


def test_007_a_call_is_not_told_to_be_gone_because_its_tool_is_elsewhere(
    vibe: Vibe, home: Path
) -> None:
    """To go on here would spoil the run."""
    identity = begin(home)
    vibe("runs", "approve", identity, "--allow")

    outcome = vibe("runs", "resume", identity)

    assert outcome.code == ExitCode.REQUEST
    assert "pay" in outcome.err
    assert read_summary(open_store(home), identity).state == "due"


def test_008_a_run_goes_on_here_with_what_was_said(vibe: Vibe, home: Path) -> None:
    """Without a word of its own; and is forked."""
    identity = begin(home)
    vibe("runs", "approve", identity, "--deny")
    asyncio.run(resume_payment_run(home, identity))
    vibe("runs", "send", identity, "And now?")
    write_script(home, {"contents": [{"text": "Now I rest."}]})

    outcome = vibe("runs", "resume", identity)

    assert (outcome.code, outcome.out) == (0, "Now I rest.\n"), outcome.err
    assert "And now?" in vibe("show", identity).out
    child = vibe("runs", "fork", identity).out.strip()
    assert "And now?" in vibe("show", child).out


def test_009_a_conversation_that_never_ran_is_no_run(vibe: Vibe) -> None:
    """Nor is a name that nothing has."""
    identity = vibe("ask", "--json", "Hello").read_json()["conversation"]

    assert vibe("runs", "show", identity).code == ExitCode.STORE
    assert "without a run" in vibe("runs", "show", identity).err
    for word in ("zzzz", "", "../../etc"):
        for command in (["show"], ["approve", "--allow"], ["stop"], ["fork"], ["resume"]):
            outcome = vibe("runs", *command, word)
            assert outcome.code == ExitCode.NOT_FOUND, command
            assert f"Unknown run {word!r}." in outcome.err
            assert "runs list" in outcome.err


def test_010_flows_are_runs(vibe: Vibe, home: Path) -> None:
    """They are listed and followed; what only their own commands can do is said."""
    task = compose_task("START --> P0 --> END", "Say it.")
    (home / "task.json").write_text(json.dumps(task), encoding="utf-8")
    vibe("flow", "run", str(home / "task.json"))

    identity, state = vibe("runs", "list", "--flow").out.split("\t")[:2]

    assert state == "goal met"
    assert "P0 completed" in vibe("runs", "watch", identity).out
    forked = vibe("runs", "fork", identity)
    assert forked.code == ExitCode.USAGE
    assert f"flow fork {identity} NODE" in forked.err
    assert "No visit of this flow is asking a model" in vibe("runs", "send", identity, "Hello").err
    assert vibe("runs", "resume", identity).out == vibe("flow", "resume", identity).out
