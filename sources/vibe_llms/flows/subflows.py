"""Subflow files: a ``[[name]]`` node runs a task file in the folder of its own task."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.suggestions import end_among

SUFFIXES: Final = (".json", ".toml")

INPUT: Final = "input"
"""Variable with which a subflow receives the last response before it."""

_NAME: Final = re.compile(r"[^\s./\\\x00-\x1f][^/\\\x00-\x1f]{0,127}")
_MAX_LISTED: Final = 20
"""Maximum number of files that an error message lists."""


@frozen
class SubflowRefusal:
    """Reason why a name does not refer to a task."""

    message: str


def find_subflow(folder: Path | None, name: str) -> Path | SubflowRefusal:
    """Find the file of a subflow.

    Args:
        folder: Folder of the task that names it; ``None`` if that was not read from a file.
        name: Text on the node: the file's name, with or without its suffix.
    """
    name = name.strip()
    if folder is None:
        return SubflowRefusal(
            f"[[{name}]] names a task in the same folder, but this task has no file: write "
            "it to one."
        )
    if not _NAME.fullmatch(name):
        return SubflowRefusal(
            f"{name!r} is not a task: write the name of a file in the same folder, such as "
            "[[review]] for review.json."
        )
    file_names = [name] if name.endswith(SUFFIXES) else [name + suffix for suffix in SUFFIXES]
    for each in file_names:
        if (folder / each).is_file():
            return folder / each
    known = sorted(each.stem for each in folder.iterdir() if each.suffix in SUFFIXES)[:_MAX_LISTED]
    return SubflowRefusal(
        f"{' or '.join(file_names)} does not exist in the folder of this task"
        f"{end_among(name, known)}"
    )
