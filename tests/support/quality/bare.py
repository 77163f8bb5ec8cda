"""A Python that has this package and what it depends on, and none of the extras."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

import vibe_llms


def make_bare_python(folder: Path) -> Path:
    """Makes a virtual environment of links to what is installed here; returns its Python.

    Nothing is fetched: each distribution that the package depends on without extras, and pip, is
    linked by its top-level files.
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
