"""The code of the guide for authors of ensembles is run as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import vibe_llms

GUIDE = Path(__file__).parents[2] / "documentation" / "authors" / "first-ensemble.rst"
SOURCES = Path(vibe_llms.__file__).parents[1]
_FILE = re.compile(
    r"^\.\. code-block:: \w+\n   :caption: (?P<name>\S+)\n\n(?P<text>(?:   .*\n|\n)+)", re.MULTILINE
)
_OUTPUT = re.compile(r"^\.\. code-block:: text\n\n(?P<text>(?:   .*\n|\n)+)", re.MULTILINE)


def run_guide(folder: Path, settings: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the guide's files in a folder, as a reader would who has added a setting."""
    for found in _FILE.finditer(GUIDE.read_text(encoding="utf-8")):
        (folder / found["name"]).write_text(textwrap.dedent(found["text"]), encoding="utf-8")
    if settings:
        (folder / "config.toml").write_text(settings, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", "use_it.py"],
        cwd=folder,
        env={
            "HOME": str(folder),
            "PYTHONPATH": f"{SOURCES}:{folder}",
            "VIBE_LLMS_CONFIG": "config.toml",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_ensemble_of_the_guide_is_invoked(tmp_path: Path) -> None:
    """Who copies the guide's three files gets the output that it prints."""
    run = run_guide(tmp_path)

    output = _OUTPUT.search(GUIDE.read_text(encoding="utf-8"))
    assert output is not None
    assert (run.stdout.strip(), run.stderr) == (textwrap.dedent(output["text"]).strip(), "")


def test_a_wrong_setting_of_it_is_found_before_anything_runs(tmp_path: Path) -> None:
    """The mistake names its place and what is right there."""
    run = run_guide(tmp_path, "[ensembles.dice]\nmodule = 'dice_ensemble'\nsides = 1\n")

    assert "ensembles.dice.sides: It must be a whole number of at least 2." in run.stderr
    assert run.stdout == ""
