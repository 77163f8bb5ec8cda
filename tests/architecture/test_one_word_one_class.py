"""A word names one class, wherever it stands: who reads it need not ask which one is meant."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

PACKAGE = Path(__file__).resolve().parents[2] / "sources" / "vibe_llms"

FAMILIES: Final = {
    "BlocksWriter",
    "Decoder",
    "GrowingBlock",
    "PartsWriter",
    "Quirks",
    "StreamWriter",
}
"""What each dialect has of its own, under the name by which its package is asked for it."""


def test_a_word_names_one_class() -> None:
    homes = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(PACKAGE)))
    shared = {name: where for name, where in homes.items() if len(where) > 1}

    assert not {name: where for name, where in shared.items() if name not in FAMILIES}
    assert all(path.startswith("dialects/") for name in FAMILIES for path in shared[name])
