"""An assertion that cannot fail tests nothing; most such are found by ruff, these are not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent.parent
CLAIMS = (ast.Compare, ast.BoolOp, ast.UnaryOp)
ALWAYS_TRUE = (ast.Tuple, ast.GeneratorExp, ast.Lambda)


def find_hollow(source: str) -> Iterator[int]:
    """Yields the lines of assertions whose claim stands where only the message is read."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and (
            isinstance(node.msg, CLAIMS) or isinstance(node.test, ALWAYS_TRUE)
        ):
            yield node.lineno


def test_no_assertion_has_its_claim_in_its_message() -> None:
    """``assert a, b == c`` asks whether there is an ``a``, and says the rest if there is none."""
    hollow = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if "fixtures" not in path.parts
        for line in find_hollow(path.read_text("utf-8"))
    ]

    assert not hollow, "Write the claim in brackets: " + ", ".join(hollow)


@pytest.mark.parametrize(
    "line",
    ["assert a, b == c", "assert (a, b)", "assert a, not b", "assert (x == 1 for x in a)"],
)
def test_a_hollow_assertion_is_found(line: str) -> None:
    """Each of the ways in which they have come in, or could."""
    assert list(find_hollow(f"def test() -> None:\n    {line}\n")) == [2]
    assert not list(find_hollow("assert (a, b) == c, (a, b)\n"))
