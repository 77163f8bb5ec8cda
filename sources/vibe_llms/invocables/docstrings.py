"""What a docstring says for a model: the text, and a line on each argument (Google's style)."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Final

from vibe_llms.values import frozen

_HEADINGS: Final = ("Args:", "Arguments:", "Parameters:")
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")


@frozen
class Docstring:
    """The text without the section on arguments, and what that says about each."""

    text: str
    arguments: dict[str, str]


def read_docstring(function: Callable[..., Any]) -> Docstring:
    """Reads the docstring of a function, or of the object that is called like one."""
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.isroutine(function) and not inspect.isclass(function):
        method = type(function).__call__ if callable(function) else None
        text = getattr(method, "__doc__", None) or type(function).__doc__
    else:
        text = function.__doc__
    return parse_docstring(text or "")


def parse_docstring(text: str) -> Docstring:
    """Takes a docstring apart."""
    lines = inspect.cleandoc(text).splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip() in _HEADINGS), None)
    if start is None:
        return Docstring("\n".join(lines).strip(), {})
    indent = _measure(lines[start])
    end = next(
        (
            i
            for i in range(start + 1, len(lines))
            if lines[i].strip() and _measure(lines[i]) <= indent
        ),
        len(lines),
    )
    rest = "\n".join([*lines[:start], *lines[end:]])
    return Docstring(re.sub(r"\n{3,}", "\n\n", rest).strip(), _read_entries(lines[start + 1 : end]))


def _measure(line: str) -> int:
    return len(line) - len(line.lstrip())


def _read_entries(lines: list[str]) -> dict[str, str]:
    """Reads the arguments: the least indented lines name them, the others go on."""
    filled = [line for line in lines if line.strip()]
    depth = min(map(_measure, filled), default=0)
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in filled:
        found = _ENTRY.fullmatch(line.strip()) if _measure(line) == depth else None
        if found is not None:
            current = entries.setdefault(found[1], [])
            current.append(found[2])
        else:
            current.append(line.strip())
    return {name: " ".join(parts).strip() for name, parts in entries.items()}
