"""``vibe runs replay`` names the first step that differs, and ``keep`` makes a test of a run."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vibe_llms import Conversation, Engine
from vibe_llms.conversations import DirectoryStore
from vibe_llms.conversations.proof import GRACE_SECONDS
from vibe_llms.evals import read_suite
from vibe_llms.events.engine import RunStartedEvent, RunSuspendedEvent
from vibe_llms.interfaces.cli.access import open_store
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.contents import ImageContent
from vibe_llms.runs.indexing import survey_runs
from vibe_llms.testing.replays import check_run

Vibe = Callable[..., Any]

TASK = {
    "goal": {"description": "Say it."},
    "resource_llm": {"provider": "scripted", "model": "echo"},
    "prompts": [{"template": "Say one."}, {"template": "Say two."}],
    "resource_registry": {"entries": []},
    "flow_diagram": {"mermaid": "flowchart TD\n  START --> P0 --> P1 --> END"},
}


def begin(text: str, instructions: str = "") -> str:
    """Lets a model answer; returns the id of the run."""
    conversation = Conversation()
    if instructions:
        conversation.add_canisters([SupervisorCanister(instructions)])
    conversation.add_user_message(text)
    asyncio.run(Engine("scripted:echo", store=open_store()).answer(conversation))
    return conversation.id


@pytest.fixture
def identity(home: Path) -> str:
    """A run that has ended."""
    return begin("Hello.")


def test_a_run_replays_and_a_change_is_named(vibe: Vibe, identity: str, tmp_path: Path) -> None:
    """Each step in a table; with --json the first that differs."""
    (tmp_path / "told.txt").write_text("Be brief.\n")

    same = vibe("runs", "replay", identity)
    model = vibe("runs", "replay", identity, "--model", "scripted:other", "--json")
    prompt = vibe("runs", "replay", identity, "--prompt", f"@{tmp_path}/told.txt")

    tools = vibe("runs", "replay", identity, "--tools", "fetch")

    assert tools.code == 1
    assert "the tools differ" in tools.err
    assert same.code == 0, same
    assert "All 2 steps are unchanged. State: ended." in same.err
    assert model.code == prompt.code == 1
    assert json.loads(model.out)["difference"]["sequence"] == 3
    assert "the instructions differ" in prompt.err


def test_a_run_whose_process_is_gone_replays_as_broken_off(vibe: Vibe, identity: str) -> None:
    """As `vibe runs list` says of it."""
    log = open_store().open_log(identity)
    log.claim()
    log.append(identity, RunStartedEvent(run_id="r", conversation_id=identity, length=2))
    log.close()

    shown = vibe("runs", "replay", identity)
    told = vibe("runs", "replay", identity, "--json")

    assert shown.code == 0, shown
    assert "broken off." in shown.err
    assert json.loads(told.out)["state"] == "broken_off"


def test_instructions_that_nobody_writes_are_not_waited_for(
    vibe: Vibe, identity: str, tmp_path: Path
) -> None:
    """As of a pipe; it is named in one line."""
    os.mkfifo(tmp_path / "pipe")

    outcome = vibe("runs", "replay", identity, "--prompt", f"@{tmp_path}/pipe")

    assert outcome.code == 2
    assert "The pipe has no writer" in outcome.err


def test_a_flow_replays_and_the_first_visit_that_differs_is_named(
    vibe: Vibe, tmp_path: Path
) -> None:
    """A prompt that is another in the second version of the task."""
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text(json.dumps(TASK))
    new.write_text(
        json.dumps({**TASK, "prompts": [{"template": "Say one."}, {"template": "Say 3."}]})
    )
    begun = vibe("flow", "run", str(old))
    assert begun.code == 0, begun
    (identity,) = [run.id for run in survey_runs(open_store()) if run.kind == "flow"]

    same = vibe("runs", "replay", identity)
    other = vibe("runs", "replay", identity, "--task", str(new))
    kept = vibe("runs", "keep", identity, str(tmp_path / "kept"))

    assert same.code == 0, same
    assert other.code == 1
    assert "P1 has changed" in other.err
    assert kept.code == 0, kept
    data = next((tmp_path / "kept").glob("run_*"))
    check_run(data, identity, task=old)
    with pytest.raises(AssertionError, match="P1 has changed"):
        check_run(data, identity, task=new)


def test_kept_runs_are_cases_of_a_suite(vibe: Vibe, home: Path, tmp_path: Path) -> None:
    """A conversation is asked again, and its recorded answer is the expected one."""
    one, other = begin('Say "\\hello\x7f".\nPlease.'), begin("Good day.")
    folder = tmp_path / "kept"

    kept = vibe("runs", "keep", one, str(folder), "--suite", str(folder / "suite.toml"))
    added = vibe("runs", "keep", other, str(folder), "--suite", str(folder / "suite.toml"))

    assert (kept.code, added.code) == (0, 0), (kept, added)
    suite = read_suite(folder / "suite.toml")
    assert [each.name for each in suite.cases] == [f"run-{one}", f"run-{other}"]
    assert [each.expected for each in suite.cases] == ['Say "\\hello\x7f".\nPlease.', "Good day."]
    assert [each.model for each in suite.subjects] == ["scripted:echo"]
    text = (folder / "suite.toml").read_text()
    text = text.replace('kind = "model"', 'kind = "equals"').replace("question", "# question")
    (folder / "suite.toml").write_text(text)
    evaluated = vibe("eval", str(folder / "suite.toml"))
    assert evaluated.code == 0, evaluated
    for file in folder.glob("*.py"):
        file.unlink()
    again = vibe("runs", "keep", one, str(folder), "--suite", str(folder / "suite.toml"))
    assert "already has a case" in again.err


def test_a_kept_run_of_a_flow_is_a_case_of_its_task(vibe: Vibe, home: Path, tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text(json.dumps(TASK))
    assert vibe("flow", "run", str(tmp_path / "task.json")).code == 0
    (identity,) = [run.id for run in survey_runs(open_store()) if run.kind == "flow"]
    suite = tmp_path / "suite.toml"

    kept = vibe("runs", "keep", identity, str(tmp_path / "kept"), "--suite", str(suite))

    assert kept.code == 0, kept
    assert read_suite(suite).subjects[0].task == tmp_path / "task.json"
    evaluated = vibe("eval", str(suite))
    assert evaluated.code == 0, evaluated


@pytest.mark.slow
def test_a_kept_run_is_a_test_that_passes_and_can_fail(
    vibe: Vibe, identity: str, tmp_path: Path
) -> None:
    """As written by the command; red with other tools, with another model, and without a line."""

    def look() -> str:
        """Looks."""
        return ""

    kept = vibe("runs", "keep", identity, str(tmp_path / "kept"))
    again = vibe("runs", "keep", identity, str(tmp_path / "kept"))

    assert kept.code == 0, kept
    assert again.code != 0
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{tmp_path}/kept"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in told.stdout, told.stdout
    data = next((tmp_path / "kept").glob("run_*"))
    check_run(data, identity, engine=Engine("scripted:echo"))
    for engine, difference in (
        (Engine("scripted:echo", [look]), "the tools differ"),
        (Engine("scripted:echo", controls={"temperature": 0.5}), "the settings differ"),
    ):
        with pytest.raises(AssertionError, match=difference):
            check_run(data, identity, engine=engine)


def test_two_runs_are_compared(vibe: Vibe, identity: str) -> None:
    """Equal ones do not differ; what was sent is the first difference of others."""
    equal, other = begin("Hello."), begin("Good day.")

    same = vibe("runs", "diff", identity, equal)
    told = vibe("runs", "diff", identity, other, "--json")

    assert same.code == 0, same
    assert told.code == 1
    difference = json.loads(told.out)
    assert difference["step"] == 1
    assert difference["second"]["meaning"] == [["user", "Good day."]]


def test_the_version_that_changed_a_run_is_found(vibe: Vibe, tmp_path: Path) -> None:
    """By halves; where the ends do not tell, that is said."""
    identity = begin("Hello.", "Be brief.")
    texts = ["Be brief.", "Be brief.\n", "Be brief. ", "Be long.", "Be long!"]
    files = [tmp_path / f"{number}.txt" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)

    found = vibe("runs", "bisect", identity, *map(str, files), "--json")
    none = vibe("runs", "bisect", identity, *map(str, files[:3]))
    at_once = vibe("runs", "bisect", identity, *map(str, files[3:]))

    assert json.loads(found.out)["version"] == str(files[3])
    assert "last version does not differ" in none.err
    assert "first version already" in at_once.err
    assert none.code == at_once.code == 5


@pytest.mark.slow
def test_the_revision_that_changed_a_run_is_found(vibe: Vibe, tmp_path: Path) -> None:
    """Of those that have changed the file; what git does not find is said in one line."""
    identity = begin("Hello.", "Be brief.")
    file = tmp_path / "told.txt"

    def git(*words: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@b.example")
        subprocess.run(["git", "-C", str(tmp_path), *who, *words], check=True, capture_output=True)

    git("init", "-q")
    for number, text in enumerate(["Be brief.", "Be brief.\n", "Be long.", "Be long!"]):
        file.write_text(text)
        git("add", "told.txt")
        git("commit", "-qm", f"Say it {number}")
        git("commit", "-qm", "Something else", "--allow-empty")

    words = ("runs", "bisect", identity, str(file), "--revisions")
    found = vibe(*words, "HEAD~7..", "--json")
    none = vibe(*words, "HEAD~7..HEAD~5")
    unknown = vibe(*words, "nothing..HEAD")

    assert json.loads(found.out)["version"].endswith("Say it 2")
    assert json.loads(found.out)["before"].endswith("Say it 1")
    assert "last version does not differ" in none.err
    assert "git log: fatal: bad revision 'nothing'" in unknown.err
    assert "range of revisions" in vibe(*words, "HEAD").err
    assert "one file" in vibe("runs", "bisect", identity, "a", "b", "--revisions", "a..b").err


def test_old_runs_are_removed_and_what_waits_stays(vibe: Vibe, identity: str) -> None:
    """With the content that nothing else names; conversations that have not run stay."""
    store = open_store()
    store.append(identity, [UserCanister([ImageContent(mime_type="image/png", data=b"gone")])])
    kept_id = store.contents.add(b"new", mime_type="image/png")
    for each in set(store.contents.survey()) - {kept_id}:
        long_ago = time.time() - 2 * GRACE_SECONDS
        assert isinstance(store, DirectoryStore)
        os.utime(f"{store.contents.root}/{each[:4]}/{each}/data", (long_ago, long_ago))
    plain, waiting = Conversation(), Conversation()
    plain.add_user_message("Hello.")
    plain.save(store)
    waiting.add_user_message("Hello.")
    waiting.save(store)
    log = store.open_log(waiting.id)
    log.claim()
    log.append("run", RunStartedEvent(run_id="run", conversation_id=waiting.id, length=1))
    log.append("run", RunSuspendedEvent(run_id="run", digests=()))
    log.close()

    young = vibe("store", "purge", "--older-than", "1", "--yes")
    asked = vibe("store", "purge", "--older-than", "0")
    dry = vibe("store", "purge", "--older-than", "0", "--dry-run", "--json")
    kept = set(store.survey())
    gone = vibe("store", "purge", "--older-than", "0", "--yes")

    assert "Removed: 0 runs, 0 contents." in young.err
    assert asked.code != 0
    assert json.loads(dry.out) == {"removable": [identity], "removed": [], "contents": []}
    assert kept == {identity, plain.id, waiting.id}
    assert gone.code == 0, gone
    assert "Removed: 1 runs, 1 contents." in gone.err
    assert set(store.survey()) == {plain.id, waiting.id}
    assert list(store.contents.survey()) == [kept_id]


def test_logs_of_runs_that_ended_are_compacted(vibe: Vibe, identity: str) -> None:
    """As many days ago as the limit says, or as is wanted; a replay says that states left."""
    young = vibe("store", "compact")
    done = json.loads(vibe("store", "compact", "--older-than", "0", "--json").out)
    again = vibe("store", "compact", "--older-than", "0")

    assert "Compacted: 0 logs." in young.err
    assert [each["identity"] for each in done] == [identity]
    assert "Compacted: 0 logs." in again.err
    replayed = vibe("runs", "replay", identity)
    assert replayed.code == 0
    assert "compacted up to event" in replayed.err + replayed.out


@pytest.mark.parametrize("days", ["1e99", "nan", "inf", "-1", "x"])
@pytest.mark.parametrize("command", ["compact", "purge"])
def test_days_that_no_calendar_has_are_refused(vibe: Vibe, command: str, days: str) -> None:
    outcome = vibe("store", command, "--older-than", days)
    assert outcome.code == 2
    assert "Invalid value for '--older-than'" in outcome.err


def test_a_version_that_is_not_there_is_named(vibe: Vibe, identity: str) -> None:
    outcome = vibe("runs", "bisect", identity, "mistyped-1", "mistyped-2")
    assert outcome.code == 2
    assert "Unknown version 'mistyped-1'" in outcome.err
    assert "--prompt" not in outcome.err
