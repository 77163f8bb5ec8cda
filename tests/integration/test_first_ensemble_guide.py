"""A mistake in the settings of the guide's ensemble; tests/examples run the page itself."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import vibe_llms

GUIDE = Path(__file__).parents[2] / "documentation" / "authors" / "first-ensemble.rst"
SOURCES = Path(vibe_llms.__file__).parents[1]
_MODULE = re.compile(r"^   :caption: dice/(?P<name>sources\S+)\n\n(?P<text>(?:   .*\n|\n)+)", re.M)
_SETTINGS = "[ensembles.dice]\nmodule = 'vibe_dice'\nsides = 1\n"


@pytest.mark.slow
def test_a_wrong_setting_of_it_is_found_before_anything_runs(tmp_path: Path) -> None:
    """The mistake names its place and what is right there."""
    found = _MODULE.search(GUIDE.read_text(encoding="utf-8"))
    assert found is not None
    module = tmp_path / found["name"]
    module.parent.mkdir(parents=True)
    module.write_text(textwrap.dedent(found["text"]), encoding="utf-8")
    (tmp_path / "config.toml").write_text(_SETTINGS, encoding="utf-8")

    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "vibe_llms.interfaces.cli.entry",
            "tools",
            "show",
            "-t",
            "dice",
            "throw",
        ],
        cwd=tmp_path,
        env={
            "HOME": str(tmp_path),
            "PYTHONPATH": f"{SOURCES}:{module.parents[1]}",
            "VIBE_LLMS_CONFIG": "config.toml",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    assert "ensembles.dice.sides: It must be a whole number of at least 2." in run.stderr
    assert run.stdout == ""
