"""Adapt docstrings for autodoc and napoleon.

Napoleon reads the text before a colon in the first line of a property as its type, and several
attribute names before one colon as one name. This extension prevents both.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_SEVERAL = re.compile(r"( +)(\w+(?:, \w+)+): (.+)")


def prepare(what: str, lines: list[str]) -> None:
    """Adapt the lines of a docstring in place."""
    if what in ("attribute", "data", "property") and lines:
        lines[0] = f": {lines[0]}"  # no type before the colon
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
    """Register the handler before napoleon, whose priority is the default, 500."""
    from sphinx.util.inspect import TypeAliasForwardRef

    # Sphinx shows an alias within ``tuple[…]`` by its ``repr``.
    TypeAliasForwardRef.__repr__ = lambda alias: alias.name  # type: ignore[method-assign]
    app.connect("autodoc-process-docstring", _prepare, priority=400)
    return {"parallel_read_safe": True}
