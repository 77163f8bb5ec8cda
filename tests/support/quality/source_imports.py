"""The package's modules and what each imports, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "sources" / "vibe_llms"


class Import(NamedTuple):
    """One import: the importing and the imported module, and its place."""

    importer: str
    imported: str
    place: str
    is_for_types: bool


def name_module(path: Path) -> str:
    """Return the name of a module relative to the package; empty for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def survey_modules() -> dict[str, Path]:
    """Return every module of the package by its relative name."""
    return {name_module(path): path for path in PACKAGE.rglob("*.py")}


def survey_imports(name: str, path: Path) -> Iterator[Import]:
    """Yield the imports of a module, also those inside functions."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative imports hide the layer"
            targets = [f"{node.module}.{alias.name}" for alias in node.names]
        for target in targets:
            place = f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]
            yield Import(name, target, place, node in typing_only)


MODULES = survey_modules()


@cache
def list_imports() -> list[Import]:
    """Return all imports. Reading them takes seconds, so do not call this at import time."""
    return [found for name, path in MODULES.items() for found in survey_imports(name, path)]


def strip_package(name: str) -> str | None:
    """Return a name relative to this package, or ``None`` for one of another package."""
    prefix, _, rest = name.partition(".")
    return rest if prefix == "vibe_llms" else None
