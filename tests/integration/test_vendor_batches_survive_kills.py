"""A batch at its vendor outlives the processes that submit it, wait for it and read it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from support.batches.vendor_batch_runner import POINTS, TEXTS
from support.batches.vendor_batching import MODELS, is_submission, read_lines
from support.runs import deferred_run_runner
from support.screens.command_line import VIBE, produce_environment
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.messages.views import text_of
from vibe_llms.testing.simulator import SynchronousSimulator

TESTS = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "deaths"),
    [("anthropic", 1), *((provider, 3) for provider in MODELS)],
)
def test_kill_9_at_any_point_submits_nothing_twice_and_loses_nothing(
    tmp_path: Path, provider: str, deaths: int
) -> None:
    """Killed at each point: the vendor has one batch, and each input has one line."""
    with SynchronousSimulator() as simulator:
        url = simulator.access_url("batch_polls=1")
        program = TESTS / "support" / "batches" / "vendor_batch_runner.py"
        runner = [sys.executable, program, provider, url, tmp_path]
        runner += [str(deaths)]
        environment = {**os.environ, "HOME": str(tmp_path)}
        subprocess.run(runner, check=True, timeout=600, env=environment)
        submitted = sum(map(is_submission, simulator.requests))

    assert submitted == len(POINTS) + 1  # and one that nobody killed
    for number, point in enumerate(POINTS):
        lines = read_lines(tmp_path / f"{number}.jsonl")
        assert [line["text"] for line in lines] == TEXTS, point
        assert not (tmp_path / f"{number}.jsonl.chunks").exists(), point
        told = Counter((tmp_path / f"{number}.told").read_text().split())
        assert max(told.values()) == 1, point


@pytest.mark.slow
@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("deaths", [1, 3])
def test_kill_9_at_any_point_bills_no_request_of_a_run_twice(
    tmp_path: Path, provider: str, deaths: int
) -> None:
    """Whoever starts next goes on with it: one batch, and one answer, for each run."""
    with SynchronousSimulator() as simulator:
        url = simulator.access_url("batch_polls=1")
        program = TESTS / "support" / "runs" / "deferred_run_runner.py"
        runner = [sys.executable, program, provider, url, str(deaths)]
        subprocess.run(runner, check=True, timeout=600, env=produce_environment(tmp_path))
        submitted = sum(map(is_submission, simulator.requests))

    points = ["whole", *deferred_run_runner.POINTS]
    assert submitted == len(points)
    stored = DirectoryStore(tmp_path / ".local/share/vibe-llms")
    said = [[text_of(each) for each in stored.read(name).canisters] for name in stored.survey()]
    assert sorted(said) == sorted([point, point] for point in points)


@pytest.mark.slow
def test_ctrl_c_leaves_the_batch_at_the_vendor(tmp_path: Path) -> None:
    """The command says how to go on, and to cancel; the same one reads what came of it."""
    (tmp_path / "prompts.jsonl").write_text('"one"\n"two"\n')
    options = ["-o", "answers.jsonl", "-m", "anthropic:claude-sonnet-4-5", "--yes"]
    command = [*VIBE, "batch", "prompts.jsonl", "--channel", "vendor", *options]
    with SynchronousSimulator() as simulator:
        environment = produce_environment(
            tmp_path,
            ANTHROPIC_API_KEY="sk-ant-simulated",
            ANTHROPIC_BASE_URL=simulator.access_url("batch_polls=1000"),
        )
        run = partial(
            subprocess.run,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        told = ""
        while "Submitted 2 requests as msgbatch_" not in told:
            told += process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, rest = process.communicate(timeout=60)
        cancelled = run([*command, "--cancel"])
        read = run(command)

    assert process.returncode == 130
    assert "at the vendor" in rest
    assert cancelled.returncode == 0, cancelled.stderr
    assert "Asked the vendor to stop 1 batch." in cancelled.stderr
    assert read.returncode == 1, read.stderr
    assert "2 failed" in read.stderr
    assert "One by one:" not in read.stderr
    lines = read_lines(tmp_path / "answers.jsonl")
    assert ["cancelled" in str(line["error"]) for line in lines] == [True, True]
