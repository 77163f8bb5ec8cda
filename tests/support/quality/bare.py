"""Python environment with this package and its dependencies, without extras."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import vibe_llms


def make_bare_python(folder: Path) -> Path:
    """Create a virtual environment of links to installed packages; return its Python.

    Nothing is downloaded: the top-level files of each required distribution, and of pip, are
    linked.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    for name in sorted({*_survey_dependencies("vibe-llms"), "pip"}):
        distribution = metadata.distribution(name)
        tops = {file.parts[0] for file in distribution.files or () if file.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            target = packages / top
            if not target.exists():
                target.symlink_to(Path(str(distribution.locate_file(top))))
    own = metadata.distribution("vibe-llms")
    (record,) = {file.parts[0] for file in own.files or () if file.parts[0].endswith("-info")}
    (packages / record).symlink_to(Path(str(own.locate_file(record))))
    (packages / "sources.pth").write_text(str(Path(vibe_llms.__file__).parents[1]))
    return folder / "bin" / "python"


def _survey_dependencies(name: str, known: frozenset[str] = frozenset()) -> frozenset[str]:
    for requirement in map(Requirement, metadata.requires(name) or ()):
        is_needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if is_needed and requirement.name.lower() not in known:
            known = _survey_dependencies(requirement.name, known | {requirement.name.lower()})
    return known
