"""The last step of the tutorial of the runner: a worker and a PostgreSQL database."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from support.stores.postgresql_server import produce_url
from support.vendors import embedded

PAGE = Path(__file__).resolve().parents[2] / "documentation" / "tutorials" / "first-runner.rst"
URL = "postgresql://vibe@database.example/vibe"
"""The database that the page names."""


@pytest.mark.postgresql
@pytest.mark.weights
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    program = re.search(r"   :caption: question.py\n\n((?:   .*\n|\n)+)", page)
    assert program is not None
    (tmp_path / "question.py").write_text(textwrap.dedent(program[1]), encoding="utf-8")
    url = produce_url(tmp_path)
    ask, work = (line.strip().replace(URL, url) for line in re.findall(rf".* {URL}\n", page))
    embedded.lend_weights(tmp_path / "data" / "vibe-llms")
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    with subprocess.Popen(
        ["bash", "-c", f"exec {work}"], cwd=tmp_path, env=environment, stderr=subprocess.PIPE
    ) as worker:
        assert worker.stderr is not None
        told = worker.stderr.readline()
        asked = subprocess.run(
            ["bash", "-c", ask], cwd=tmp_path, env=environment, capture_output=True, timeout=240
        )
        worker.send_signal(signal.SIGTERM)
        complained = worker.stderr.read()

    assert asked.returncode == 0, (told, asked.stderr)
    assert asked.stdout.startswith(b"ended answered ['What is a queue?', "), asked.stdout
    assert worker.returncode == 0, complained
