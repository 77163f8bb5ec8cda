"""Any vendor's folder can be deleted, and everything else goes on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENDORS = sorted(
    path.parent.name
    for path in (ROOT / "sources" / "vibe_llms" / "providers").glob("*/__init__.py")
)

IMPORT_EVERYTHING = """
import importlib, pkgutil, vibe_llms
names = [each.name for each in pkgutil.walk_packages(vibe_llms.__path__, "vibe_llms.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""

OTHER_UNITS = ("configuration", "events", "models")
"""The quickest unit tests that are none of any vendor's business; CI runs all of them anyway."""


@pytest.fixture(params=VENDORS)
def bereft_tree(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the project in which one vendor's folder and data are gone."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    for name in ("sources", "data", "documentation", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.rmtree(tmp_path / "sources" / "vibe_llms" / "providers" / request.param)
    return tmp_path


def run_in(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Python on the copy."""
    return subprocess.run(
        [sys.executable, "-B", *arguments],
        cwd=tree,
        env={
            **os.environ,
            "PYTHONPATH": str(tree / "sources"),
            "HYPOTHESIS_PROFILE": "brief",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_everything_else_still_imports(bereft_tree: Path) -> None:
    """Without one vendor every other module can be imported."""
    outcome = run_in(bereft_tree, "-W", "error", "-c", IMPORT_EVERYTHING)

    assert outcome.returncode == 0, outcome.stderr
    assert int(outcome.stdout) > 100


def test_everything_else_still_works(bereft_tree: Path) -> None:
    """Without one vendor the unit tests of what lies below the providers pass."""
    folders = [str(bereft_tree / "tests" / "unit" / name) for name in OTHER_UNITS]
    outcome = run_in(bereft_tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *folders)

    assert outcome.returncode == 0, outcome.stdout[-4000:]
