"""Location of the programs of a PostgreSQL server, which CI installs."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path


def find_programs() -> Path | None:
    """Return the folder of ``initdb`` and ``postgres``; Debian does not add it to PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=_read_version)
    named = shutil.which("initdb")
    return found[-1].parent if found else Path(named).resolve().parent if named else None


def _read_version(path: Path) -> int:
    name = path.parents[1].name
    return int(name) if name.isdigit() else 0


def find_missing() -> str:
    """Return what is missing; empty if everything is installed."""
    if find_programs() is None:
        return "postgresql is not installed"
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    return ""
