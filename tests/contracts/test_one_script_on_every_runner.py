"""The script of the tutorial gives the same answers on every runner, unchanged."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.runs.acting import say
from support.runs.scripting import write_script
from support.stores.postgresql_server import produce_url

LACKING = pytest.mark.skipif(find_spec("dbos") is None, reason="dbos is not installed")
TUTORIAL = Path(__file__).parents[2] / "documentation" / "tutorials" / "first-runner.rst"
EXPECTED = "ended answered ['What is a queue?', 'A line that is served in order.']\n"


def write_program(folder: Path) -> None:
    found = re.search(r":caption: question.py\n\n((?:   .*\n|\n)+)", TUTORIAL.read_text("utf-8"))
    assert found is not None
    (folder / "question.py").write_text(textwrap.dedent(found[1]))


async def ask(folder: Path, url: str) -> str:
    """Run the program; return what it prints."""
    homes = {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        folder / "question.py",
        url,
        cwd=folder,
        env={**os.environ, **homes, "VIBE_LLMS_CONFIG": str(folder / "config.toml")},
        stdout=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        printed, _ = await process.communicate()
    return printed.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "base",
    [
        "local",
        pytest.param("sqlite", marks=LACKING),
        pytest.param("postgresql", marks=[LACKING, pytest.mark.postgresql]),
    ],
)
async def test_the_script_of_the_tutorial_prints_the_same(tmp_path: Path, base: str) -> None:
    write_program(tmp_path)
    path = write_script(tmp_path, {"contents": [say("A line that is served in order.")]})
    (tmp_path / "config.toml").write_text(f'model = "scripted:{path}"\n')
    url = {"local": lambda: "local:", "sqlite": lambda: f"sqlite:///{tmp_path}/runs.db"}
    named = produce_url(tmp_path) if base == "postgresql" else url[base]()
    for _ in range(2):  # asked again under its key, it is the same run
        assert await ask(tmp_path, named) == EXPECTED


@pytest.mark.slow
async def test_the_script_prints_why_it_failed(tmp_path: Path) -> None:
    """For example, if the model does not exist: this is the first error that a new user meets."""
    write_program(tmp_path)
    (tmp_path / "config.toml").write_text(f'model = "scripted:{tmp_path}/nowhere.json"\n')
    printed = await ask(tmp_path, "local:")
    assert printed.startswith("ended failed ")
    assert "nowhere.json" in printed
