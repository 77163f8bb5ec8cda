"""A Python without any of the extras: what is missing is said, and nothing is fetched in vain."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.quality.bare import make_bare_python
from support.screens.command_line import produce_environment

Bare = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = "from vibe_llms.interfaces.cli.entry import main; main()"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python."""
    return make_bare_python(tmp_path_factory.mktemp("bare") / "venv")


@pytest.fixture
def bare(python: Path, tmp_path: Path) -> Bare:
    """Performs ``vibe`` with it, in a home where nothing was ever done."""

    def perform(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = produce_environment(tmp_path)
        for name in ("VIBE_LLMS_MODEL", "PYTHONPATH"):
            environment.pop(name)
        command = [str(python), "-c", PROGRAM, *arguments]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120
        )

    return perform


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("ask", "--yes", "Hi"), ("models", "pull", "--yes"), ("chat", "--yes")]
)
def test_nothing_is_fetched_for_a_model_that_could_not_be_run(
    bare: Bare, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """The missing package is told before weights would come, and the command that brings it."""
    outcome = bare(*arguments)

    assert outcome.returncode == 3
    assert "needs xllamacpp, which is not installed" in outcome.stderr
    assert '-m pip install "xllamacpp' in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert not [path for path in tmp_path.rglob("*") if "weights" in path.name]


@pytest.mark.slow
def test_the_command_of_the_remedy_runs_as_it_is_printed(bare: Bare, python: Path) -> None:
    """It names the Python that lacks the package, and a requirement that pip understands."""
    remedy = bare("ask", "Hi").stderr.partition("Install it: ")[2]

    command = shlex.split(remedy)
    assert command[0] == str(python)
    report = subprocess.run(
        [*command, "--dry-run", "--no-index", "--no-deps", "--quiet"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "No matching distribution found for xllamacpp" in report.stderr


@pytest.mark.slow
def test_the_providers_and_the_check_tell_the_truth(bare: Bare) -> None:
    """What lacks its package is not called ready, and the configured model is a finding."""
    listed = {each["name"]: each for each in json.loads(bare("providers", "--json").stdout)}
    check = bare("config", "check")

    kinds = {name: [each["kind"] for each in row["missing"]] for name, row in listed.items()}
    assert kinds["local"] == ["package", "weights"]
    assert kinds["bedrock"] == ["setting", "package"]
    assert kinds["scripted"] == []
    assert check.returncode == 3
    assert "Cannot use local:smollm2 without the package xllamacpp" in check.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("ask", "--model", "bedrock:m", "Hi"),
        ("ask", "--model", "scripted:echo", "--mcp", "server.toml", "Hi"),
        ("conformance", "vibe_llms.providers.scripted"),
        ("ask", "--model", "scripted:echo", "--usage", "Hi"),
    ],
)
def test_no_remedy_names_a_package_that_no_index_has(
    bare: Bare, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Ours is on none: what is named are the packages themselves."""
    (tmp_path / "server.toml").write_text('[mcp.one]\ncommand = "true"\n')

    outcome = bare(*arguments)

    assert "Traceback" not in outcome.stderr
    assert "vibe-llms[" not in outcome.stdout + outcome.stderr
    assert "pip install vibe" not in outcome.stdout + outcome.stderr


@pytest.mark.slow
def test_the_screen_of_runs_tells_what_it_lacks(bare: Bare) -> None:
    """In one line, with the command that brings it."""
    outcome = bare("top")

    assert outcome.returncode == 3
    assert "`vibe top` needs textual, which is not installed" in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1


def test_no_text_of_ours_recommends_our_package_from_an_index() -> None:
    """Neither in the sources nor in the pages."""
    root = Path(__file__).parents[2]
    pages = [root / "README.rst", *(root / "documentation").rglob("*.rst")]
    texts = [*pages, *(root / "sources").rglob("*.py")]

    assert [path for path in texts if _RECOMMENDED.search(path.read_text("utf-8"))] == []


_RECOMMENDED = re.compile(r"install\s+[^\n`]*?(?<![/\w])vibe-llms")
