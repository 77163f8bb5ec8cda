"""What is imported is declared, and what is declared is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def normalize(requirement: str) -> str:
    """Returns the name of a requirement as package indexes compare it."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@cache
def survey_libraries() -> set[str]:
    """Returns the distributions that the sources import, anywhere in them."""
    modules: set[str] = set()
    for path in (ROOT / "sources").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                modules.add(node.module.partition(".")[0])
    foreign = modules - set(sys.stdlib_module_names) - {"vibe_llms"}
    homes = metadata.packages_distributions()
    return {
        _choose([normalize(home) for home in homes.get(module, [module])]) for module in foreign
    }


def _choose(homes: list[str]) -> str:
    """Returns the one that is declared, of several distributions that share a package."""
    declared = survey_declared()
    return next((home for home in homes if home in declared), homes[0])


def survey_declared() -> set[str]:
    """Returns the distributions that are declared, also those which only extras want."""
    extras = PROJECT["optional-dependencies"]
    ours = {"development", "checks", "equipment", "mutation"}
    optional = [each for name in extras.keys() - ours for each in extras[name]]
    return {normalize(each) for each in (*PROJECT["dependencies"], *optional)}


def test_what_is_imported_is_declared() -> None:
    """Whoever installs the package gets everything that it imports, directly and not by luck."""
    assert survey_libraries() <= survey_declared()


def test_what_is_declared_is_imported() -> None:
    """Nobody installs a library that the package does not use."""
    declared = {normalize(each) for each in PROJECT["dependencies"]}

    assert declared <= survey_libraries()
