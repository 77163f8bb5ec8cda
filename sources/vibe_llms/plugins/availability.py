"""Availability of modules, without importing anything."""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Sequence
from pathlib import Path


def is_importable(module: str, directories: Sequence[str] = ()) -> bool:
    """Return whether an import of the module would find it.

    ``importlib.util.find_spec`` would import the parent packages, and run their code.

    Args:
        module: Dotted name of the module.
        directories: Searched in addition to ``sys.path``.
    """
    if module in sys.modules:
        # Python has None there for a module that must not be imported.
        return sys.modules[module] is not None
    name, *rest = module.split(".")
    spec = _find_spec(name, None) or importlib.machinery.PathFinder.find_spec(
        name, list(directories)
    )
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return False
        name, locations = f"{name}.{part}", list(spec.submodule_search_locations)
        try:
            spec = _find_spec(name, locations)
        except KeyError:  # a namespace inside a namespace: Python requires its imported parent
            spec = _describe_namespace(name, locations)
    return spec is not None


def _find_spec(name: str, locations: list[str] | None) -> importlib.machinery.ModuleSpec | None:
    """Ask the finders in the order in which an import would."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: importlib.machinery.ModuleSpec | None = find(name, locations) if find else None
        if spec is not None:
            return spec
    return None


def _describe_namespace(name: str, locations: list[str]) -> importlib.machinery.ModuleSpec | None:
    """Return the specification of a namespace package: all folders of its name, if any."""
    portion = name.rpartition(".")[2]
    folders = [str(path) for place in locations if (path := Path(place) / portion).is_dir()]
    if not folders:
        return None
    spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
    spec.submodule_search_locations = folders
    return spec
