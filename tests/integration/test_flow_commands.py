"""``vibe flow`` in a process of its own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

from support.flows.flow_tasks import compose_task
from support.runs.scripting import write_script
from support.screens.command_line import VIBE, produce_environment


@pytest.mark.slow
def test_ctrl_c_stops_a_run_and_says_how_it_goes_on(tmp_path: Path) -> None:
    """The request in flight is stopped, and what was answered before is not asked again."""
    script = write_script(
        tmp_path,
        {"match": "slow", "contents": [{"text": "late"}], "delay_seconds": 60},
        {"contents": [{"text": "{input}"}]},
    )
    task = compose_task("START --> P0 --> P1 --> END", "quick", "{{word}}", script=script)
    (tmp_path / "task.json").write_text(json.dumps(task), encoding="utf-8")
    environment = produce_environment(tmp_path)
    process = subprocess.Popen(
        [*VIBE, "flow", "run", "task.json", "word=slow"],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("P1"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (130, "")
    found = re.search(r"Stopped\. Resume with: .* flow resume (\w+)", err)
    assert found, err
    resumed = subprocess.run(
        [*VIBE, "flow", "fork", found[1], "P1", "word=soon"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (resumed.returncode, resumed.stdout) == (0, "soon\n"), resumed.stderr
    assert "P0 …" not in resumed.stderr


@pytest.mark.slow
def test_a_killed_run_has_broken_off_and_every_command_says_how_it_goes_on(
    tmp_path: Path,
) -> None:
    """Its process is gone: nothing is waited for, and nothing is said to have been heard."""
    script = write_script(
        tmp_path,
        {"match": "slow", "contents": [{"text": "late"}], "delay_seconds": 600},
        {"contents": [{"text": "{input}"}]},
    )
    task = compose_task("START --> P0 --> P1 --> END", "quick", "{{word}}", script=script)
    (tmp_path / "task.json").write_text(json.dumps(task), encoding="utf-8")

    def vibe(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*VIBE, *arguments],
            cwd=tmp_path,
            env=produce_environment(tmp_path),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def read_state(identity: str) -> str:
        state: str = json.loads(vibe("runs", "show", identity, "--json").stdout)["state"]
        return state

    process = subprocess.Popen(
        [*VIBE, "flow", "run", "task.json", "word=slow"],
        cwd=tmp_path,
        env=produce_environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    with process:
        for line in process.stderr:
            if line.startswith("P1"):
                break
        identity = vibe("runs", "list").stdout.split("\t")[0]
        assert read_state(identity) == "working"
        watching = subprocess.Popen(
            [*VIBE, "runs", "watch", identity],
            cwd=tmp_path,
            env=produce_environment(tmp_path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with watching:
            assert watching.stdout is not None
            for line in watching.stdout:
                if "P1 starts" in line:
                    break
            process.kill()  # while it is watched
            _, err = watching.communicate(timeout=60)
            assert watching.returncode == 0, err
            assert f"flow resume {identity}" in err

    assert read_state(identity) == "broken_off"
    for arguments in (["list"], ["watch", identity], ["show", identity]):
        told = vibe("runs", *arguments)
        assert f"flow resume {identity}" in told.stderr, arguments
    assert vibe("runs", "list").stdout.split("\t")[1] == "broken off"
    assert vibe("runs", "list", "--state", "working").stdout == ""
    stopped = vibe("runs", "stop", identity)
    assert "stopped" in stopped.stdout
    assert f"flow resume {identity}" in stopped.stderr
    assert read_state(identity) == "stopped"
    assert f"flow resume {identity}" in vibe("runs", "watch", identity).stderr
