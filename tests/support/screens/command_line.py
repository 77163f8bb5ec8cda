"""Performs ``vibe`` in a process of its own, with a home of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import vibe_llms

VIBE = [sys.executable, "-c", "from vibe_llms.interfaces.cli.entry import main; main()"]
"""The command, also where the package is not installed but only importable."""


def produce_environment(home: Path, **variables: str) -> dict[str, str]:
    """Return an environment without anything of the user's own, but what finds the package."""
    kept = {
        name: value
        for name, value in os.environ.items()
        # The sizes are those of whoever runs the tests, or of nobody.
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
