"""``vibe flow`` in a process of its own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from pathlib import Path

from command_line import VIBE, produce_environment
from flow_tasks import compose_task
from scripting import write_script


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
    found = re.search(r"Stopped\. Go on with: .* flow resume (\w+)", err)
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
