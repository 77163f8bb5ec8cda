"""Examples of properties are the same whichever modules of the project are imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import local_module
from hypothesis import given, settings, strategies
from support.quality.properties import load_profile

load_profile()
drawn = set()

@settings(max_examples=300)
@given(strategies.text())
def draw(text):
    drawn.add(text)

draw()
print(local_module.WORD in drawn)
"""


@pytest.mark.parametrize("profile", ["fixed", pytest.param("many", marks=pytest.mark.slow)])
def test_constants_of_modules_are_not_drawn(tmp_path: Path, profile: str) -> None:
    """In the profiles of CI: else a change of the sources, or another order, draws others."""
    (tmp_path / "local_module.py").write_text('WORD = "xyzzy"\n')
    folders = [str(tmp_path), str(Path(__file__).parents[1])]
    environment = {
        **os.environ,
        "HYPOTHESIS_PROFILE": profile,
        "PYTHONPATH": os.pathsep.join(folders),
    }

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )

    assert ended.stdout == "False\n", ended.stderr
