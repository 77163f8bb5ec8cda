"""Prints how large modules and functions are: ``python tests/architecture/report_sizes.py``."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "sources" / "vibe_llms"


class Size(NamedTuple):
    """How many lines something has, and where it stands."""

    lines: int
    place: str


def measure_modules() -> list[Size]:
    """Returns the sizes of all modules, the longest first."""
    return sorted(
        (
            Size(len(path.read_text("utf-8").splitlines()), str(path.relative_to(PACKAGE)))
            for path in PACKAGE.rglob("*.py")
        ),
        reverse=True,
    )


def measure_functions() -> list[Size]:
    """Returns the sizes of all functions without their docstrings, the longest first."""
    return sorted(
        (
            Size(count_lines(node), f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}")
            for path in PACKAGE.rglob("*.py")
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        reverse=True,
    )


def count_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Counts the lines of a function; what its docstring teaches does not make it long."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        lines -= (docstring.end_lineno or docstring.lineno) - docstring.lineno + 1
    return lines


def main() -> None:
    """Prints the middle, the ninth tenth and the ten longest of each kind."""
    for kind, sizes in (("modules", measure_modules()), ("functions", measure_functions())):
        lines = [size.lines for size in sizes]
        tenths = statistics.quantiles(lines, n=10)
        print(
            f"{len(lines)} {kind}: middle {statistics.median(lines):g}, nine in ten {tenths[8]:g}"
        )
        for size in sizes[:10]:
            print(f"  {size.lines:5d}  {size.place}")


if __name__ == "__main__":
    main()
