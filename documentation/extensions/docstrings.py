"""Hands docstrings on to napoleon in the form that it understands.

It takes what stands before a colon in the first line of a property for its type, and several
names of attributes before one colon for one name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_SEVERAL = re.compile(r"( +)(\w+(?:, \w+)+): (.+)")


def prepare(what: str, lines: list[str]) -> None:
    """Changes the lines of a docstring in place, as autodoc wants it."""
    if what in ("attribute", "data", "property") and lines:
        lines[0] = f": {lines[0]}"  # there is no type before the colon
    for number in range(len(lines) - 1, -1, -1):
        found = _SEVERAL.fullmatch(lines[number])
        if found is None:
            continue
        indent, names, text = found.groups()
        end = number + 1
        while end < len(lines) and lines[end].startswith(f"{indent}    "):
            end += 1
        rest = lines[number + 1 : end]
        lines[number:end] = [
            line for name in names.split(", ") for line in (f"{indent}{name}: {text}", *rest)
        ]


def _prepare(app: Sphinx, what: str, name: str, obj: object, options: object, lines: Any) -> None:
    prepare(what, lines)


def setup(app: Sphinx) -> dict[str, Any]:
    """Comes before napoleon, whose priority is the usual one, 500."""
    app.connect("autodoc-process-docstring", _prepare, priority=400)
    return {"parallel_read_safe": True}
