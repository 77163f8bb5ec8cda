"""A batch that is killed loses nothing that it told of, and repeats only what was under way."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from support.screens.command_line import VIBE, produce_environment

ROUNDS, COUNT, CONCURRENCY = 40, 2_000, 8
HERE = Path(__file__).parent


def read_numbers(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()]


@pytest.mark.slow
def test_kill_9_loses_nothing_and_repeats_only_what_was_under_way(tmp_path: Path) -> None:
    """Killed at 40 random moments: each input has one line; none with a line was done again."""
    numbers = map(str, (ROUNDS, COUNT, CONCURRENCY))
    runner = [sys.executable, HERE / "batch_runners.py", tmp_path, *numbers]
    subprocess.run(runner, check=True, timeout=600)

    begun = read_numbers(tmp_path / "begun")
    told = Counter(read_numbers(tmp_path / "told"))
    history = json.loads((tmp_path / "history.json").read_text())
    lines = list(map(json.loads, (tmp_path / "answers.jsonl").read_text().splitlines()))
    assert [line["index"] for line in lines] == list(range(COUNT))
    assert {line["index"] for line in lines if line["error"]} == set(range(7, COUNT, 100))
    assert max(told.values()) == 1
    assert len(begun) <= COUNT + ROUNDS * CONCURRENCY
    assert len(begun) > COUNT
    for death in history:
        assert not set(death["lines"]) & set(begun[death["begun"] :])


@pytest.fixture
def slow_batch(tmp_path: Path) -> list[str]:
    """A batch of which the first three are done at once and the others take for ever."""
    (tmp_path / "script.toml").write_text(
        '[[responses]]\nmatch = "quick"\ncontents = [{ text = "fine" }]\n'
        '[[responses]]\ndelay_seconds = 600\ncontents = [{ text = "late" }]\n'
    )
    prompts = [f"{'quick' if number < 3 else 'slow'} {number}" for number in range(20)]
    (tmp_path / "prompts.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in prompts))
    script = f"scripted:{tmp_path / 'script.toml'}"
    return [*VIBE, "batch", "prompts.jsonl", "-o", "answers.jsonl", "-m", script]


def await_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert time.monotonic() < deadline, "the batch did not get so far"
        time.sleep(0.02)


@pytest.mark.slow
def test_ctrl_c_ends_promptly_and_says_how_to_go_on(slow_batch: list[str], tmp_path: Path) -> None:
    """What is done is kept; the exit code is that of an interruption."""
    process = subprocess.Popen(
        slow_batch,
        cwd=tmp_path,
        env=produce_environment(tmp_path),
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    await_lines(tmp_path / "answers.jsonl", 3)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "3 of 20 answers are in answers.jsonl" in told
    assert "same command again" in told
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 3


@pytest.mark.slow
def test_ctrl_c_without_an_output_says_what_a_batch_needs_to_be_continued(
    slow_batch: list[str], tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [each for each in slow_batch if each not in ("-o", "answers.jsonl")],
        cwd=tmp_path,
        env=produce_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    written = [process.stdout.readline() for _ in range(3)]
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 130
    assert all(written)
    assert "3 of 20 answers" in told
    assert "--output" in told


@pytest.mark.slow
def test_two_processes_do_not_write_to_one_output(slow_batch: list[str], tmp_path: Path) -> None:
    """The second is refused at once, with the way out."""
    environment = produce_environment(tmp_path)
    first = subprocess.Popen(slow_batch, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL)
    try:
        await_lines(tmp_path / "answers.jsonl", 3)
        second = subprocess.run(
            slow_batch,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        first.kill()
        first.wait()

    assert second.returncode == 7
    assert "Another batch is writing to" in second.stderr


@pytest.mark.slow
def test_a_terminal_shows_a_bar(slow_batch: list[str], tmp_path: Path) -> None:
    """Items, and what there is to tell of them; it goes away at the end."""
    master, terminal = pty.openpty()
    process = subprocess.Popen(
        slow_batch,
        cwd=tmp_path,
        env=produce_environment(tmp_path, TERM="xterm", COLUMNS="100"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    shown = b""
    deadline = time.monotonic() + 60
    try:
        while b" 3/20" not in shown.replace(b"\x1b[", b" ") and b"3/20" not in shown:
            assert time.monotonic() < deadline, shown
            shown += os.read(master, 4096)
    finally:
        process.kill()
        process.wait()
        os.close(master)
