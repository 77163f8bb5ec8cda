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

OTHER_UNITS = ("configuration", "events", "models", "telemetry", "wire")
"""The quickest unit tests that are none of any vendor's business; CI runs all of them anyway."""


def copy_tree(home: Path, *vendors: str, tried: bool = True) -> Path:
    """Copies the project without the folders of some vendors.

    Args:
        tried: With tests, and the documentation that these read.
    """
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    for name in ("sources", "data", *(("documentation", "tests") if tried else ())):
        shutil.copytree(ROOT / name, home / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", home)
    for vendor in vendors:
        shutil.rmtree(home / "sources" / "vibe_llms" / "providers" / vendor)
    return home


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


def test_everything_else_still_imports(tmp_path: Path) -> None:
    """Without any vendor every other module can be imported.

    That no vendor needs another is the contract ``vendors`` of import-linter.
    """
    outcome = run_in(
        copy_tree(tmp_path, *VENDORS, tried=False), "-W", "error", "-c", IMPORT_EVERYTHING
    )

    assert outcome.returncode == 0, outcome.stderr
    assert int(outcome.stdout) > 100


@pytest.mark.slow
def test_everything_else_still_works(tmp_path: Path) -> None:
    """Without any vendor at all the unit tests of everything else pass: one can go, then."""
    tree = copy_tree(tmp_path, *VENDORS)
    folders = [str(tree / "tests" / "unit" / name) for name in OTHER_UNITS]
    outcome = run_in(tree, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *folders)

    assert outcome.returncode == 0, outcome.stdout[-4000:]
