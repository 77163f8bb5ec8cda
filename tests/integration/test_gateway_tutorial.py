"""The tutorial of the gateway, followed as it is printed: serve, ask by a script, chat."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.network.ports import find_port

PAGE = Path(__file__).resolve().parents[2] / "documentation" / "tutorials" / "first-gateway.rst"
TEXT = PAGE.read_text(encoding="utf-8")
VIBE = Path(sys.executable).with_name("vibe")

pytestmark = pytest.mark.weights


def find_commands() -> list[str]:
    """Returns the commands of the page, in their order."""
    blocks = re.findall(r"^\.\. code-block:: sh\n\n((?:   .*\n|\n)+)", TEXT, re.MULTILINE)
    return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


@pytest.fixture
def environment(tmp_path: Path, weights: Path) -> dict[str, str]:
    """A home of its own, in which the weights are there already."""
    (tmp_path / "vibe.toml").write_text(
        f'[controls]\nmax_tokens = 24\n[providers.local]\npath = "{weights}"\n'
    )
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "VIBE_LLMS_CONFIG": str(tmp_path / "vibe.toml"),
        "PATH": f"{VIBE.parent}{os.pathsep}{os.environ['PATH']}",
    }


@pytest.fixture
def port(environment: dict[str, str]) -> Iterator[int]:
    """Where the first command of the page serves, on a port that is free."""
    chosen = find_port()
    command = f"exec {find_commands()[0]} --port {chosen}"
    process = subprocess.Popen(
        ["bash", "-c", command], env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    told = process.stderr.readline()
    assert told.strip() == find_promise().replace("8000", str(chosen))
    yield chosen
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    process.stderr.close()


def find_promise() -> str:
    """Returns what the page says that the gateway says."""
    found = re.search(r"^\.\. code-block:: text\n\n   (.*)\n", TEXT, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.slow
def test_the_tutorial_does_what_it_says(
    environment: dict[str, str], port: int, tmp_path: Path
) -> None:
    _, ask, configure, chat, *_ = find_commands()
    found = re.search(r"   :class: script\n\n((?:   .*\n|\n)+)", TEXT)
    assert found is not None
    script = textwrap.dedent(found[1]).replace("8000", str(port))
    (tmp_path / "ask.py").write_text(script)
    told = run(ask, environment, tmp_path)
    assert told.strip()

    run(configure.replace("8000", str(port)), environment, tmp_path)
    told = run(f"echo 'Good morning' | {chat}", environment, tmp_path)
    assert told.strip()


def run(command: str, environment: dict[str, str], folder: Path) -> str:
    """Runs a command of the page; returns what it prints."""
    done = subprocess.run(
        ["bash", "-c", command],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
