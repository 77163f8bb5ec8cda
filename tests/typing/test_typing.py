"""The public face infers what it promises: the type checker reads the other files here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@pytest.mark.slow  # the type checker reads all of the sources; CI does
def test_the_type_checker_agrees() -> None:
    """A program that uses the public names gets the types which these files state."""
    files = sorted(str(path) for path in HERE.glob("*.py") if not path.name.startswith("test_"))
    outcome = subprocess.run(
        [
            sys.executable,
            *("-m", "mypy", "--no-error-summary", "--config-file", str(ROOT / "pyproject.toml")),
            *files,
        ],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": str(ROOT / "sources")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
