"""A promise that is broken says what was promised, what happened, and what to do."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vibe_llms
from vibe_llms.testing import contracts

EXAMPLES = Path(__file__).parents[2] / "fixtures" / "example-plugins"
SOURCES = Path(vibe_llms.__file__).parents[1]
MODULES = sorted(Path(contracts.__file__).parent.glob("*.py"))


def try_contract(module: str, home: Path) -> list[str]:
    """Returns what the command tells of a module's broken promises, and of how many are kept."""
    outcome = subprocess.run(
        [sys.executable, "-m", "vibe_llms.interfaces.cli.entry", "conformance", module],
        cwd=EXAMPLES,
        env={"PYTHONPATH": str(SOURCES), "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"^BROKEN  .+\n +(.+)\n +(.+)$", outcome.stdout, re.MULTILINE)
    return [*found, outcome.stderr.strip()]


@pytest.mark.slow
def test_a_provider_that_keeps_the_easy_promises_is_told_of_the_others_in_words(
    tmp_path: Path,
) -> None:
    """Each broken promise comes with sentences, and none with Python's own."""
    *broken, total = try_contract("careless_provider", tmp_path)

    assert total == "19 of 25 promises hold."
    assert len(broken) == 6
    for meaning, reason in broken:
        assert meaning.endswith(".")
        assert len(re.findall(r"\.(?: |$)", reason)) >= 2, reason
        assert not re.search(r"assert|DID NOT|Error:|generator object|where ", reason), reason


def test_no_promise_is_a_bare_assertion() -> None:
    """What the contract holds, it holds in words of its own."""
    bare = [
        f"{path.name}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Assert)
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "pytest.raises")
    ]

    assert not bare
