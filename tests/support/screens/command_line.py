"""Command and environment for ``vibe`` in a process and a home of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import vibe_llms

VIBE = [sys.executable, "-c", "from vibe_llms.interfaces.cli.entry import main; main()"]
"""The command; it also works if the package is importable but not installed."""


def produce_environment(home: Path, **variables: str) -> dict[str, str]:
    """Return an environment without the user's settings, in which the package is importable."""
    kept = {
        name: value
        for name, value in os.environ.items()
        # COLUMNS and LINES are those of the terminal that runs the tests.
        if not name.startswith(("XDG_", "VIBE_", "COMP_", "_VIBE", "COLUMNS", "LINES"))
    }
    sources = str(Path(vibe_llms.__file__).parents[1])
    path = os.pathsep.join(filter(None, [sources, kept.get("PYTHONPATH", "")]))
    return {
        **kept,
        "HOME": str(home),
        "PYTHONPATH": path,
        "PYTHONIOENCODING": "utf-8",
        "VIBE_LLMS_MODEL": "scripted:echo",
        **variables,
    }
