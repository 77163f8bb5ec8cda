"""What a guide imports is in the reference: nobody has to read the sources to go on from there."""

from __future__ import annotations

import ast
import importlib
import re
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTATION = ROOT / "documentation"
_DIRECTIVE = re.compile(r"^\.\. auto(\w+):: ([\w.]+)\n((?:   .*\n)*)", re.MULTILINE)
_BLOCK = re.compile(r"^\.\. code-block:: python\n(?:   :.*\n)*\n((?:   .*\n|\n)+)", re.MULTILINE)


def survey_documented() -> set[str]:
    """Returns the names that the reference documents, each by itself or with its module."""
    documented = set()
    for page in (DOCUMENTATION / "reference").glob("*.rst"):
        text = page.read_text("utf-8")
        for kind, target, options in _DIRECTIVE.findall(text):
            members = re.search(r":members:(.*)", options)
            if kind != "module":
                documented.add(target.rpartition(".")[2])
            elif members and members[1].strip():
                documented |= {name.strip() for name in members[1].split(",")}
            elif members:
                own = vars(importlib.import_module(target)).items()
                documented |= {n for n, v in own if getattr(v, "__module__", "") == target}
        documented |= set(re.findall(r"``vibe_llms\.([\w.]+)``", text))
    return documented


def survey_imported() -> set[tuple[str, str, str]]:
    """Returns page, module and name of all that examples import from below the top."""
    return {
        (page.name, node.module or "", alias.name)
        for folder in ("tutorials", "guides", "authors", "reference")
        for page in (DOCUMENTATION / folder).glob("*.rst")
        for block in _BLOCK.findall(page.read_text("utf-8"))
        for node in ast.walk(ast.parse(textwrap.dedent(block)))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vibe_llms.")
        for alias in node.names
    }


def is_module(module: str, name: str) -> bool:
    """Tells whether a name is a module, which the page is about as a whole."""
    return (ROOT / "sources" / Path(*module.split("."), name)).is_dir()


def test_what_examples_import_is_in_the_reference() -> None:
    """Every name of an example has its entry; those at the top are in a table of their own."""
    documented = survey_documented()
    imported = survey_imported()

    assert imported
    assert not sorted(
        (page, name)
        for page, module, name in imported
        if name not in documented and not is_module(module, name)
    )
