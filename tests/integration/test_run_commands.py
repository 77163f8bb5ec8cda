"""``vibe runs`` beside runs of other processes: who is first counts, and nobody is kept waiting."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from support.runs.paying import resume_payment_run, start_payment_run
from support.runs.scripting import write_script
from support.screens.command_line import VIBE, produce_environment
from support.screens.pseudoterminals import Terminal
from vibe_llms.conversations import DirectoryStore
from vibe_llms.dialects.history import BEGUN
from vibe_llms.events.engine import ApprovalAnsweredEvent
from vibe_llms.runs import survey_waiting

_PATIENCE_SECONDS = 60.0


def open_store(home: Path) -> DirectoryStore:
    return DirectoryStore(home / ".local/share/vibe-llms")


def begin_command(home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*VIBE, *arguments],
        cwd=home,
        env=produce_environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_000_of_two_who_answer_at_once_one_counts_and_the_other_is_told(tmp_path: Path) -> None:
    """In processes of their own; the log has one answer."""
    identity = asyncio.run(start_payment_run(tmp_path))
    both = [
        begin_command(tmp_path, "runs", "approve", identity, *options)
        for options in (["--allow"], ["--deny", "--reason", "No."])
    ]

    ends = [(*each.communicate(timeout=_PATIENCE_SECONDS), each.returncode) for each in both]

    codes = [code for _, _, code in ends]
    assert sorted(codes) == [0, 1], ends
    late = ends[codes.index(1)][1]
    assert "Too late" in late or "No call awaits approval" in late
    (answered,) = (
        each.event
        for each in open_store(tmp_path).open_log(identity).read()
        if isinstance(each.event, ApprovalAnsweredEvent)
    )
    assert answered.decision == ("allow" if codes[0] == 0 else "deny")


@pytest.mark.slow
def test_001_whoever_answered_later_in_a_terminal_is_told(tmp_path: Path) -> None:
    """Two have the question before them; the second answers when it is settled."""
    identity = asyncio.run(start_payment_run(tmp_path))
    terminals = [Terminal(tmp_path, "runs", "approve", identity) for _ in range(2)]
    try:
        for terminal in terminals:
            terminal.wait_for(r'"cents": 100')
            terminal.wait_for(r"or Enter to deny\?")

        terminals[0].type("o\r")
        assert terminals[0].wait_for_end() == 0
        terminals[1].type("n\r")
        terminals[1].wait_for("Reason for the model")
        terminals[1].type("\r")

        assert terminals[1].wait_for_end() == 1
        assert "Too late" in terminals[1].read_text()
    finally:
        for terminal in terminals:
            terminal.close()
    assert asyncio.run(resume_payment_run(tmp_path, identity)).text == "It is paid."


@pytest.mark.slow
def test_002_ctrl_c_before_an_answer_answers_nothing(tmp_path: Path) -> None:
    """The call waits as before."""
    identity = asyncio.run(start_payment_run(tmp_path))
    terminal = Terminal(tmp_path, "runs", "approve", identity)
    try:
        terminal.wait_for(r"or Enter to deny\?")
        terminal.type("\x03")

        assert terminal.wait_for_end() == 130
    finally:
        terminal.close()
    assert len(survey_waiting(open_store(tmp_path), identity)) == 1


@pytest.mark.slow
def test_003_who_watches_sees_it_happen_and_may_leave(tmp_path: Path) -> None:
    """Ctrl-C ends the watching alone."""
    identity = asyncio.run(start_payment_run(tmp_path))
    watching = begin_command(tmp_path, "runs", "watch", identity, "--follow")
    assert watching.stdout is not None
    for line in watching.stdout:
        if "awaits 1 approval" in line:
            break

    approved = begin_command(tmp_path, "runs", "approve", identity, "--allow")
    approved.communicate(timeout=_PATIENCE_SECONDS)
    for line in watching.stdout:
        if "pay allowed" in line:
            break
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=_PATIENCE_SECONDS)

    assert watching.returncode == 130
    assert "The run continues" in err


@pytest.mark.slow
@pytest.mark.parametrize("word", ["stop", "send"])
def test_004_a_run_that_works_elsewhere_is_told(tmp_path: Path, word: str) -> None:
    """What is said is kept for it: it hears of it soon, or between two steps."""
    identity = asyncio.run(start_payment_run(tmp_path))
    begin_command(tmp_path, "runs", "approve", identity, "--deny").communicate(timeout=60)
    asyncio.run(resume_payment_run(tmp_path, identity))
    begin_command(tmp_path, "runs", "send", identity, "Go on.").communicate(timeout=60)
    count = len(open_store(tmp_path).open_log(identity).read())
    write_script(tmp_path, {"contents": [{"text": "late"}], "delay_seconds": 600})
    working = begin_command(tmp_path, "runs", "resume", identity)
    after = ["--after", str(count)]
    watching = begin_command(tmp_path, "runs", "watch", identity, "--follow", *after)
    assert watching.stdout is not None
    try:
        for line in watching.stdout:
            if "asks scripted:" in line:
                break
        arguments = [word, identity] if word == "stop" else [word, identity, "Hello"]
        said = begin_command(tmp_path, "runs", *arguments)

        out, err = said.communicate(timeout=_PATIENCE_SECONDS)

        assert said.returncode == 0
        if word == "stop" and not err:  # it may have heard of it by now
            assert out in ("The run received it and stops.\n", "It is stopped.\n")
        else:
            assert out == ""
            assert "between two steps" in err
    finally:
        for each in (working, watching):
            each.kill()
            each.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("tools", [(), ("--tools", "shell")])
def test_a_question_after_an_interrupted_call_comes_behind_what_is_known_of_it(
    tmp_path: Path, ending: signal.Signals, tools: tuple[str, ...]
) -> None:
    """The command ran, at least in part: the model is not told that it did not."""
    home = tmp_path / "home"
    work = home / "work"
    work.mkdir(parents=True)
    call = {"id": "call-1", "name": "run_command"}
    call["arguments"] = json.dumps({"command": "echo ran >> ran.txt; sleep 60"})
    first = {"match": "do it", "contents": [{"invocation": call}]}
    script = write_script(home, first, {"contents": [{"text": "I see."}]})
    model = ("-m", f"scripted:{script}")
    asking = subprocess.Popen(
        [*VIBE, "ask", *model, "--tools", "shell", "--allow", "run_command", "do it"],
        cwd=work,
        env=produce_environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (work / "ran.txt").exists():
        assert time.monotonic() < deadline
        assert asking.poll() is None
        time.sleep(0.05)
    asking.send_signal(ending)
    asking.wait(_PATIENCE_SECONDS)

    answer = begin_command(home, "ask", *model, *tools, "did it run?", "--continue")
    out, err = answer.communicate(timeout=_PATIENCE_SECONDS)

    assert (answer.returncode, out) == (0, "I see.\n"), err
    store = open_store(home)
    (identity,) = store.survey()
    said = store.read(identity).canisters
    assert [each.role for each in said] == ["user", "invocation", "result", "user", "assistant"]
    assert said[2].text == BEGUN
