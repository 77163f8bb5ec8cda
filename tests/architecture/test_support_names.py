"""That tests and their programs use only names of ``tests/support`` that exist.

Many of these programs run only in slow tests, so that a renamed helper would be noticed late.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_names_that_tests_take_from_their_support_exist() -> None:
    wrong = [
        f"{path.relative_to(TESTS)}:{line}: {module}.{name}"
        for path in sorted(TESTS.rglob("*.py"))
        if "fixtures" not in path.parts
        for line, module, name in survey_uses(path)
        if name not in survey_names(module)
    ]

    assert wrong == []


def survey_uses(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the names that a file imports from modules of the support, or reaches in them."""
    text = path.read_text("utf-8")
    if "from support" not in text:
        return
    tree = ast.parse(text)
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("support"):
            continue
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            if locate(inner) is not None:
                modules[alias.asname or alias.name] = inner
            else:
                yield node.lineno, str(node.module), alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = modules.get(node.value.id)
            if module is not None and locate(f"{module}.{node.attr}") is None:
                yield node.lineno, module, node.attr


def locate(module: str) -> Path | None:
    """Return the file of a module of the support; ``None`` if there is none."""
    base = TESTS.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return base if base.is_dir() else None


@cache
def survey_names(module: str) -> frozenset[str]:
    """Return the names that a module defines or imports at its top."""
    path = locate(module)
    if path is None or path.is_dir():
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return frozenset(names)
