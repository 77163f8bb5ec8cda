"""Finder of the modules of this package, which knows their place.

Python's finder lists each folder and tries the suffixes of extension modules first. It takes three
times as long for each of the some two hundred modules of a command. A module of this package is a
file in the folder of its parent, or a folder with ``__init__.py``; any other one is left to Python.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, SourceFileLoader
from os import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_OURS = "vibe_llms."


class PackageFinder:
    """Finder for the start of ``sys.meta_path``."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module of this package, ``None`` if it is not in its place."""
        if not (path and name.startswith(_OURS)):
            return None
        folder = f"{path[0]}/{name.rpartition('.')[2]}"
        for file, places in ((f"{folder}.py", None), (f"{folder}/__init__.py", [folder])):
            try:
                stat(file)  # noqa: PTH116  # pathlib is not imported yet
            except OSError:
                continue
            spec = ModuleSpec(name, SourceFileLoader(name, file), origin=file)
            spec.submodule_search_locations = places
            spec.has_location = True
            return spec
        return None


def install() -> None:
    """Find the modules of this package by this finder, in this process."""
    if PackageFinder not in sys.meta_path:
        sys.meta_path.insert(0, PackageFinder)
